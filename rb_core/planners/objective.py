"""What a planner is asked for: the limit, the order among candidates, and the errors when nothing meets it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from rb_core.errors import InvalidInput, NoFeasiblePlan
from rb_core.expectation import ExpectedModel, expected
from rb_core.markets import changeover_s, falls_back, on_demand, with_way_off_s
from rb_core.placement import divides
from rb_core.plan import AllocationPlan, Objective, Problem
from rb_core.planners.candidate import Candidate
from rb_core.planners.fastest import fastest, no_room
from rb_core.simulate import simulate

SAMPLES = 1000
"""Samples behind the check of a confidence."""

NO_LIMIT = 1e15
"""Seconds or dollars that no plan reaches: a limit that leaves only the other one to be made small."""

_HOPELESS = 1.05
"""A candidate whose modelled mean is above the limit by this factor is not worth sampling."""

_UNRELEASED = 1.25
"""The model knows nothing of early release: what a job costs with it may be below the modelled cost by this factor."""


def resolve(problem: Problem) -> Problem:
    """The same problem with its deadline in seconds, where it was given as a multiple of the fastest plan's time."""
    objective = wanted(problem)
    if objective.deadline_factor is None:
        return problem
    fastest_s, _ = expected(problem, fastest(ExpectedModel(problem)).plan(problem))
    absolute = dataclasses.replace(objective, deadline_s=objective.deadline_factor * fastest_s, deadline_factor=None)
    return dataclasses.replace(problem, objective=absolute)


def wanted(problem: Problem) -> Objective:
    """The problem's objective. Raises `InvalidInput` when it has none."""
    if problem.objective is None:
        raise InvalidInput("objective", "is missing; set deadline_s or budget_usd")
    return problem.objective


def lower_bound_usd(problem: Problem) -> float:
    """What the bare iterations cost at least: perfect packing, no start-up, no idling; inf when nothing fits."""
    profile = problem.profile
    iteration_usd = min(
        (
            width * latency.mean * profile.slowdown(spans=width > t.slots, speed=t.speed) * t.usd_per_s / t.slots
            for t in problem.cloud.instance_types
            for width, latency in profile.iteration_s.items()
            if divides(width, t.slots)
        ),
        default=float("inf"),
    )
    return problem.experiment.trial_iterations * iteration_usd


