"""The books of the simulated launcher: every start of every trial, where, how long, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rb_core.ports import Slot, TrialRun


class StartEnding(StrEnum):
    """How a start of a trial ended."""

    COMPLETED = "completed"
    """It ended its stage."""
    STOPPED = "stopped"
    """It was asked to save and end."""
    RAISED = "raised"
    """Its function raised."""
    KILLED = "killed"
    """It was killed on nodes that were there."""
    LOST = "lost"
    """A node of its was gone."""
    TORN = "torn"
    """Its checkpoint could not be read."""
    MISSING = "missing"
    """Its checkpoint did not exist."""
    VANISHED = "vanished"
    """The process that started it was killed."""


@dataclass(slots=True, kw_only=True)
class Start:
    """One start of a trial; times on the simulated clock.

    Attributes:
        trial: its number.
        stage: stage within its chain.
        slots: where it ran.
        nodes: names of the nodes of these.
        from_iteration: iterations done before.
        to_iteration: where its stage ends.
        checkpoint: what it was to go on from, empty for none.
        began_s: when it was started.
        ended_s: when its processes were gone; None while they are there.
        ending: how it ended.
        restored: iterations that the checkpoint stands for, once it was read.
    """

    trial: int
    stage: int
    slots: tuple[Slot, ...]
    nodes: tuple[str, ...]
    from_iteration: int
    to_iteration: int
    checkpoint: str
    began_s: float
    ended_s: float | None = None
    ending: StartEnding | None = None
    restored: int | None = None

    @classmethod
    def of(cls, run: TrialRun, began_s: float) -> Start:
        """The start of a run that begins now."""
        return cls(
            trial=run.trial,
            stage=run.stage,
            slots=run.slots,
            nodes=tuple(dict.fromkeys(slot.node for slot in run.slots)),
            from_iteration=run.from_iteration,
            to_iteration=run.to_iteration,
            checkpoint="" if run.checkpoint is None else str(run.checkpoint),
            began_s=began_s,
        )
