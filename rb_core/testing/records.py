"""A log for providers that is kept in memory alone: for tests of a provider without a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rb_core.events import Event, LaunchAttempted, LaunchGranted, LaunchRefused
from rb_core.ports import Clock, Launch

_logger = logging.getLogger(__name__)


class MemoryRecord:
    """A `rb_core.ports.Record` that ends with the process. What is rented under it is lost when that is killed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = clock.now()
        self._launches: dict[str, Launch] = {}

    @property
    def t_s(self) -> float:
        """Seconds since it was made."""
        return self._clock.now() - self._began_s

    @property
    def launches(self) -> Mapping[str, Launch]:
        """What it was told."""
        return self._launches

    def write(self, kind: type[Event], **values: Any) -> None:
        """Keep what is said of renting calls."""
        attempt = str(values.get("attempt", ""))
        if kind is LaunchAttempted:
            self._launches[attempt] = Launch(t_s=self.t_s, **values)
        elif kind is LaunchGranted:
            self._launches[attempt] = replace(self._launches[attempt], instances=values["instances"])
        elif kind is LaunchRefused:
            self._launches[attempt] = replace(self._launches[attempt], refused=values["reason"])

    def warn(self, text: str) -> None:
        """Log it."""
        _logger.warning("%s", text)
