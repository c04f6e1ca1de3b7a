"""What went otherwise than planned, folded from the events of a log."""

from __future__ import annotations

from collections.abc import Sequence

from rb_core import events
from rb_core.events import Event, RunEnding
from rb_core.report import duration, money
from rb_plugins.page.story import Note, Sort


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
            sort, kind, subject, reason = told
            found.append(Note(t_s=max(0.0, event.t_s - began_s), sort=sort, kind=kind, subject=subject, reason=reason))
    return tuple(found)


def _told(event: Event) -> tuple[Sort, str, str, str] | None:
    match event:
        case events.Replanned():
            return (
                Sort.CHANGE,
                "re-planned",
                f"from stage {event.stage} of chain {event.chain}",
                f"{event.reason}; now {duration(event.jct_s)} and {money(event.cost_usd)} are expected, "
                f"{duration(event.before_jct_s)} and {money(event.before_cost_usd)} without the change",
            )
        case events.RunResumed():
            return Sort.RESUMED, "resumed", "the run", "another process goes on with it"
        case events.Warned():
            return Sort.WARNING, "warning", "the run", event.text
        case events.RunEnded() if event.ending is not RunEnding.DONE:
            return Sort.BREAK, f"ended: {event.ending}", "the run", event.reason
    fault = _fault(event)
    return None if fault is None else (Sort.FAULT, *fault)


def _fault(event: Event) -> tuple[str, str, str] | None:
    match event:
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
    return None
