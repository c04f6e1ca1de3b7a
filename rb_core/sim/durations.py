"""How long a rehearsed trial's iterations take: evenly by the profile, or one by one as they were recorded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from rb_core.errors import InvalidInput

_SAME_S = 1e-9
"""An iteration that ends so much later than a moment has ended by then."""


class Durations(Protocol):
    """Lengths of trials' iterations, each configuration's own speed included. Pure: asked again they are the same."""

    def iterations_s(self, trial: int, begin: int, end: int, slots: int) -> Sequence[float]:
        """The seconds of the iterations after `begin` up to `end`, on so many slots of one node of the profiled type.

        Raises:
            InvalidInput: that is not known.
        """


class RecordedDurations:
    """Seconds by trial, slots and iteration."""

    def __init__(self, seconds: Mapping[int, Mapping[int, Sequence[float]]]) -> None:
        """Durations of trials.

        Args:
            seconds: of each trial, by number of slots, those of its first iteration, its second and so on.
        """
        self._seconds = {trial: {slots: tuple(own) for slots, own in by.items()} for trial, by in seconds.items()}

    def iterations_s(self, trial: int, begin: int, end: int, slots: int) -> Sequence[float]:
        """What was recorded.

        Raises:
            InvalidInput: the trial was not recorded, not on so many slots, or not for so long.
        """
        own = self._seconds.get(trial, {}).get(slots, ())
        if end > len(own):
            raise InvalidInput(
                "durations",
                f"must hold {end} iterations of trial {trial} on {slots} slots, got {len(own)}; record them, or "
                "rehearse a plan and an experiment that do without",
            )
        return own[begin:end]


class Pace(Protocol):
    """When the iterations of one start end, in seconds after the first began."""

    total_s: float
    """When the last one ends."""

    def end_s(self, done: int) -> float:
        """When so many are done."""

    def took_s(self, done: int) -> float:
        """How long the last of so many took."""

    def done_at(self, at_s: float) -> int:
        """How many are done by then."""


class EvenPace:
    """All iterations take the same time."""

    def __init__(self, iterations: int, total_s: float) -> None:
        self.total_s = total_s
        self._iterations = iterations
        self._step_s = total_s / iterations

    def end_s(self, done: int) -> float:
        """When so many are done."""
        return self.total_s if done == self._iterations else done * self._step_s

    def took_s(self, done: int) -> float:
        """How long the last of so many took."""
        return self._step_s

    def done_at(self, at_s: float) -> int:
        """How many are done by then."""
        return int(at_s / self._step_s + _SAME_S) if self._step_s > 0 else 0


class UnevenPace:
    """Each iteration takes its own time."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds = tuple(seconds)
        self._ends_s = tuple(accumulate(self._seconds, initial=0.0))
        self.total_s = self._ends_s[-1]

    def end_s(self, done: int) -> float:
        """When so many are done."""
        return self._ends_s[done]

    def took_s(self, done: int) -> float:
        """How long the last of so many took."""
        return self._seconds[done - 1]

    def done_at(self, at_s: float) -> int:
        """How many are done by then."""
        return bisect_right(self._ends_s, at_s + _SAME_S) - 1
