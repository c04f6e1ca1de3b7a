"""The rows of the table: who meets a deadline, and at what price, over many seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from known import deadline_of

from rb_core.errors import InvalidInput
from rb_core.expectation import ExpectedModel, expected
from rb_core.plan import AllocationPlan, Objective, Problem
from rb_core.planners.exact import Exact
from rb_core.planners.fastest import fastest
from rb_core.planners.objective import loosened
from rb_core.sim.faults import Faults
from rb_core.sim.rehearsal import rehearse_once

from .cases import MISJUDGED, PROBLEMS, TROUBLE, in_reality

RUNNERS = ("oracle", "replanned", "fixed", "informed")
"""Who runs the job.

`oracle`: planned with the true figures, the plan kept. `replanned`: planned with wrong figures, and anew as the run
goes. `fixed`: planned with wrong figures, the plan kept. `informed`: planned with the true figures, and anew as the
run goes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run.

    Attributes:
        met: whether it ended by the deadline.
        cost_usd: its bill.
        changes: how often its plan was changed.
    """

    met: bool
    cost_usd: float
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One problem under one deadline. Shares, ratios and means are over the seeds in which the oracle is in time.

    Attributes:
        problem: its name.
        deadline_factor: the deadline as a multiple of the time of the fastest plan.
        deadline_s: the deadline.
        seeds: how many, from 0 on.
        oracle_met: share of all seeds in which the oracle is in time.
        replanned_met: share in which re-planning is.
        replanned_ratio: median of what it costs relative to the oracle.
        replanned_ratio_p90: 90th percentile of that.
        changes: mean number of changes of the plan.
        fixed_met: share in which the plan made with wrong figures is in time when it is kept.
        fixed_ratio: median of what that costs relative to the oracle.
        informed_met: share in which re-planning with the right figures is in time.
        informed_ratio: median of what that costs relative to the oracle.
        informed_ratio_p90: 90th percentile of that.
        informed_changes: mean number of changes of that plan.
    """

    problem: str
    deadline_factor: float
    deadline_s: float
    seeds: int
    oracle_met: float
    replanned_met: float
    replanned_ratio: float
    replanned_ratio_p90: float
    changes: float
    fixed_met: float
    fixed_ratio: float
    informed_met: float
    informed_ratio: float
    informed_ratio_p90: float
    informed_changes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One problem under one deadline, planned in both ways.

    Attributes:
        name: the problem's.
        deadline_factor: the deadline as a multiple of the time of the fastest plan.
        known: the problem with wrong figures.
        true: the problem with the right ones.
        known_plan: the best plan for the former.
        true_plan: the best plan for the latter.
    """

    name: str
    deadline_factor: float
    known: Problem
    true: Problem
    known_plan: AllocationPlan
    true_plan: AllocationPlan

    @property
    def deadline_s(self) -> float:
        """The deadline."""
        objective = self.true.objective
        return objective.deadline_s if objective and objective.deadline_s else float("inf")

    def outcome(self, runner: str, seed: int) -> Outcome:
        """What comes of it when this one runs it."""
        wrong, replan = runner in ("replanned", "fixed"), runner in ("replanned", "informed")
        problem, plan, faults = (
            (self.known, self.known_plan, MISJUDGED) if wrong else (self.true, self.true_plan, TROUBLE)
        )
        return _outcome(problem, plan, faults, seed, replan=replan)


def case_of(name: str, deadline_factor: float) -> Case:
    """A problem under a deadline."""
    known = PROBLEMS[name]()
    true = in_reality(known)
    fastest_s, _ = expected(true, fastest(ExpectedModel(true)).plan(true))
    objective = Objective(deadline_s=deadline_factor * fastest_s)
    known, true = (dataclasses.replace(problem, objective=objective) for problem in (known, true))
    known_plan, true_plan = (Exact().plan(problem, np.random.default_rng(0)) for problem in (known, true))
    return Case(
        name=name,
        deadline_factor=deadline_factor,
        known=known,
        true=true,
        known_plan=known_plan,
        true_plan=true_plan,
    )


def _outcome(problem: Problem, plan: AllocationPlan, faults: Faults, seed: int, *, replan: bool) -> Outcome:
    run = rehearse_once(problem, plan, seed=seed, faults=faults, replan=replan)
    return Outcome(
        met=run.finished and run.state.jct_s <= loosened(deadline_of(problem)),
        cost_usd=run.bill.cost_usd,
        changes=len(run.state.replans),
    )


def outcomes_of(case: Case, seed: int) -> Mapping[str, Outcome]:
    """What comes of a seed, by who runs it."""
    return {runner: case.outcome(runner, seed) for runner in RUNNERS}


def row_of(case: Case, by_seed: Sequence[Mapping[str, Outcome]]) -> Row:
    """What came of the seeds.

    Raises:
        InvalidInput: the oracle is late with every seed.
    """
    outcomes = {runner: [own[runner] for own in by_seed] for runner in RUNNERS}
    met = {runner: np.array([outcome.met for outcome in own]) for runner, own in outcomes.items()}
    usd = {runner: np.array([outcome.cost_usd for outcome in own]) for runner, own in outcomes.items()}
    changes = {runner: np.array([outcome.changes for outcome in own]) for runner, own in outcomes.items()}
    asked = met["oracle"]
    if not asked.any():
        late = f"{case.name} at {case.deadline_factor:g}x: the oracle is late with each of {len(by_seed)}"
        raise InvalidInput("seeds", f"must hold one to compare with; {late}; take more")
    ratio = {runner: usd[runner][asked] / usd["oracle"][asked] for runner in RUNNERS}
    return Row(
        problem=case.name,
        deadline_factor=case.deadline_factor,
        deadline_s=case.deadline_s,
        seeds=len(by_seed),
        oracle_met=float(asked.mean()),
        replanned_met=float(met["replanned"][asked].mean()),
        replanned_ratio=float(np.median(ratio["replanned"])),
        replanned_ratio_p90=float(np.quantile(ratio["replanned"], 0.9)),
        changes=float(changes["replanned"][asked].mean()),
        fixed_met=float(met["fixed"][asked].mean()),
        fixed_ratio=float(np.median(ratio["fixed"])),
        informed_met=float(met["informed"][asked].mean()),
        informed_ratio=float(np.median(ratio["informed"])),
        informed_ratio_p90=float(np.quantile(ratio["informed"], 0.9)),
        informed_changes=float(changes["informed"][asked].mean()),
    )
