"""Where a run's time went, from its log, in the terms of the profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rb_core.events import Event, StageEnded, TrialPaused, TrialReported, TrialStarted
from rb_core.profile import ScalingProfile


@dataclass(slots=True, kw_only=True)
class _Start:
    """A trial's stage: times of its log in seconds, and its width."""

    slots: int
    began_s: float
    ended_s: float = 0.0
    reported_s: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Iterations but the first one, which warms up."""
        return len(self.reported_s) - 1

    @property
    def stepping_s(self) -> float:
        """How long these took."""
        return self.reported_s[-1] - self.reported_s[0]

    @property
    def around_s(self) -> float:
        """What the start took beside its iterations, as a profile counts it: start, warm-up and save."""
        return self.ended_s - self.began_s - self.stepping_s * (1 + 1 / self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Means over a run.

    Attributes:
        iteration_ratio: seconds of iterations by those of the profile.
        around_s: start and save of a trial together.
        barrier_s: from the end of a stage's last trial to the next one's first start; None where there is none.
    """

    iteration_ratio: float
    around_s: float
    barrier_s: float | None


def parts_of(events: Sequence[Event], profile: ScalingProfile) -> Parts:
    """Those of a run that went without faults, over its starts of more than one iteration.

    Args:
        events: its log.
        profile: what it was planned with.
    """
    running: dict[int, _Start] = {}
    starts: list[_Start] = []
    barriers_s: list[float] = []
    idle_since_s: float | None = None
    for event in events:
        if isinstance(event, TrialStarted):
            if idle_since_s is not None:
                barriers_s.append(event.t_s - idle_since_s)
                idle_since_s = None
            running[event.trial] = _Start(slots=event.slots, began_s=event.t_s)
        elif isinstance(event, TrialReported):
            running[event.trial].reported_s.append(event.t_s)
        elif isinstance(event, TrialPaused):
            start = running.pop(event.trial)
            start.ended_s = event.t_s
            starts.append(start)
        elif isinstance(event, StageEnded):
            idle_since_s = starts[-1].ended_s
    timed = [start for start in starts if start.steps > 0]
    expected_s = sum(start.steps * profile.iteration_s[start.slots].mean for start in timed)
    return Parts(
        iteration_ratio=sum(start.stepping_s for start in timed) / expected_s,
        around_s=float(np.mean([start.around_s for start in timed])),
        barrier_s=float(np.mean(barriers_s)) if barriers_s else None,
    )
