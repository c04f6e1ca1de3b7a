"""The planner of the RubberBand paper (Misra et al., EuroSys 2021, section 4.3, algorithm 2): shrink what pays most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from rb_core.dag import Step
from rb_core.expectation import ExpectedModel, Progress
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.planners.candidate import Candidate, Trail, build, soonest, widths
from rb_core.planners.objective import Limit, loosened
from rb_core.planners.static import static_candidates

_SAVING_USD = 1e-12
"""Savings below this are binary noise."""

_BISECTIONS = 20
"""Steps in which a budget is turned into the deadline that it can afford."""


class Greedy:
    """Start from the best static plan and take, again and again, the step that saves most per added second."""

    name = "greedy"

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The greedy plan for the objective. Raises as `Planner.plan`."""
        model = ExpectedModel(problem)
        limit = Limit(model, rng)
        statics = static_candidates(model)
        if limit.by_time:
            best = shrunk(model, limit.first(statics), limit.meets)
        else:
            best = _fastest_within(model, statics, limit)
        if best is None:
            raise limit.infeasible(self.name, statics)
        return best.plan(limit.problem)


def shrunk(model: ExpectedModel, start: Candidate | None, in_time: Callable[[Candidate], bool]) -> Candidate | None:
    """The end of the greedy steps from `start`, each of which saves and stays in time; None from nowhere."""
    if start is None:
        return None
    best, trail = start, _trail(model, start)
    while True:
        savings = [step for step in _steps(model, best, trail) if step[0].cost_usd < best.cost_usd - _SAVING_USD]
        savings.sort(key=partial(_merit, best), reverse=True)
        step = next((step for step in savings if in_time(step[0])), None)
        if step is None:
            return best
        best, trail = step


def _fastest_within(model: ExpectedModel, statics: list[Candidate], limit: Limit) -> Candidate | None:
    """The greedy plan of the shortest deadline that the budget can afford, by bisection."""

    def by(deadline_s: float) -> Candidate | None:
        in_time = [c for c in statics if c.jct_s <= loosened(deadline_s)]
        start = min(in_time, key=lambda c: (c.cost_usd, c.jct_s), default=None)
        found = shrunk(model, start, lambda c: c.jct_s <= loosened(deadline_s))
        return found if found and limit.meets(found) else None

    if not statics:
        return None
    low, high = min(c.jct_s for c in statics), max(c.jct_s for c in statics)
    best = by(low)
    if best:
        return best
    best = by(high)
    if best is None:
        return None
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        found = by(middle)
        if found:
            best, high = found, min(middle, found.jct_s)
        else:
            low = middle
    return best


def _merit(current: Candidate, option: tuple[Candidate, Trail]) -> tuple[float, float]:
    """Saved cost per added second; what saves without adding time comes before all else."""
    step, _ = option
    saved_usd, added_s = current.cost_usd - step.cost_usd, step.jct_s - current.jct_s
    return (math.inf, saved_usd) if added_s <= 1e-9 else (saved_usd / added_s, saved_usd)


def _steps(model: ExpectedModel, best: Candidate, trail: Trail) -> Iterator[tuple[Candidate, Trail]]:
    """For every stage: one node less with the width that is then soonest, and the next smaller width."""
    for position, allocation in enumerate(best.allocations):
        instance_type = model.problem.cloud.instance_type(allocation.instance_type)
        before, progress = trail[position - 1] if position else (None, Progress())
        options = []
        if allocation.nodes > 1:
            fewer = soonest(model, position, instance_type, allocation.nodes - 1, before, progress)
            options.append(fewer)
        narrower = [w for w in widths(model.problem, instance_type, allocation.nodes) if w < allocation.slots_per_trial]
        if narrower:
            options.append(
                StageAllocation(
                    instance_type=allocation.instance_type,
                    nodes=allocation.nodes,
                    slots_per_trial=narrower[-1],
                )
            )
        for option in options:
            if option is None:
                continue
            changed = (*best.allocations[:position], option, *best.allocations[position + 1 :])
            built = build(model, _Given(changed), prefix=trail[:position])
            if built:
                yield built


def _trail(model: ExpectedModel, candidate: Candidate) -> Trail:
    built = build(model, _Given(candidate.allocations))
    return built[1] if built else ()


class _Given:
    """Allocations that are settled."""

    def __init__(self, allocations: tuple[StageAllocation, ...]) -> None:
        self._allocations = allocations

    def __call__(self, position: int, before: Step | None, progress: Progress) -> StageAllocation:
        return self._allocations[position]
