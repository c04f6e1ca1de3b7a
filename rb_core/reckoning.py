"""A run so far and where it will end: dead reckoning from what was expected of its stages and what has happened."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from rb_core.events import Event, Replanned, RunResumed, StageEnded, StageStarted
from rb_core.hardware import Cloud
from rb_core.ledger import Ledger, ledger
from rb_core.simulate import Estimate
from rb_core.state import RunState, apply


@dataclass(slots=True, kw_only=True)
class _Ahead:
    """What is expected of a stage that has not ended, from some moment on.

    Attributes:
        time_s: how long it still takes.
        cost_usd: what it still costs.
        since_s: that moment, in seconds of the run; None while the stage has not begun.
        spent_usd: what it had cost by then.
    """

    time_s: float
    cost_usd: float
    since_s: float | None = None
    spent_usd: float = 0.0


class Reckoning:
    """Folds the events of one run into its state, and reckons with what is left.

    Of a stage that runs, the expected time and cost are counted down; one that takes longer than expected pushes the
    end of the run. A change of the plan says anew what the rest takes, which falls to its stages in the proportion in
    which they were expected to share it.
    """

    def __init__(
        self,
        cloud: Cloud,
        *,
        estimate: Estimate | None = None,
        expected: tuple[float, float] | None = None,
    ) -> None:
        """A run of which nothing has been told.

        Args:
            cloud: its billing rule and data price.
            estimate: samples of the plan that it begins with; None where nothing was planned.
            expected: time in seconds and cost in usd of that plan.
        """
        self.state = RunState()
        self.counts: Counter[str] = Counter()
        self.expected = expected
        self._cloud = cloud
        stages = () if estimate is None else estimate.stages
        self._ahead = {
            (part.chain, part.stage): _Ahead(
                time_s=float(np.mean(part.end_s - part.start_s)), cost_usd=float(np.mean(part.cost_usd))
            )
            for part in stages
        }

    def take(self, event: Event) -> None:
        """Take one event in.

        Raises:
            KeyError: it speaks of a trial or node that no earlier event introduced.
        """
        self.counts[type(event).__name__] += 1
        if isinstance(event, RunResumed):
            self._settle(self.state.t_s, since_s=event.t_s)
        apply(self.state, event)
        match event:
            case StageStarted():
                self._begin(event)
            case StageEnded():
                self._ahead.pop((event.chain, event.stage), None)
            case Replanned():
                self._replan(event)

    def bill(self, t_s: float | None = None) -> Ledger:
        """What the run has cost by `t_s`, not before its last event; by that one when None."""
        return ledger(self.state, self._cloud, t_s)

    def left_s(self, t_s: float) -> float:
        """Expected seconds from `t_s` to the end: of the longest lane where chains run side by side, else of all."""
        left: dict[int, float] = {}
        for (chain, _), ahead in self._ahead.items():
            lane = self._lane(chain)
            left[lane] = left.get(lane, 0.0) + _left_s(ahead, t_s)
        return max(left.values(), default=0.0)

    def forecast(self, t_s: float) -> tuple[float, float] | None:
        """Time in seconds since the first node request, and cost in usd, that are expected at the end.

        Args:
            t_s: now, in seconds of the run.

        Returns:
            None where nothing was planned.
        """
        if self.expected is None:
            return None
        bill = self.bill(t_s)
        left_usd = sum(self._left_usd(key, ahead, bill) for key, ahead in self._ahead.items())
        return t_s - self.state.began_s + self.left_s(t_s), bill.cost_usd + left_usd

    def _begin(self, event: StageStarted) -> None:
        ahead = self._ahead.get((event.chain, event.stage))
        if ahead is not None:
            ahead.since_s, ahead.spent_usd = event.t_s, 0.0

    def _settle(self, t_s: float, *, since_s: float) -> None:
        """Let what is left at `t_s` be counted from `since_s` on."""
        bill = self.bill(t_s)
        for key, ahead in self._ahead.items():
            if ahead.since_s is not None:
                left_usd = self._left_usd(key, ahead, bill)
                ahead.time_s, ahead.since_s = _left_s(ahead, t_s), since_s
                ahead.cost_usd, ahead.spent_usd = left_usd, _spent_usd(key, bill)

    def _replan(self, event: Replanned) -> None:
        """Share what is expected now among the stages of the lane that are left."""
        lane = self._lane(event.chain)
        if not self.state.parallel:
            # Side by side each lane tells of itself alone.
            self.expected = event.jct_s, event.cost_usd
        self._settle(event.t_s, since_s=event.t_s)
        rest = [ahead for (chain, _), ahead in self._ahead.items() if self._lane(chain) == lane]
        bill = self.bill(event.t_s)
        spent_usd = sum(stage.cost_usd for stage in bill.stages if self._lane(stage.chain) == lane)
        time_s = max(0.0, event.jct_s - (event.t_s - self.state.began_s))
        cost_usd = max(0.0, event.cost_usd - spent_usd)
        before_s, before_usd = sum(a.time_s for a in rest), sum(a.cost_usd for a in rest)
        for ahead in rest:
            ahead.time_s = time_s * (ahead.time_s / before_s if before_s > 0 else 1 / len(rest))
            ahead.cost_usd = cost_usd * (ahead.cost_usd / before_usd if before_usd > 0 else 1 / len(rest))

    def _left_usd(self, key: tuple[int, int], ahead: _Ahead, bill: Ledger) -> float:
        if ahead.since_s is None:
            return ahead.cost_usd
        return max(0.0, ahead.cost_usd - (_spent_usd(key, bill) - ahead.spent_usd))

    def _lane(self, chain: int) -> int:
        return chain if self.state.parallel else 0


def _left_s(ahead: _Ahead, t_s: float) -> float:
    return ahead.time_s if ahead.since_s is None else max(0.0, ahead.time_s - max(0.0, t_s - ahead.since_s))


def _spent_usd(key: tuple[int, int], bill: Ledger) -> float:
    return sum(stage.cost_usd for stage in bill.stages if (stage.chain, stage.stage) == key)
