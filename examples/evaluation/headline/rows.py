"""The rows of the table: what each planner needs for one case and one deadline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from known import deadline_of

from rb_core.errors import NoFeasiblePlan
from rb_core.expectation import expected
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.objective import lower_bound_usd, resolve
from rb_plugins import make_manager

from .beside import StaticBeside
from .cases import DEADLINE_FACTORS, Case

PLANNERS = ("static-1", "static", "static-beside", "naive", "greedy", "exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a planner's plan takes and costs, and the plan in words."""

    jct_s: float
    cost_usd: float
    plan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case under one deadline.

    Attributes:
        case: which.
        deadline_factor: the deadline as a multiple of the fastest plan's time.
        deadline_s: the deadline.
        outcomes: by planner; None for one that finds no plan in time.
        lower_bound_usd: what no plan can cost less than.
    """

    case: Case
    deadline_factor: float
    deadline_s: float
    outcomes: Mapping[str, Outcome | None]
    lower_bound_usd: float

    def saving(self, against: str) -> float | None:
        """The fraction of another planner's cost that the exact one saves; None where that one finds no plan."""
        other, exact = self.outcomes[against], self.outcomes["exact"]
        return None if other is None or exact is None else 1.0 - exact.cost_usd / other.cost_usd


def worked_out(case: Case) -> list[Row]:
    """The rows of a case, the tightest deadline first."""
    planners, rows = make_manager().planners(), []
    for factor in DEADLINE_FACTORS:
        problem = resolve(case.problem(factor))
        plans: dict[str, AllocationPlan | None] = {}
        for name in PLANNERS:
            try:
                if name == StaticBeside.name:
                    plans[name] = StaticBeside().plan(problem)
                else:
                    plans[name] = planners[name]().plan(problem, np.random.default_rng(0))
            except NoFeasiblePlan:
                plans[name] = None
        row = Row(
            case=case,
            deadline_factor=factor,
            deadline_s=deadline_of(problem),
            outcomes={name: _outcome(problem, plan) if plan else None for name, plan in plans.items()},
            lower_bound_usd=lower_bound_usd(problem),
        )
        rows.append(row)
    return rows


def _outcome(problem: Problem, plan: AllocationPlan) -> Outcome:
    jct_s, cost_usd = expected(problem, plan)
    return Outcome(jct_s=jct_s, cost_usd=cost_usd, plan=in_words(plan))


def in_words(plan: AllocationPlan) -> str:
    """Nodes, type and slots per trial of every stage; equal stages in a row are said once.

    Such as ``16 p3.8xlarge w1 (x2) > 1 p3.8xlarge w4``: two stages on 16 nodes with one slot a trial, then one stage
    on one node with four.
    """
    chains = []
    for chain in plan.chains:
        runs = ((step, len(list(same))) for step, same in groupby(chain))
        chains.append(
            " > ".join(
                f"{step.nodes} {step.instance_type} w{step.slots_per_trial}" + (f" (x{count})" if count > 1 else "")
                for step, count in runs
            )
        )
    return chains[0] if len(chains) == 1 else f"{plan.order}: " + " | ".join(chains)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one planner's plan takes and costs for one row: a line of table.csv.

    Attributes:
        experiment: of the case.
        cloud: of the case.
        workload: of the case.
        deadline_factor: the deadline as a multiple of the fastest plan's time.
        deadline_s: the deadline.
        lower_bound_usd: what no plan can cost less than.
        planner: whose plan it is.
        jct_s: how long it takes; None where the planner finds none in time.
        cost_usd: what it costs.
        plan: the plan in words.
    """

    experiment: str
    cloud: str
    workload: str
    deadline_factor: float
    deadline_s: float
    lower_bound_usd: float
    planner: str
    jct_s: float | None
    cost_usd: float | None
    plan: str


def lines_of(rows: Iterable[Row]) -> list[Line]:
    """One line a planner."""
    return [
        Line(
            experiment=row.case.experiment,
            cloud=row.case.cloud,
            workload=row.case.workload,
            deadline_factor=row.deadline_factor,
            deadline_s=row.deadline_s,
            lower_bound_usd=row.lower_bound_usd,
            planner=name,
            jct_s=outcome.jct_s if outcome else None,
            cost_usd=outcome.cost_usd if outcome else None,
            plan=outcome.plan if outcome else "",
        )
        for row in rows
        for name, outcome in row.outcomes.items()
    ]


def rows_of(lines: Iterable[Line]) -> list[Row]:
    """The rows that `lines_of` took apart."""
    rows = []
    for (case, factor, deadline_s, bound_usd), own in groupby(lines, _row_key):
        outcomes = {line.planner: _told(line) for line in own}
        row = Row(
            case=case, deadline_factor=factor, deadline_s=deadline_s, lower_bound_usd=bound_usd, outcomes=outcomes
        )
        rows.append(row)
    return rows


def _row_key(line: Line) -> tuple[Case, float, float, float]:
    case = Case(experiment=line.experiment, cloud=line.cloud, workload=line.workload)
    return case, line.deadline_factor, line.deadline_s, line.lower_bound_usd


def _told(line: Line) -> Outcome | None:
    if line.jct_s is None or line.cost_usd is None:
        return None
    return Outcome(jct_s=line.jct_s, cost_usd=line.cost_usd, plan=line.plan)
