"""Brackets of synchronous successive halving, one after the other, with a sampler of Optuna's kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import optuna
from rb_optuna.sampler import RubberBandSampler

from rb_core.bracket import Bracket
from rb_core.spec import ExperimentSpec

from .curves import ITERATIONS, Curves

SPEC = ExperimentSpec.successive_halving(n=27, r=1, R=ITERATIONS, eta=3)
BRACKETS = 6


SAMPLERS: Mapping[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "RandomSampler": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "TPESampler": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "RubberBandSampler": lambda seed: RubberBandSampler(seed=seed),
    "the same without random_fraction": lambda seed: RubberBandSampler(seed=seed, random_fraction=0.0),
}
"""What is compared, made from a seed; all but the last as they are by default."""


def losses_after_brackets(curves: Curves, sampler: optuna.samplers.BaseSampler) -> list[float]:
    """Run the brackets; after each, the true loss of the trial that looks best among the fully trained."""
    study = optuna.create_study(direction="minimize", sampler=sampler)
    losses = []
    where: dict[int, tuple[float, ...]] = {}
    for _ in range(BRACKETS):
        if isinstance(sampler, RubberBandSampler):
            sampler.begin_bracket(SPEC.trials)
        _run(study, curves, where)
        losses.append(curves.loss(where[study.best_trial.number], ITERATIONS))
    return losses


def _run(study: optuna.Study, curves: Curves, where: dict[int, tuple[float, ...]]) -> None:
    bracket = Bracket(SPEC.chains[0], "min")
    trials = {}
    for _ in range(SPEC.trials):
        trial = study.ask()
        trials[trial.number] = trial
        where[trial.number] = curves.suggest(trial)
    while not bracket.over:
        for number, trial in trials.items():
            score = curves.reported(where[number], bracket.rung, number)
            trial.report(score, bracket.rung)
            bracket.report(number, bracket.rung, score)
        decision = bracket.decide()
        for number in decision.stopped:
            study.tell(trials.pop(number), state=optuna.trial.TrialState.PRUNED)
    for trial in trials.values():
        study.tell(trial, curves.reported(where[trial.number], ITERATIONS, trial.number))
