"""A plan with everything that is promised of it, beside what other planners promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rb_core.errors import NoFeasiblePlan
from rb_core.events import SCHEMA
from rb_core.expectation import expected
from rb_core.markets import falls_back, on_demand
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.candidate import Candidate
from rb_core.planners.objective import lower_bound_usd, resolve
from rb_core.planners.relief import relief
from rb_core.promise import Promise, promise
from rb_core.report import Figures, Table, comparison_table, limit_line, plan_table, summary
from rb_core.simulate import Estimate, check_samples, simulate
from rb_plugins.config.problem import fingerprint
from rb_plugins.factories import PlannerFactory
from rb_plugins.manager import Registry

DEFAULT_PLANNER = "exact"
DEFAULT_SAMPLES = 1000
_CHOOSING = 1
"""Sets the generator that planners get apart from the one that a plan's estimate is sampled with."""

BASELINES = ("static", "static-1", "naive", "greedy")
"""The planners that every plan is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a plan is expected to take.

    Attributes:
        problem: what was planned, with its deadline in seconds.
        fingerprint: of the problem as it was asked.
        planner: who made the plan.
        plan: the plan.
        expected: time and cost under the expected-value model.
        estimate: time and cost by sampling.
        baselines: `expected` of other planners' plans; None for one that cannot meet the objective.
        lower_bound_usd: what no plan can cost less than.
        promise: how surely the plan keeps its limit; None where no confidence was asked for.
        deadline_factor: the deadline as a multiple of the fastest plan's time; None where it was not given so.
    """

    problem: Problem
    fingerprint: str
    planner: str
    plan: AllocationPlan
    expected: Figures
    estimate: Estimate
    baselines: Mapping[str, Figures | None]
    lower_bound_usd: float
    promise: Promise | None = None
    deadline_factor: float | None = None

    def __str__(self) -> str:
        """The plan for people, beside other ways to run it, and its limit."""
        return "\n\n".join([*(table.text() for table in self.tables), *([self.limit] if self.limit else [])])

    @property
    def tables(self) -> tuple[Table, ...]:
        """What is shown of it: its stages, and how it compares."""
        return (
            plan_table(self.problem, self.plan, self.estimate),
            comparison_table(self.planner, self.expected, self.baselines, self.lower_bound_usd),
        )

    @property
    def limit(self) -> str:
        """The limit and how far from it the plan is expected to stay, in a line; empty without an objective."""
        objective = self.problem.objective
        return "" if objective is None else limit_line(objective, self.expected, factor=self.deadline_factor)

    def table(self) -> dict[str, Any]:
        """The object that `rb-tune plan --json` prints."""
        answer = {
            "schema": SCHEMA,
            "planner": self.planner,
            **self.plan.record(self.problem.experiment),
            "expected": _figures(self.expected),
            "simulated": {
                "samples": len(self.estimate.jct_s),
                "jct_s": summary(self.estimate.jct_s),
                "cost_usd": summary(self.estimate.cost_usd),
            },
            "baselines": {
                name: None if figures is None else _figures(figures) for name, figures in self.baselines.items()
            },
            "cost_lower_bound_usd": self.lower_bound_usd,
            "objective": self._objective(),
            "fingerprint": self.fingerprint,
        }
        if self.promise is not None:
            answer["confidence"] = asdict(self.promise)
        return answer

    def _objective(self) -> dict[str, float]:
        objective = self.problem.objective
        limits = {
            "deadline_s": None if objective is None else objective.deadline_s,
            "deadline_factor": self.deadline_factor,
            "budget_usd": None if objective is None else objective.budget_usd,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}


def forecast(
    problem: Problem,
    planners: Registry[PlannerFactory],
    *,
    planner: str = DEFAULT_PLANNER,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
) -> Forecast:
    """Plan a problem, sample the plan, and plan it with the baselines.

    Args:
        problem: with an objective.
        planners: who there is.
        planner: who makes the plan.
        samples: of the plan's time and cost.
        seed: of the planning and the sampling, which are independent of each other; equal seeds give equal forecasts.

    Raises:
        InvalidInput: no such planner, no objective, or a number out of its limits.
        NoFeasiblePlan: the planner finds nothing that meets the objective.
    """
    check_samples(samples)
    chosen = planners.choose(planner, key="planner")
    resolved = resolve(problem)
    try:
        plan = chosen().plan(resolved, _choosing(seed))
    except NoFeasiblePlan as error:
        needed = error.nearest.get(error.limit) if isinstance(error.nearest, dict) else None
        if needed is not None:
            error.add_note(str(relief(resolved, needed, _choosing(seed))))
        raise
    plan.check_fits(problem.experiment)
    figures = expected(resolved, plan)
    baselines: dict[str, Figures | None] = {}
    for name in BASELINES:
        if name == planner:
            baselines[name] = figures
        elif name in planners:
            baselines[name] = _baseline(resolved, planners[name], seed)
    estimate = simulate(resolved, plan, samples=samples, rng=np.random.default_rng(seed))
    backed = None
    if falls_back(resolved):
        backed = simulate(on_demand(resolved), plan, samples=samples, rng=np.random.default_rng(seed))
    return Forecast(
        problem=resolved,
        fingerprint=fingerprint(problem),
        planner=planner,
        plan=plan,
        expected=figures,
        estimate=estimate,
        baselines=baselines,
        lower_bound_usd=lower_bound_usd(resolved),
        promise=promise(resolved, estimate, backed),
        deadline_factor=None if problem.objective is None else problem.objective.deadline_factor,
    )


def _choosing(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, _CHOOSING])


def estimate_table(estimate: Estimate) -> dict[str, Any]:
    """The object that `rb-tune simulate --json` prints; figures of stages are means."""
    return {
        "schema": SCHEMA,
        "samples": len(estimate.jct_s),
        "jct_s": summary(estimate.jct_s),
        "cost_usd": summary(estimate.cost_usd),
        "stages": [
            {
                "start_s": float(np.mean(stage.start_s)),
                "end_s": float(np.mean(stage.end_s)),
                "cost_usd": float(np.mean(stage.cost_usd)),
                "idle_fraction": float(np.mean(stage.idle_fraction)),
            }
            for stage in estimate.stages
        ],
    }


def _baseline(problem: Problem, factory: PlannerFactory, seed: int) -> Figures | None:
    try:
        return expected(problem, factory().plan(problem, _choosing(seed)))
    except NoFeasiblePlan:
        return None


def _figures(figures: Figures) -> dict[str, float]:
    return {"jct_s": figures[0], "cost_usd": figures[1]}


def front_table(problem: Problem, candidates: Sequence[Candidate]) -> dict[str, Any]:
    """The object that `rb-tune pareto --json` prints."""
    return {
        "schema": SCHEMA,
        "front": [
            {
                "jct_s": candidate.jct_s,
                "cost_usd": candidate.cost_usd,
                **candidate.plan(problem).record(problem.experiment),
            }
            for candidate in candidates
        ],
    }
