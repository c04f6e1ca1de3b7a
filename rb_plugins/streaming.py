"""Every event of a run as one line of JSON on standard output, and the run's answer as the last line."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Mapping
from typing import Any, TextIO

from rb_core.eventlog import line
from rb_core.events import Event
from rb_plugins import show


class EventStream:
    """An observer that prints; within a ``with`` block.

    A thread of its own writes, so that a reader that is slow, stands still or goes away costs the run nothing. When
    the block is left, what was not read yet is waited for.
    """

    def __init__(self, output: TextIO | None = None) -> None:
        """Nothing has been printed.

        Args:
            output: where to; standard output when None.
        """
        self._output = sys.stdout if output is None else output
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._print, name="events", daemon=True)

    def __call__(self, event: Event) -> None:
        """Print an event as it stands in the log."""
        self._lines.put(line(event))

    def answer(self, content: Mapping[str, Any]) -> None:
        """Print a JSON object as one line."""
        self._lines.put(json.dumps(content) + "\n")

    def __enter__(self) -> EventStream:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._lines.put(None)
        self._thread.join()

    def _print(self) -> None:
        while (text := self._lines.get()) is not None:
            try:
                self._output.write(text)
                self._output.flush()
            except (OSError, ValueError):
                show.silence(self._output)
                show.note("nobody reads standard output any more: events are in the run's log alone from now on")
                return
