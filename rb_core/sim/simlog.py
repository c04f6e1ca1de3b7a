"""The log of a rehearsal: kept in memory, read back as text, and the place where the engine's process is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rb_core.errors import UnusableLog
from rb_core.eventlog import line, parse_log
from rb_core.events import Event
from rb_core.sim.driver import Driver


class SimLog:
    """What every process of a run writes to; it outlives them.

    Attributes:
        events: all that was written whole.
        full: whether more was to be written than any sound run writes.
    """

    def __init__(
        self, kills: Sequence[int], *, most: int, rng: np.random.Generator, on_event: Callable[[Event], None]
    ) -> None:
        """An empty log.

        Args:
            kills: at which events the process is killed, ascending numbers.
            most: how many events fit.
            rng: decides whether a kill comes before or after its event is on the disk, or tears it.
            on_event: told each event that is on the disk, before the engine goes on.
        """
        self.events: list[Event] = []
        self.full = False
        self.driver = Driver()
        self._kills = list(kills)
        self._most = most
        self._rng = rng
        self._on_event = on_event
        self._torn = ""

    def append(self, *events: Event) -> None:
        """Write the events; perhaps not all, and then the process is gone.

        Raises:
            UnusableLog: the log is full.
        """
        self.driver.check()
        if len(self.events) + len(events) > self._most:
            self.full = True
            raise UnusableLog(f"the log is full: a sound run writes fewer than {self._most} events")
        if self._kills and self._kills[0] < len(self.events) + len(events):
            written = max(0, self._kills.pop(0) - len(self.events))
            how = self._rng.integers(3)
            self._keep(events[: written + 1] if how == 1 else events[:written])
            if how == 2:
                whole = line(events[written])
                self._torn = whole[: int(self._rng.integers(len(whole)))]
            self.driver.kill()
        self._keep(events)

    def close(self) -> None:
        """Nothing to let go of."""

    def history(self) -> tuple[Event, ...]:
        """What a new process reads: the whole lines, out of the text that is on the disk."""
        text = "".join(line(event) for event in self.events) + self._torn
        self._torn = ""
        return parse_log(text.encode(), "the rehearsal's log").events

    def _keep(self, events: Sequence[Event]) -> None:
        self.events.extend(events)
        for event in events:
            self._on_event(event)
