"""What each trial of a run uses, while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from rb_core import events
from rb_core.events import Event
from rb_core.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one trial has used so far.

    Attributes:
        slot_s: seconds that it held slots, times their number.
        cost_usd: price of that: of every node the part that its slots are. Nodes cost more: they idle, too.
        slots: its slots at each of its starts.
    """

    slot_s: float = 0.0
    cost_usd: float = 0.0
    slots: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Use:
    """A trial's use, and the start that is under way."""

    slot_s: float = 0.0
    cost_usd: float = 0.0
    slots: list[int] = field(default_factory=list)
    since_s: float | None = None
    usd_per_slot_s: float = 0.0


class Shares:
    """An observer of a run that knows at any time what each trial has used.

    Of a run that is resumed it is told the events of the log first.

    Args:
        clock: the run's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = 0.0
        self._usd_per_slot_s: dict[str, float] = {}
        self._uses: dict[int, _Use] = {}

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self._ahead_s = self._clock.now() - event.t_s
        match event:
            case events.NodeRequested():
                self._usd_per_slot_s[event.node] = event.usd_per_hour / 3600.0 / event.slots
            case events.TrialStarted():
                use = self._uses.setdefault(event.trial, _Use())
                use.slots.append(event.slots)
                use.since_s = event.t_s
                prices = [self._usd_per_slot_s.get(node, 0.0) for node in event.nodes]
                use.usd_per_slot_s = sum(prices) / len(prices) if prices else 0.0
            case events.TrialPaused() | events.TrialInterrupted() | events.TrialFailed() | events.TrialLeft():
                self._book(event.trial, event.t_s)

    def of(self, trial: int) -> Share:
        """What a trial has used until now."""
        use = self._uses.get(trial)
        if use is None:
            return Share()
        slot_s = _under_way_slot_s(use, self._clock.now() - self._ahead_s)
        return Share(
            slot_s=use.slot_s + slot_s,
            cost_usd=use.cost_usd + slot_s * use.usd_per_slot_s,
            slots=tuple(use.slots),
        )

    def _book(self, trial: int, now_s: float) -> None:
        use = self._uses.get(trial)
        if use is not None:
            slot_s = _under_way_slot_s(use, now_s)
            use.slot_s, use.cost_usd = use.slot_s + slot_s, use.cost_usd + slot_s * use.usd_per_slot_s
            use.since_s = None


def _under_way_slot_s(use: _Use, now_s: float) -> float:
    return 0.0 if use.since_s is None else (now_s - use.since_s) * use.slots[-1]
