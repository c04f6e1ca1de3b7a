"""What would make an infeasible problem feasible: the nearest deadline or budget, and how many more nodes would do."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from rb_core.expectation import ExpectedModel
from rb_core.plan import Problem
from rb_core.planners.candidate import useful_nodes
from rb_core.planners.exact import modelled_front
from rb_core.planners.fastest import fastest
from rb_core.planners.objective import Limit

_DOUBLINGS = 4
"""Limits of nodes up to 2**4 times the problem's are tried."""

_RETRIES = 3
"""So often a limit under which the exact planner finds no plan after all is raised by an eighth."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Relief:
    """The nearest problems that can be planned; each differs from the one asked in one figure.

    Attributes:
        deadline_s: the shortest deadline that was found to be kept; None where the cost is limited.
        budget_usd: likewise the smallest budget; None where the time is limited.
        max_nodes: the smallest limit of nodes that was found to do; None where none did, or it was not looked for.
        tried_nodes: the largest limit of nodes that was tried; None where it was not looked for.
    """

    deadline_s: float | None = None
    budget_usd: float | None = None
    max_nodes: int | None = None
    tried_nodes: int | None = None

    def __str__(self) -> str:
        """In a sentence."""
        if self.budget_usd is not None:
            digits = 4 if self.budget_usd >= 1 else 6
            return f"nearest feasible: a budget of {_up(self.budget_usd, 10**digits):.{digits}f} usd"
        nearest = f"nearest feasible: a deadline of {_up(self.deadline_s or 0.0, 10):.1f} s with these nodes"
        if self.max_nodes is not None:
            return f"{nearest}, or max_nodes {self.max_nodes} with this deadline"
        if self.tried_nodes is not None:
            return f"{nearest}; more nodes alone would not do (up to {self.tried_nodes} were tried)"
        return f"{nearest}; there is no use for more nodes"


def relief(problem: Problem, needed: float, rng: np.random.Generator) -> Relief:
    """What would make it feasible.

    More nodes are looked for by doubling the limit and then halving the interval, with the fastest plan under each
    limit, which is quickly found; the limit that comes out is tried with the exact planner's plans.

    Args:
        problem: one that no plan is feasible for, with its deadline in seconds.
        needed: what the plan that comes nearest needs of what is limited, in seconds or usd.
        rng: of the samples.

    Raises:
        InvalidInput: the problem has no objective.
    """
    if not Limit(ExpectedModel(problem), rng).by_time:
        return Relief(budget_usd=needed)
    now, seed = problem.cloud.max_nodes, int(rng.integers(2**63))
    useful = len(problem.experiment.chains) * max(useful_nodes(problem, t) for t in problem.cloud.instance_types)
    most = min(now * 2**_DOUBLINGS, useful)
    if most <= now:
        return Relief(deadline_s=needed)
    many = _first_that_keeps(problem, now, most, seed)
    for _ in range(_RETRIES):
        if many is None or _planned(problem, many, seed):
            break
        many = None if many == most else min(most, many + max(1, many // 8))
    return Relief(deadline_s=needed, max_nodes=many, tried_nodes=most)


def _first_that_keeps(problem: Problem, few: int, most: int, seed: int) -> int | None:
    """The fewest nodes, above `few` and up to `most`, on which the fastest plan keeps the limit."""
    many = few
    while True:
        many = min(2 * many, most)
        limit = _with(problem, many, seed)
        if limit.meets(fastest(limit.model)):
            break
        if many == most:
            return None
        few = many
    while many - few > 1:
        middle = (few + many) // 2
        limit = _with(problem, middle, seed)
        few, many = (few, middle) if limit.meets(fastest(limit.model)) else (middle, many)
    return many


def _planned(problem: Problem, nodes: int, seed: int) -> bool:
    limit = _with(problem, nodes, seed)
    return limit.first(modelled_front(limit.model)) is not None


def _with(problem: Problem, nodes: int, seed: int) -> Limit:
    cloud = dataclasses.replace(problem.cloud, max_nodes=nodes)
    return Limit(ExpectedModel(dataclasses.replace(problem, cloud=cloud)), np.random.default_rng(seed))


def _up(value: float, per_unit: float) -> float:
    """Rounded up to a fraction, so that what is written is still feasible."""
    return math.ceil(value * per_unit - 1e-6) / per_unit
