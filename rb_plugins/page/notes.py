"""What went otherwise than planned, folded from the events of a log."""

from __future__ import annotations

from collections.abc import Sequence

from rb_core import events
from rb_core.events import Event, RunEnding
from rb_core.report import duration, money
from rb_plugins.page.story import Note


def notes(history: Sequence[Event], *, began_s: float) -> tuple[Note, ...]:
    """Faults, changes of the plan and warnings, in order.

    Args:
        history: the log.
        began_s: of the first node request; times count from it.
    """
    found = []
    for event in history:
        told = _told(event)
        if told is not None:
            kind, subject, reason = told
            found.append(Note(t_s=max(0.0, event.t_s - began_s), kind=kind, subject=subject, reason=reason))
    return tuple(found)


def _told(event: Event) -> tuple[str, str, str] | None:
    match event:
        case events.Replanned():
            return (
                "re-planned",
                f"from stage {event.stage} of chain {event.chain}",
                f"{event.reason}; now {duration(event.jct_s)} and {money(event.cost_usd)} are expected, "
                f"{duration(event.before_jct_s)} and {money(event.before_cost_usd)} without the change",
            )
        case events.NodeLost():
            return "node reclaimed" if event.reclaimed else "node lost", event.node, event.reason
        case events.NodeLeaving():
            return "node leaves", event.node, f"{event.reason}; in {duration(event.in_s)}"
        case events.LaunchRefused():
            return "launch refused", event.attempt, event.reason
        case events.TrialInterrupted():
            return "trial interrupted", f"trial {event.trial}", f"{event.cause}; it goes on from its last checkpoint"
        case events.TrialFailed():
            return "trial failed", f"trial {event.trial}", f"{event.cause} (rank {event.rank}); it leaves the bracket"
        case events.TrialLeft():
            return "trial left", f"trial {event.trial}", event.cause
        case events.CheckpointLost():
            return "checkpoint lost", f"trial {event.trial}", f"{event.cause}; it goes on from an earlier one"
        case events.RunResumed():
            return "resumed", "", "another process goes on with the run"
        case events.Warned():
            return "warning", "", event.text
        case events.RunEnded() if event.ending is not RunEnding.DONE:
            return f"ended: {event.ending}", "", event.reason
    return None
