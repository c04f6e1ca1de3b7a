"""Where a plan stands among all others: its neighbours on the cost-time front, and the limits that hold it back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rb_core.dag import ExecutionDAG
from rb_core.expectation import ExpectedModel, expected
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.candidate import Candidate
from rb_core.planners.exact import Exact, front

_SEED = 0
"""Of the planning under other limits; fixed, so that a plan always stands in the same place."""

_SAME = 1e-6
"""Plans that differ by less than this fraction are taken to be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A plan among those that none beats.

    Attributes:
        jct_s: its expected time.
        cost_usd: its expected cost.
        cheaper: the fastest plan of the front that is cheaper; None when the plan is the cheapest.
        faster: the cheapest plan of the front that is faster; None when the plan is the fastest.
        objective_binds: whether the deadline or budget keeps a plan out that would otherwise be preferred; None
            without an objective.
        nodes: the most nodes that the plan holds at one time.
        max_nodes: how many it may.
        relieved_nodes: another limit of nodes that was tried because the plan is at its limit; None where it is not.
        relieved: expected (time, cost) of the best plan under that limit; None where it was not tried.
    """

    jct_s: float
    cost_usd: float
    cheaper: Candidate | None
    faster: Candidate | None
    objective_binds: bool | None
    nodes: int
    max_nodes: int
    relieved_nodes: int | None = None
    relieved: tuple[float, float] | None = None

    @property
    def nodes_bind(self) -> bool:
        """Whether more nodes were seen to allow a better plan."""
        return self.relieved is not None


def standing(problem: Problem, plan: AllocationPlan, *, plans: Sequence[Candidate] | None = None) -> Standing:
    """Where a plan stands.

    Args:
        problem: with its deadline in seconds, if it has one.
        plan: the plan.
        plans: the problem's front when it is known already.

    Raises:
        InvalidInput: the plan does not fit the problem.
    """
    lanes = ExecutionDAG.build(problem, plan).lanes
    jct_s, cost_usd = expected(problem, plan)
    best = front(ExpectedModel(problem)) if plans is None else plans
    faster = [candidate for candidate in best if candidate.jct_s < jct_s * (1 - _SAME)]
    cheaper = [candidate for candidate in best if candidate.cost_usd < cost_usd * (1 - _SAME)]
    nodes = sum(max(step.placement.nodes for step in lane) for lane in lanes)
    wanted = problem.objective
    told = Standing(
        jct_s=jct_s,
        cost_usd=cost_usd,
        cheaper=min(cheaper, key=lambda c: c.jct_s, default=None),
        faster=min(faster, key=lambda c: c.cost_usd, default=None),
        objective_binds=None if wanted is None else bool(faster if wanted.deadline_s is None else cheaper),
        nodes=nodes,
        max_nodes=problem.cloud.max_nodes,
    )
    return _relieved(problem, told) if wanted and nodes >= problem.cloud.max_nodes else told


def _relieved(problem: Problem, told: Standing) -> Standing:
    """The same with what twice as many nodes would allow, if that is anything better."""
    more = 2 * problem.cloud.max_nodes
    wider = dataclasses.replace(problem, cloud=dataclasses.replace(problem.cloud, max_nodes=more))
    figures = expected(wider, Exact().plan(wider, np.random.default_rng(_SEED)))
    by_time = problem.objective is not None and problem.objective.budget_usd is None
    before, after = (told.cost_usd, figures[1]) if by_time else (told.jct_s, figures[0])
    better = after < before * (1 - _SAME)
    return dataclasses.replace(told, relieved_nodes=more, relieved=figures if better else None)
