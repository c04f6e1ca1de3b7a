"""What Optuna keeps to itself and this package needs nevertheless: each use with the versions and the reason."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.progress_bar import _ProgressBar as ProgressBar
from optuna.storages._heartbeat import BaseHeartbeat, is_heartbeat_enabled
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

# `optuna.progress_bar._ProgressBar(is_valid, n_trials, timeout)` is the bar of `Study.optimize` (4.0 to 5.1).
__all__ = ["ProgressBar", "StudyView"]


def set_trial_system_attr(study: Study, trial: Trial | FrozenTrial, key: str, value: Any) -> None:
    """Store a system attribute with a trial that is not finished.

    Optuna 5.0 took ``Trial.set_system_attr`` away and left no public way to write one; its own pruners and samplers
    write through ``Study._storage`` and ``Trial._trial_id``, which are there from 4.0 to 5.1.

    Args:
        study: the trial's study.
        trial: the trial.
        key: at most 512 characters.
        value: anything that JSON holds.

    Raises:
        optuna.exceptions.UpdateFinishedTrialError: the trial is finished.
    """
    study._storage.set_trial_system_attr(trial._trial_id, key, value)


NESTED = "Nested invocation of `Study.optimize` method isn't allowed."
"""What Optuna says of an `optimize` within an objective of the same study."""


@contextmanager
def optimizing(study: Study) -> Iterator[None]:
    """Be the optimization loop of a study in this thread.

    `Study.stop`, and `tell` with samplers that stop at the end of a grid, refuse unless `Study._thread_local` says so;
    `Study._stop_flag` is what they set (4.0 to 5.1).

    Raises:
        RuntimeError: this thread is within the study's loop already.
    """
    local = study._thread_local
    if local.in_optimize_loop:
        raise RuntimeError(NESTED)
    study._stop_flag = False
    local.in_optimize_loop = True
    try:
        yield
    finally:
        local.in_optimize_loop = False
        study._storage.remove_session()


def is_stopped(study: Study) -> bool:
    """Whether `Study.stop` was called."""
    return study._stop_flag


def trial_id(trial: Trial | FrozenTrial) -> int:
    """What the storage calls a trial; `Trial(study, id)` takes a trial up again (4.0 to 5.1)."""
    return trial._trial_id


def is_in_memory(study: Study) -> bool:
    """Whether the study ends with this process."""
    return isinstance(study._storage, optuna.storages.InMemoryStorage)


def is_multi_objective(study: Study) -> bool:
    """Whether a study has several objectives, as Optuna decides it (4.0 to 5.1)."""
    return study._is_multi_objective()


def set_study_system_attr(study: Study, key: str, value: Any) -> None:
    """Store a system attribute with a study; as `set_trial_system_attr`."""
    study._storage.set_study_system_attr(study._study_id, key, value)


def study_system_attrs(study: Study) -> dict[str, Any]:
    """System attributes of a study; `Study.system_attrs` is gone since 5.0."""
    return study._storage.get_study_system_attrs(study._study_id)


def heartbeat_of(study: Study) -> BaseHeartbeat | None:
    """The storage, where it takes heartbeats; only `Study.optimize` sends them by itself (4.0 to 5.1)."""
    storage = study._storage
    return storage if isinstance(storage, BaseHeartbeat) and is_heartbeat_enabled(storage) else None


def fail_stale_trials(study: Study) -> None:
    """Fail the trials whose heartbeat has stopped, where there are heartbeats, as `Study.optimize` does."""
    if heartbeat_of(study) is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            optuna.storages.fail_stale_trials(study)


def read_trial(study: Study, trial: Trial) -> FrozenTrial:
    """The trial as it is stored, past the cache of its handle."""
    return study._storage.get_trial(trial._trial_id)


def log_completed(study: Study, trial: FrozenTrial) -> None:
    """Say that a trial is complete, in Optuna's words; the arguments changed between 4.0 and 4.9."""
    try:
        study._log_completed_trial(trial.values, trial.number, trial.params)
    except TypeError:
        study._log_completed_trial(trial)  # type: ignore[call-arg, arg-type]


def scratch_study(study: Study, seed: int) -> Study:
    """A study in memory with the same direction and random parameters, of which the user is not told."""
    storage = optuna.storages.InMemoryStorage()
    teller = logging.getLogger("optuna.storages._in_memory")
    level = teller.level
    teller.setLevel(logging.WARNING)
    try:
        storage.create_new_study(study.directions, "profiling")
    finally:
        teller.setLevel(level)
    return Study("profiling", storage, sampler=optuna.samplers.RandomSampler(seed=seed))


class StudyView(Study):
    """A study that shows a sampler other trials than its storage holds.

    `Study._get_trials` is where Optuna's own samplers read trials; no public way leads there (4.0 to 5.1). Optuna's
    Hyperband pruner does the same to show a sampler one bracket.
    """

    def __init__(self, study: Study, trials: Sequence[FrozenTrial]) -> None:
        """The same study with other trials, in the order of their numbers."""
        super().__init__(study_name=study.study_name, storage=study._storage)
        self._shown = trials

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        trials = [trial for trial in self._shown if states is None or trial.state in states]
        return copy.deepcopy(trials) if deepcopy else trials
