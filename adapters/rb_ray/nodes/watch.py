"""A thread that looks at a cluster again and again until it is told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

LOOK_S = 0.3
"""Pause between two looks."""

_logger = logging.getLogger(__name__)


class Watch:
    """Calls a function every `LOOK_S` seconds, in a thread of its own. What it raises is logged, once in a row.

    Args:
        look: the function.
        name: of the thread.
    """

    def __init__(self, look: Callable[[], None], name: str) -> None:
        self._look = look
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, after the look that is under way. Idempotent."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        said = ""
        while not self._stop.wait(LOOK_S):
            try:
                self._look()
            except Exception as error:
                if repr(error) != said:
                    _logger.warning("looking at the Ray cluster: %s", error)
                said = repr(error)
            else:
                said = ""
