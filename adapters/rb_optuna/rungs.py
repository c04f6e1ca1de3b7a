"""What trials have come to at the rungs, read from a study."""

from __future__ import annotations

from collections.abc import Iterable

from optuna.trial import FrozenTrial, TrialState

from rb_optuna.resource import resource

_COUNTED = (TrialState.RUNNING, TrialState.PRUNED, TrialState.COMPLETE)


def rung_results(trials: Iterable[FrozenTrial], *, min_resource: int, reduction_factor: int) -> list[dict[int, float]]:
    """The results at every rung that a trial has reached, the lowest first, by the number of the trial.

    A trial's result at a rung is the first value that it reported there or beyond. A complete trial that reported
    nothing counts at the highest rung, with its final value. Failed trials do not count, as with Optuna's samplers.

    Args:
        trials: of one study, with one objective.
        min_resource: the lowest rung, in iterations.
        reduction_factor: every rung is so many times the one below.
    """
    rungs: list[dict[int, float]] = [{}]
    unreported: dict[int, float] = {}
    for trial in trials:
        if trial.state not in _COUNTED:
            continue
        if not trial.intermediate_values:
            if trial.state == TrialState.COMPLETE and trial.value is not None:
                unreported[trial.number] = trial.value
            continue
        first = min(trial.intermediate_values)
        level, rung = 0, min_resource
        for step, value in sorted(trial.intermediate_values.items()):
            while resource(step, first) >= rung:
                if level == len(rungs):
                    rungs.append({})
                rungs[level][trial.number] = value
                level, rung = level + 1, rung * reduction_factor
    rungs[-1].update(unreported)
    return rungs
