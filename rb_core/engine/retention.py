"""Which checkpoints of a trial are still needed."""

from __future__ import annotations

from rb_core.state import Checkpoint, TrialState


def superseded(trial: TrialState, mode: str) -> tuple[Checkpoint, ...]:
    """Checkpoints of a live trial that are neither its last nor its best-scored one."""
    needed = (trial.last_checkpoint, trial.best_checkpoint(mode))
    return tuple(checkpoint for checkpoint in trial.checkpoints if checkpoint not in needed)
