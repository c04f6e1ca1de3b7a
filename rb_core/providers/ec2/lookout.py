"""Looks at what is rented, by timers of a clock: often while something changes, seldom while nothing does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rb_core.ports import Clock, Timer

LOOK_S = 5.0
"""Pause between two looks while something changes."""

LONGEST_LOOK_S = 15.0
"""And when nothing has changed for long."""

CALM_S = 45.0
"""The pause grows when nothing has changed for so long, however much is expected."""

_GROWTH = 1.5


class Watched(Protocol):
    """What is looked at."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to see."""

    @property
    def restless(self) -> bool:
        """Whether something is expected to change soon."""


class Lookout:
    """One timer at a time, and none while there is nothing to see. Used in the clock's own thread alone.

    Args:
        clock: the time.
        watched: what is looked at.
        look: looks once; whether anything was new. It raises nothing that may be borne.
    """

    def __init__(self, clock: Clock, watched: Watched, look: Callable[[], bool]) -> None:
        self._clock = clock
        self._watched = watched
        self._look = look
        self._timer: Timer | None = None
        self._pause_s = LOOK_S
        self._changed_s = clock.now()

    def stir(self) -> None:
        """Something is under way: look often for a while."""
        self._pause_s, self._changed_s = LOOK_S, self._clock.now()
        self._arrange()

    def stop(self) -> None:
        """Look no more until something is stirred. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arrange(self) -> None:
        self.stop()
        if not self._watched.idle:
            self._timer = self._clock.call_at(self._clock.now() + self._pause_s, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._look():
            self._pause_s, self._changed_s = LOOK_S, self._clock.now()
        else:
            calm = not self._watched.restless or self._clock.now() > self._changed_s + CALM_S
            self._pause_s = min(LONGEST_LOOK_S, self._pause_s * _GROWTH) if calm else LOOK_S
        self._arrange()
