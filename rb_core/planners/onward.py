"""The best plan from the middle of a run: the exact planner's search, begun with nodes that are held.

Since it need not find the whole front but one plan, whatever cannot become that is dropped on the way.

Without noise the answer is exact as long as no more labels turn up than are kept (`MOST_LABELS`). With noise the search
runs over the expectations of stages, as the exact planner's does, and the plans that come first are compared by the
expected-value model; whole jobs are not sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rb_core.dag import next_step
from rb_core.expectation import ExpectedModel, Progress
from rb_core.plan import StageAllocation
from rb_core.planners.candidate import Candidate
from rb_core.planners.labels import TOLERANCE
from rb_core.planners.objective import loosened
from rb_core.planners.search import Search, StageTables

_NEAR = 0.02
"""With noise the search approximates the model, so plans that it puts up to so much beyond a limit are looked at."""

_FINALISTS = 4
"""With noise so many plans that serve are compared by the model."""

MOST_LABELS = 200
"""A run waits for the answer, so no more labels with equal nodes are kept than this. Where many stages are shorter than
what a node is charged at least, there would be more, and the answer may be a little dearer than need be."""

_TIME, _COST = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """A plan with what it is expected to come to.

    Attributes:
        allocations: of the stages, one after another.
        jct_s: when it is expected to end.
        cost_usd: expected bill.
        surely_s: when it ends at the confidence that is asked for; without one, when it is expected to.
    """

    allocations: tuple[StageAllocation, ...]
    jct_s: float
    cost_usd: float
    surely_s: float

    def late_s(self, deadline_s: float) -> float:
        """By how much it misses a deadline; 0 where it is in time."""
        return self.surely_s - deadline_s if self.surely_s > loosened(deadline_s) else 0.0


class Onward:
    """Plans for the stages that are left, one after another, from a job as it stands."""

    def __init__(
        self,
        model: ExpectedModel,
        start: Progress,
        *,
        first: int = 0,
        errors: float = 0.0,
        bound: StageAllocation | None = None,
    ) -> None:
        """Nothing searched yet.

        Args:
            model: of the whole problem.
            start: the job at the barrier that begins the first of the stages; see `Search`.
            first: number of that stage among all of the problem's, in a row.
            errors: standard deviations that are added to the mean of a plan's end to be sure enough of it.
            bound: type and width that the first stage keeps, and the fewest nodes that it may have.
        """
        self._model, self._start, self._first, self._errors = model, start, first, errors
        self._tables = StageTables(model, first=first, bound=bound)

    def followed(self, allocations: Sequence[StageAllocation]) -> Progress:
        """The job after the first stages, as many as there are allocations, with nothing given back yet.

        Raises:
            InvalidInput: an allocation names an unknown type or width or cannot hold a trial; `max_nodes` is not
                looked at.
        """
        progress = self._start
        for (chain, stage), allocation in zip(self._tables.stages, allocations, strict=False):
            step = next_step(self._model.problem, chain, stage, allocation, None)
            if step.instance_type == progress.instance_type:
                kept = min(sum(batch.count for batch in progress.held), allocation.nodes)
                step = replace(step, kept=kept, requested=allocation.nodes - kept)
            progress = self._model.advance(progress, step)
        return progress

    def foreseen(self, allocations: tuple[StageAllocation, ...]) -> Foreseen:
        """What allocations of all the stages come to. Raises as `followed`."""
        end = self._model.finish(self.followed(allocations))
        surely_s = end.barrier_s + self._errors * math.sqrt(end.variance)
        return Foreseen(allocations=allocations, jct_s=end.barrier_s, cost_usd=end.cost_usd, surely_s=surely_s)

    def cheapest(self, within_s: float = math.inf, below_usd: float = math.inf) -> Foreseen | None:
        """The cheapest plan that is in time and costs less than so much."""
        return self._least(
            _COST,
            (within_s, below_usd),
            lambda plan: not plan.late_s(within_s) and plan.cost_usd < below_usd,
        )

    def soonest(self, within_usd: float = math.inf, below_s: float = math.inf) -> Foreseen | None:
        """The fastest plan that keeps a budget and ends before some time."""
        return self._least(
            _TIME,
            (below_s, within_usd),
            lambda plan: plan.cost_usd <= loosened(within_usd) and plan.jct_s < below_s,
        )

    def _least(self, quantity: int, limits: tuple[float, float], serves: Callable[[Foreseen], bool]) -> Foreseen | None:
        """The plan that serves with the least time or cost.

        Args:
            quantity: which of them.
            limits: of time and cost, beyond which no plan serves.
            serves: whether one does.
        """

        def preference(plan: Candidate | Foreseen) -> tuple[float, float]:
            figures = plan.jct_s, plan.cost_usd
            return figures[quantity], figures[1 - quantity]

        finalists = _FINALISTS if self._model.problem.varies else 1
        found: list[Foreseen] = []
        # Without a limit of what is to be least a quick search is to find one.
        for quick in (True, False) if math.isinf(limits[quantity]) else (False,):
            wanted = len(found) + finalists
            for candidate in sorted(self._searched(limits, quick=quick), key=preference):
                plan = self.foreseen(candidate.allocations)
                if serves(plan):
                    found.append(plan)
                if len(found) == wanted:
                    break
            best = min(found, key=preference, default=None)
            if best:
                limits = (best.jct_s, limits[_COST]) if quantity == _TIME else (limits[_TIME], best.cost_usd)
        return min(found, key=preference, default=None)

    def _searched(self, limits: tuple[float, float], *, quick: bool) -> list[Candidate]:
        """Plans of the front that are not beyond either limit, the last binary digits aside."""
        room = 1.0 + _NEAR if self._model.problem.varies else 1.0
        within_s, within_usd = (loosened(limit * room) + 2 * TOLERANCE for limit in limits)
        unwanted = [(within_s, -math.inf), (0.0, within_usd)]
        return Search(self._tables, quick=quick, most_labels=MOST_LABELS, start=self._start, unwanted=unwanted).run()
