"""What the events of a run mean for the study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rb_core import events
from rb_core.events import Event
from rb_core.shares import Shares
from rb_optuna.holding import HoldingLauncher


@dataclass(frozen=True, slots=True)
class Watch:
    """An observer of a run that tells its launcher who is out.

    Attributes:
        launcher: of the run.
    """

    launcher: HoldingLauncher

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case events.StageEnded():
                for trial in event.stopped:
                    self.launcher.dropped(trial)
            case events.TrialFailed():
                self.launcher.lost(event.trial, event.cause)


def used(shares: Shares) -> Callable[[int], Mapping[str, Any]]:
    """User attributes that say what a trial has used: seconds on its slots, their price, its slots at each start."""

    def attributes(trial: int) -> Mapping[str, Any]:
        share = shares.of(trial)
        return {
            "rubberband:gpu_seconds": share.slot_s,
            "rubberband:cost": share.cost_usd,
            "rubberband:allocation": list(share.slots),
        }

    return attributes
