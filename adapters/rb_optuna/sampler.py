"""A sampler for synchronous brackets of successive halving."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, TPESampler
from optuna.search_space import intersection_search_space
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rb_optuna._compat import StudyView
from rb_optuna.quasi_random import QuasiRandom
from rb_optuna.rungs import rung_results

_UNSEEN = (TrialState.FAIL, TrialState.WAITING)


class RubberBandSampler(BaseSampler):
    """Quasi-random points at first; then Optuna's TPE, fitted to the results of one rung.

    In a synchronous bracket all trials start before any has a result, so a sampler can learn only from bracket to
    bracket. The first bracket is one batch of a scrambled Sobol' sequence. From then on the rule is that of BOHB
    (Falkner, Klein, Hutter, "BOHB: robust and efficient hyperparameter optimization at scale", ICML 2018, section 4
    and algorithm 2): the model is fitted to the results of the highest rung that has at least two more than
    ``N_min``, which is the number of parameters plus one, and a constant fraction of the trials stays random (here:
    points of the same sequence).

    Every trial of a bracket sees the results that were there when the bracket began, and no others. So what is
    suggested does not depend on how fast its trials are. Trials of the same bracket are shown to the model as running.

    .. note::
        :class:`~rb_optuna.RubberBandExecutor` calls :meth:`begin_bracket`. Where nobody does, every trial sees all
        results so far.

    Args:
        seed:
            Seed of the sequence and of the model.
        bracket_trials:
            How many trials the first bracket has, as if by :meth:`begin_bracket`.
        min_resource:
            The lowest rung, in iterations.
        reduction_factor:
            Every rung is so many times the one below.
        random_fraction:
            Fraction of the trials that are drawn from the sequence even when there is a model. The default is that of
            HpBandSter, BOHB's own implementation.
        constraints_func:
            As for :class:`~optuna.samplers.TPESampler`.

    Raises:
        ValueError: An argument is out of its range; or, later, the study has several objectives.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        bracket_trials: int | None = None,
        min_resource: int = 1,
        reduction_factor: int = 3,
        random_fraction: float = 1 / 3,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
    ) -> None:
        _at_least("min_resource", min_resource, 1)
        _at_least("reduction_factor", reduction_factor, 2)
        if not 0 <= random_fraction <= 1:
            raise ValueError(f"The value of `random_fraction` is {random_fraction}, but must be between 0 and 1.")
        self._min_resource = min_resource
        self._reduction_factor = reduction_factor
        self._random_fraction = random_fraction
        self._sequence = QuasiRandom(seed)
        with warnings.catch_warnings():
            # Both are the defaults of 5.x, and experimental in 4.x.
            warnings.simplefilter("ignore", ExperimentalWarning)
            self._tpe = TPESampler(
                seed=seed,
                n_startup_trials=0,
                multivariate=True,
                constant_liar=True,
                constraints_func=constraints_func,
            )
        self._bracket = range(0)
        self._due_trials: int | None = None
        if bracket_trials is not None:
            self.begin_bracket(bracket_trials)

    def begin_bracket(self, trials: int) -> None:
        """Say that the next trials that are asked for are one synchronous bracket.

        Args:
            trials: How many.

        Raises:
            ValueError: ``trials`` is not a positive integer.
        """
        _at_least("bracket_trials", trials, 1)
        self._due_trials = trials

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Take the first trial after :meth:`begin_bracket` as the bracket's first."""
        if self._due_trials is not None:
            self._bracket = range(trial.number, trial.number + self._due_trials)
            self._due_trials = None
        self._tpe.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Let the model note the constraints."""
        self._tpe.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """Reseed the model; the sequence stays, since different trials have different points of it anyway."""
        self._tpe.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that all trials of the model's rung have; none while there is no model."""
        view = self._view(study, trial)
        if view is None:
            return {}
        space = intersection_search_space(view.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        return {name: distribution for name, distribution in space.items() if not distribution.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Values from the model, or where there is none the trial's point of the sequence."""
        view = self._view(study, trial)
        if view is None:
            return {name: self._sequence.value(trial.number, name, asked) for name, asked in search_space.items()}
        return self._tpe.sample_relative(view, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value from the model, or where there is none a coordinate of the trial's point of the sequence."""
        view = self._view(study, trial)
        if view is None:
            return self._sequence.value(trial.number, param_name, param_distribution)
        return self._tpe.sample_independent(view, trial, param_name, param_distribution)

    def _view(self, study: Study, trial: FrozenTrial) -> StudyView | None:
        """The study as the model is to see it; None where the trial is to be drawn from the sequence."""
        if len(study.directions) > 1:
            raise ValueError(
                "If the study is being used for multi-objective optimization, RubberBandSampler cannot be used."
            )
        if self._sequence.coin(trial.number) < self._random_fraction:
            return None
        bracket = self._bracket if trial.number in self._bracket else range(0)
        trials = study.get_trials(deepcopy=False)
        scores = self._scores([one for one in trials if one.number not in bracket])
        if scores is None:
            return None
        worst = math.inf if study.direction == StudyDirection.MINIMIZE else -math.inf
        shown = []
        for one in trials:
            if one.number in scores:
                score = scores[one.number]
                shown.append(_as(one, TrialState.COMPLETE, worst if math.isnan(score) else score))
            elif one.state == TrialState.RUNNING:
                shown.append(one)
            elif one.number in bracket and one.state not in _UNSEEN:
                shown.append(_as(one, TrialState.RUNNING, None))
        return StudyView(study, shown)

    def _scores(self, trials: Sequence[FrozenTrial]) -> dict[int, float] | None:
        """The results of the highest rung that has enough of them, by number of trial."""
        parameters = {trial.number: len(trial.params) for trial in trials}
        for scores in reversed(
            rung_results(trials, min_resource=self._min_resource, reduction_factor=self._reduction_factor)
        ):
            if scores and len(scores) >= max(parameters[number] for number in scores) + 3:
                return scores
        return None


def _as(trial: FrozenTrial, state: TrialState, value: float | None) -> FrozenTrial:
    shown = copy.copy(trial)
    shown.state, shown.value = state, value
    return shown


def _at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"The value of `{name}` is {value!r}, but must be an integer of at least {least}.")
