"""Asynchronous successive halving for a plain `study.optimize`, and the bracket's numbers for the executor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from optuna.pruners import BasePruner
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from rb_optuna._compat import set_trial_system_attr
from rb_optuna.resource import resource

_VERDICT = "rubberband:rung_{rung}"
"""System attribute that holds whether the trial goes on from a rung, named after the rung's resource."""


@dataclass(frozen=True, kw_only=True)
class RubberBandPruner(BasePruner):
    """Pruner that never waits: asynchronous successive halving (ASHA) with an exact resource.

    Under ``RubberBandExecutor`` it decides nothing and only carries the bracket's numbers. Under a plain
    ``study.optimize`` it is the stopping form of ASHA (Li et al., "A System for Massively Parallel Hyperparameter
    Tuning", MLSys 2020): rungs lie at ``min_resource * reduction_factor ** k`` below ``max_resource``,
    and a trial stops at a rung unless it is among the best ``1 / reduction_factor`` of the results there so far.

    * **Resource.** Iterations done: ``step + 1`` for a trial whose first step is 0, else ``step``. Optuna's own
      pruners compare the bare step, so that they look one iteration late at trials that count from 0
      (optuna/optuna#5750, #1489).
    * **Result.** A trial's result at a rung is the first value that it reported at or beyond it. A report may pass
      several rungs; they are decided one after the other. Every trial of the study counts, its state whatever it is:
      a trial that failed later, still runs, or was never asked about has a result all the same.
    * **Among the best.** With ``n`` results, its own included, a trial goes on if fewer than ``n // reduction_factor``
      of them are better than its own, so that equal results fare alike. NaN never goes on but counts in ``n``;
      infinities compare as floats.
    * **The first few.** While ``n < reduction_factor`` a trial goes on if none is better. The paper promotes nobody
      then, because it can resume a trial later; here a stop is final, and stopping all could lose the best of the
      study. Letting all of them on would spend full trainings on trials of no merit. As it is, the best result so
      far at a rung is never stopped.
    * **Once.** A verdict is stored with the trial and holds, however often and by whichever process it is asked for;
      ``should_prune`` need not be called after every report.

    .. note::
        Which trials stop depends on the order in which they report, and an unlucky one that meets better ones early
        stops although it would have been among the best ``1 / reduction_factor`` of all in the end (optuna/optuna#404,
        #388). No pruner can mend that, since Optuna's trials cannot be resumed and waiting for the others would
        deadlock ``study.optimize``. What holds in any order and with any number of parallel trials: the trial with
        the best result at every rung that it passes is never stopped. ``RubberBandExecutor`` decides a rung when all
        its results are in, and so does not depend on the order at all.

    Args:
        min_resource:
            Iterations before the first rung. No trial is pruned earlier.
        max_resource:
            Iterations of a full training. A trial that reached it is never pruned. :obj:`None` sets no top:
            rungs go on for as long as trials do.
        reduction_factor:
            One in how many results goes on from a rung, and the ratio of one rung to the one before.

    Raises:
        ValueError:
            If an argument is not an integer, ``min_resource`` is below 1, ``reduction_factor`` below 2, or
            ``max_resource`` below ``min_resource``.
    """

    min_resource: int = 1
    max_resource: int | None = None
    reduction_factor: int = 3

    def __post_init__(self) -> None:
        _check("min_resource", self.min_resource, 1)
        _check("reduction_factor", self.reduction_factor, 2)
        if self.max_resource is not None:
            _check("max_resource", self.max_resource, 1)
            if self.max_resource < self.min_resource:
                raise ValueError(
                    f"The value of `max_resource` is {self.max_resource}, "
                    f"but must be `max_resource >= min_resource` ({self.min_resource})."
                )

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Judge whether the trial should be pruned based on the reported values.

        Args:
            study: the trial's study, of a single objective.
            trial: the trial; a finished one is judged without leaving a trace.

        Returns:
            Whether the trial should be pruned.
        """
        values = trial.intermediate_values
        done = resource(max(values), min(values)) if values else 0
        if self.max_resource is not None and done >= self.max_resource:
            return False
        for rung in self._rungs(done):
            key = _VERDICT.format(rung=rung)
            goes_on = trial.system_attrs.get(key)
            if goes_on is None:
                goes_on = self._goes_on(study, trial, rung)
                if not trial.state.is_finished():
                    set_trial_system_attr(study, trial, key, goes_on)
            if not goes_on:
                return True
        return False

    def _rungs(self, done: int) -> Iterator[int]:
        """The rungs that a trial has passed, the lowest first."""
        rung = self.min_resource
        while rung <= done:
            yield rung
            rung *= self.reduction_factor

    def _goes_on(self, study: Study, trial: FrozenTrial, rung: int) -> bool:
        own = _result(trial.intermediate_values, rung)
        if own is None or math.isnan(own):
            return False
        others = [
            value
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number and (value := _result(other.intermediate_values, rung)) is not None
        ]
        if study.direction == StudyDirection.MAXIMIZE:
            better = sum(value > own for value in others)
        else:
            better = sum(value < own for value in others)
        return better < max(1, (len(others) + 1) // self.reduction_factor)


def _result(values: Mapping[int, float], rung: int) -> float | None:
    """The first value at or beyond a rung, by step; None for a trial that has not got there."""
    if not values:
        return None
    first = min(values)
    exact = first + rung - resource(first, first)
    if exact in values:
        return values[exact]
    later = min((step for step in values if step > exact), default=None)
    return None if later is None else values[later]


def _check(name: str, value: object, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"The value of `{name}` is {value!r}, but must be an integer and `{name} >= {low}`.")
