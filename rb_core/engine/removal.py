"""Removal of checkpoints from a depot, so that the engine never waits for a store."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Self

from rb_core.errors import StoreFailure, UnusableCheckpoint
from rb_core.ports import Depot, Errand, Inbox


class Removal:
    """Removes checkpoints one after another in a thread of its own; what could not be removed becomes a warning.

    Used as a context manager: leaving waits until all is removed, or until the store has failed once more.

    Args:
        depot: from where.
        inbox: the engine's, so that warnings are written in its thread.
        warn: writes a warning.
    """

    def __init__(self, depot: Depot, inbox: Inbox, warn: Callable[[str], None]) -> None:
        self._depot = depot
        self._inbox = inbox
        self._warn = warn
        self._wanted: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._troubles: deque[str] = deque()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="removal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._leaving.set()
        self._wanted.put(None)
        self._thread.join()
        self._tell()

    def __call__(self, reference: str) -> None:
        """Have a checkpoint removed. Never blocks."""
        self._wanted.put(reference)

    def _run(self) -> None:
        left: list[str] = []
        failed = ""
        while (reference := self._wanted.get()) is not None:
            if self._leaving.is_set() and failed:
                left.append(reference)
                continue
            try:
                self._depot.delete(reference)
                failed = ""
            except UnusableCheckpoint as error:
                failed = str(error) if isinstance(error, StoreFailure) else ""
                self._trouble(f"{error}; remove it by hand")
        if left:
            self._trouble(f"{len(left)} more checkpoint(s) stay in {self._depot.uri}, which failed: {failed}")

    def _trouble(self, text: str) -> None:
        self._troubles.append(text)
        self._inbox.put(Errand(action=self._tell))

    def _tell(self) -> None:
        while self._troubles:
            self._warn(self._troubles.popleft())
