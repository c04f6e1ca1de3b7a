"""Where a running engine writes: log first, then the state in memory, then the observers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rb_core.errors import RubberBandError
from rb_core.eventlog import Log
from rb_core.events import Event, Warned
from rb_core.ports import Clock, Launch
from rb_core.state import RunState, apply

Observer = Callable[[Event], None]
"""Told each event after it was written. One that raises is reported once and never stops the run."""

_logger = logging.getLogger(__name__)


class Journal:
    """Stamps events, writes them to the log, folds them into the state and tells the observers."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        observers: Sequence[Observer] = (),
        *,
        state: RunState | None = None,
        t_s: float = 0.0,
    ) -> None:
        """A journal of a run that begins, or goes on.

        Args:
            log: where events are written.
            clock: the time.
            observers: told each event.
            state: what the log holds already; None where it is empty.
            t_s: seconds since the run started.
        """
        self.state = RunState() if state is None else state
        self._log = log
        self._clock = clock
        self._origin_s = clock.now() - t_s
        self._observers = tuple(observers)
        self._broken: set[int] = set()
        self._warned: set[str] = set(self.state.warnings)

    @property
    def t_s(self) -> float:
        """Seconds since the run started."""
        return self._clock.now() - self._origin_s

    @property
    def launches(self) -> Mapping[str, Launch]:
        """The provider's renting calls by their tokens."""
        return self.state.launches

    def at(self, t_s: float) -> float:
        """The clock's reading at `t_s` seconds of the run."""
        return self._origin_s + t_s

    def write(self, kind: type[Event], **values: Any) -> None:
        """Write one event of this kind, stamped with the time.

        Raises:
            UnusableLog: it could not be written; nothing has happened.
        """
        self.write_all(kind, [values])

    def write_all(self, kind: type[Event], rows: Iterable[Mapping[str, Any]]) -> None:
        """Write several events of one kind at once.

        Raises:
            UnusableLog: they could not be written; nothing has happened.
        """
        made = self._stamped(kind, rows)
        self._log.append(*made)
        self._take(made)

    def attempt(self, kind: type[Event], **values: Any) -> None:
        """Write one event if that is still possible; used where things must be given back in any case."""
        made = self._stamped(kind, [values])
        try:
            self._log.append(*made)
        except RubberBandError as error:
            _logger.error("%s was not logged: %s", kind.__name__, error)
        try:
            self._take(made)
        except KeyError:
            # An interrupt may have come between an event's way into the log and into the state.
            _logger.exception("%s does not fit the state", kind.__name__)

    def warn(self, text: str) -> None:
        """Write a warning, equal texts once."""
        if text not in self._warned:
            self._warned.add(text)
            self.write(Warned, text=text)

    def _stamped(self, kind: type[Event], rows: Iterable[Mapping[str, Any]]) -> list[Event]:
        t_s, utc = self.t_s, self._clock.utc().isoformat()
        return [kind(t_s=t_s, utc=utc, **values) for values in rows]

    def _take(self, made: Sequence[Event]) -> None:
        for event in made:
            apply(self.state, event)
        # Warnings about observers come after the events that these were told of, for all observers alike.
        complaints = [text for event in made for text in self._tell(event)]
        for text in complaints:
            self.attempt(Warned, text=text)

    def _tell(self, event: Event) -> Iterator[str]:
        for number, observer in enumerate(self._observers):
            try:
                observer(event)
            except Exception as error:
                _logger.debug("observer %r raised", observer, exc_info=error)
                if number not in self._broken:
                    self._broken.add(number)
                    yield f"observer {_name(observer)} raised {type(error).__name__}: {error}; the run goes on"


def _name(observer: Observer) -> str:
    return getattr(observer, "__qualname__", None) or type(observer).__qualname__
