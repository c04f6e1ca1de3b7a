"""Which trial goes on, by ASHA: in its paper's form, which promotes, and in Ray's, which stops.

Both are told a score whenever a trial reaches a rung, and wait for nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

Work = tuple[int, int, bool]
"""A trial, the rung that it is to reach, and whether its processes are running already."""


class Asha(Protocol):
    """Hands out work, one rung of one trial at a time."""

    def offer(self) -> Work | None:
        """What a free place is to do; None when there is nothing."""

    def reached(self, trial: int, rung: int, score: float) -> Work | None:
        """Take a score; what the place goes on with at once, None where it is free."""


class Promoting:
    """Promotes the best of a rung's first 1/eta as soon as a place is free (Li et al., MLSys 2020, algorithm 2).

    Once no configuration is left to begin, the best that waits on the highest rung goes on whatever its rank: an idle
    place would help nobody.
    """

    def __init__(self, trials: int, rungs: int, eta: int, mode: str) -> None:
        """Nothing has begun.

        Args:
            trials: how many configurations there are.
            rungs: how many rungs, the end of training included.
            eta: one trial in so many goes on.
            mode: ``max`` or ``min``, which scores are better.
        """
        self._fresh = iter(range(trials))
        self._eta, self._sign = eta, -1.0 if mode == "max" else 1.0
        self._rungs: list[dict[int, float]] = [{} for _ in range(rungs)]
        self._promoted: list[set[int]] = [set() for _ in range(rungs)]

    def offer(self) -> Work | None:
        """The best that may be promoted, from the highest rung down, or else a new trial."""
        for rung in reversed(range(len(self._rungs) - 1)):
            first = self._ranked(rung)[: len(self._rungs[rung]) // self._eta]
            if (trial := self._waiting(rung, first)) is not None:
                return self._promote(trial, rung)
        fresh = next(self._fresh, None)
        if fresh is not None:
            return fresh, 0, False
        for rung in reversed(range(len(self._rungs) - 1)):
            if (trial := self._waiting(rung, self._ranked(rung))) is not None:
                return self._promote(trial, rung)
        return None

    def reached(self, trial: int, rung: int, score: float) -> Work | None:
        """The trial waits, and its place is free."""
        self._rungs[rung][trial] = math.inf if math.isnan(score) else self._sign * score
        return None

    def _ranked(self, rung: int) -> list[int]:
        """The best first; of equals the one that came first."""
        return sorted(self._rungs[rung], key=self._rungs[rung].__getitem__)

    def _waiting(self, rung: int, among: Sequence[int]) -> int | None:
        able = (t for t in among if t not in self._promoted[rung] and self._rungs[rung][t] < math.inf)
        return next(able, None)

    def _promote(self, trial: int, rung: int) -> Work:
        self._promoted[rung].add(trial)
        return trial, rung + 1, False


class Stopping:
    """Stops a trial at a rung when it is worse than the best 1/eta there so far, else lets it run on.

    As `AsyncHyperBandScheduler` of Ray Tune does: the cutoff is the percentile of the scores before its own, and the
    first one at a rung goes on.
    """

    def __init__(self, trials: int, rungs: int, eta: int, mode: str) -> None:
        """Nothing has begun. Arguments as of `Promoting`."""
        self._fresh = iter(range(trials))
        self._eta, self._sign = eta, 1.0 if mode == "max" else -1.0
        self._rungs: list[list[float]] = [[] for _ in range(rungs)]

    def offer(self) -> Work | None:
        """A new trial."""
        fresh = next(self._fresh, None)
        return None if fresh is None else (fresh, 0, False)

    def reached(self, trial: int, rung: int, score: float) -> Work | None:
        """The next rung, where the trial goes on."""
        before = self._rungs[rung]
        value = -math.inf if math.isnan(score) else self._sign * score
        cutoff = float(np.quantile(_finite(before), 1 - 1 / self._eta)) if _finite(before) else -math.inf
        before.append(value)
        goes_on = rung + 1 < len(self._rungs) and value >= cutoff and value > -math.inf
        return (trial, rung + 1, True) if goes_on else None


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if value > -math.inf]


VARIANTS: Mapping[str, Callable[[int, int, int, str], Asha]] = {
    "ASHA, promoting": Promoting,
    "ASHA, stopping": Stopping,
}
"""Both by name."""