class Limit:
    """The problem's limit, as a test of candidates and an order among them.

    Without noise the model is exact and its figures are compared. With noise a candidate is sampled: the mean of the
    limited quantity must keep the limit, or its quantile at the wanted confidence. Every candidate meets the same
    trials and nodes (common random numbers).

    Attributes:
        model: the model of the problem as it was asked.
        problem: with its deadline in seconds.
        objective: the problem's objective.
    """

    def __init__(self, model: ExpectedModel, rng: np.random.Generator) -> None:
        self.problem = resolve(model.problem)
        self.objective = wanted(self.problem)
        self.model = model
        self._seed = int(rng.integers(2**63))
        self._reached: dict[Candidate, float] = {}
        self._sampled: dict[Candidate, Candidate] = {}

    @property
    def by_time(self) -> bool:
        """Whether the time is limited; otherwise it is the cost."""
        return self.objective.budget_usd is None

    @property
    def value(self) -> float:
        """The limit, in seconds or usd."""
        limit = self.objective.deadline_s if self.by_time else self.objective.budget_usd
        return math.inf if limit is None else limit

    def preference(self, candidate: Candidate) -> tuple[float, float]:
        """Sorts the best first: the cheapest under a deadline, the fastest under a budget."""
        if self.by_time:
            return candidate.cost_usd, candidate.jct_s
        return candidate.jct_s, candidate.cost_usd

    def meets(self, candidate: Candidate) -> bool:
        """Whether the candidate keeps the limit."""
        return self.likely(candidate) and self.reached(candidate) <= loosened(self.value)

    def likely(self, candidate: Candidate) -> bool:
        """Whether it is worth the sampling to know."""
        modelled = candidate.jct_s if self.by_time else candidate.cost_usd
        if not self.by_time and self.problem.policies.early_release:
            modelled /= _UNRELEASED
        return not self.problem.noisy or modelled <= self.value * _HOPELESS

    def first(self, candidates: Iterable[Candidate]) -> Candidate | None:
        """The best candidate that keeps the limit; where none is likely to, the nearest, if it does."""
        in_order = sorted(candidates, key=self.preference)
        best = next((c for c in in_order if self.meets(c)), None)
        nearest = self.nearest(in_order)
        if best is None and nearest is not None and self.reached(nearest) <= loosened(self.value):
            return nearest
        return best

    def nearest(self, candidates: Iterable[Candidate]) -> Candidate | None:
        """The fastest candidate under a deadline, the cheapest under a budget."""
        return min(candidates, key=lambda c: c.jct_s if self.by_time else c.cost_usd, default=None)

    def reached(self, candidate: Candidate) -> float:
        """What the candidate needs of the limited quantity: on the mean, or at the wanted confidence."""
        if candidate not in self._reached:
            self._reached[candidate] = self._measure(candidate)
        return self._reached[candidate]

    def sampled(self, candidate: Candidate) -> Candidate:
        """As `Candidate.sampled`, remembered."""
        if candidate not in self._sampled:
            self._sampled[candidate] = candidate.sampled(self.problem)
        return self._sampled[candidate]

    def _measure(self, candidate: Candidate) -> float:
        if self.by_time and falls_back(self.problem):
            # What is late on spot is saved on demand, where the mean leaves the time to.
            on_spot_s = with_way_off_s(self.problem, self.sampled(candidate).jct_s)
            if self.objective.confidence is None or not self.problem.varies:
                return on_spot_s
            return max(on_spot_s, self._surely(on_demand(self.problem), candidate) + changeover_s(self.problem))
        if self.objective.confidence is None or not self.problem.noisy:
            means = self.sampled(candidate)
            return means.jct_s if self.by_time else means.cost_usd
        return self._surely(self.problem, candidate)

    def _surely(self, problem: Problem, candidate: Candidate) -> float:
        """What the candidate needs at the wanted confidence."""
        estimate = simulate(problem, candidate.plan(problem), samples=SAMPLES, rng=np.random.default_rng(self._seed))
        values = estimate.jct_s if self.by_time else estimate.cost_usd
        return float(np.quantile(values, self.objective.confidence or 0.5, method="inverted_cdf"))

    def infeasible(self, name: str, candidates: Iterable[Candidate]) -> NoFeasiblePlan:
        """The error that says what blocks and how near the planner's candidates come."""
        nearest = self.nearest(candidates)
        if nearest is None:
            return no_room(self.problem)
        reached = self.reached(nearest)
        confidence = self.objective.confidence
        at = "" if confidence is None or not self.problem.noisy else f" at p{confidence * 100:g}"
        if self.by_time:
            text = (
                f"the fastest plan of planner {name} needs {reached:.1f} s{at} but the deadline is {self.value:.1f} s; "
                f"raise the deadline or max_nodes (now {self.problem.cloud.max_nodes})"
            )
        else:
            text = (
                f"the cheapest plan of planner {name} costs {reached:.4f} usd{at} but the budget is "
                f"{self.value:.4f} usd; raise the budget or add a cheaper instance type"
            )
        limit = "deadline_s" if self.by_time else "budget_usd"
        figures = {"jct_s": nearest.jct_s, "cost_usd": nearest.cost_usd, limit: reached}
        return NoFeasiblePlan(text, limit=limit, nearest=figures)


def best_of(candidates: list[Candidate], model: ExpectedModel, rng: np.random.Generator, name: str) -> AllocationPlan:
    """The best of the candidates that keeps the problem's limit. Raises `NoFeasiblePlan` in the planner's name."""
    limit = Limit(model, rng)
    best = limit.first(candidates)
    if best is None:
        raise limit.infeasible(name, candidates)
    return best.plan(limit.problem)


def loosened(limit: float) -> float:
    """The limit with room for the last binary digits."""
    return limit + 1e-9 * max(1.0, abs(limit))
