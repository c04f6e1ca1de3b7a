"""What Optuna keeps to itself and this package needs nevertheless: each use with the versions and the reason."""

from __future__ import annotations

import copy
from collections.abc import Container, Sequence
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState


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
