"""Heartbeats of the trials that are under way, those that wait or are suspended included."""

from __future__ import annotations

import threading
from typing import Self

from optuna.study import Study
from optuna.trial import Trial

from rb_optuna._compat import heartbeat_of, trial_id


class Heartbeat:
    """A thread that tells the storage at its interval that trials are alive; none where the storage asks for none.

    Use it as a context manager.

    Args:
        study: whose storage is told.
    """

    def __init__(self, study: Study) -> None:
        self._storage = heartbeat_of(study)
        self._alive: set[int] = set()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, trial: Trial) -> None:
        """A trial is under way from now on."""
        if self._storage is None:
            return
        self._storage.record_heartbeat(trial_id(trial))
        self._alive = self._alive | {trial_id(trial)}
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="rubberband-heartbeat", daemon=True)
            self._thread.start()

    def end(self, trial: Trial) -> None:
        """A trial has ended."""
        self._alive = self._alive - {trial_id(trial)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        storage = self._storage
        interval_s = None if storage is None else storage.get_heartbeat_interval()
        while storage is not None and not self._over.wait(interval_s):
            for number in self._alive:
                storage.record_heartbeat(number)
