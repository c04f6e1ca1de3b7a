"""What Optuna's steps mean as an amount of training."""

from __future__ import annotations


def resource(step: int, first_step: int) -> int:
    """Iterations that are done once `step` has been reported.

    Optuna leaves open whether steps count from 0 or from 1, and its own pruners look at the bare step, one iteration
    late where they count from 0 (optuna/optuna#5750). Here a trial whose first report is of step 0 counts from 0.

    Args:
        step: the step of a report.
        first_step: the step of the trial's first report.
    """
    return step + 1 if first_step == 0 else step
