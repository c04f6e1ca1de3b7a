"""What a resumed run stands on: the state, the brackets and the clock, rebuilt from the events of its log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rb_core.bracket import Bracket
from rb_core.errors import UnusableLog
from rb_core.events import (
    Event,
    RunEnded,
    RunEnding,
    RunResumed,
    RunStarted,
    StageEnded,
    StageStarted,
    TrialFailed,
    TrialLeft,
    TrialPaused,
)
from rb_core.plan import AllocationPlan, StageAllocation
from rb_core.ports import Clock
from rb_core.state import RunState, apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """A run as its log left it.

    Attributes:
        started: the log's first event.
        state: after all of its events.
        t_s: seconds since the run started, now.
    """

    started: RunStarted
    state: RunState
    t_s: float

    def plan(self, first: AllocationPlan) -> AllocationPlan:
        """The plan that the run stood under, from the one that it started with."""
        chains = [list(chain) for chain in first.chains]
        for change in self.state.replans:
            # The stages follow each other; how they are cut into chains is of the rest alone.
            records = iter([stage for part in change.plan.get("chains", [change.plan]) for stage in part["stages"]])
            begins = change.stage
            for chain in chains[change.chain :]:
                for number, record in zip(range(begins, len(chain)), records, strict=False):
                    chain[number] = StageAllocation(
                        instance_type=record["instance_type"],
                        nodes=record["nodes"],
                        slots_per_trial=record["slots_per_trial"],
                    )
                begins = 0
        return AllocationPlan(chains=tuple(map(tuple, chains)), order=first.order)


def resumption(history: Sequence[Event], brackets: Mapping[int, Bracket], clock: Clock) -> Resumption:
    """Rebuild a run.

    Args:
        history: all events of its log.
        brackets: one for each chain, in which nothing has been reported; they are brought to where the log ends.
        clock: the time.

    Raises:
        UnusableLog: the log does not begin with the start of a run, or the run has come to its end.
    """
    if not history or not isinstance(history[0], RunStarted):
        raise UnusableLog(
            "the log does not begin with the start of a run, so there is nothing to resume; begin a new run"
        )
    if isinstance(history[-1], RunEnded) and history[-1].ending is RunEnding.DONE:
        raise UnusableLog(f"run {history[0].run} has come to its end; there is nothing to resume")
    state = RunState()
    try:
        for event in history:
            apply(state, event)
            _replay(event, state, brackets)
    except (KeyError, IndexError, ValueError) as error:
        raise UnusableLog(
            f"the log of run {history[0].run} speaks of what it never introduced ({error}): it was edited, or lines of "
            "it are missing; restore the file as rb-tune wrote it"
        ) from None
    return Resumption(started=history[0], state=state, t_s=elapsed_s(history, clock))


def _replay(event: Event, state: RunState, brackets: Mapping[int, Bracket]) -> None:
    match event:
        case TrialPaused():
            trial = state.trials[event.trial]
            score = math.nan if trial.score is None else trial.score
            brackets[trial.chain].report(event.trial, event.iterations, score)
        case TrialFailed() | TrialLeft():
            brackets[state.trials[event.trial].chain].fail(event.trial)
        case StageStarted():
            if brackets[event.chain].stage != event.stage:
                raise ValueError(f"chain {event.chain} begins stage {event.stage} out of turn")
        case StageEnded():
            decision = brackets[event.chain].decide(event.survivors)
            if set(event.stopped) != set(decision.stopped):
                raise ValueError(
                    f"chain {event.chain} ends stage {event.stage} without saying what became of each trial"
                )


def elapsed_s(history: Sequence[Event], clock: Clock) -> float:
    """Seconds of the run now: by its own clock where that still counts from the same origin, else by the wall clock.

    Args:
        history: all events of its log, the first one its start.
        clock: the time.

    Raises:
        UnusableLog: the log ends with an event of no time.
    """
    last = history[-1]
    began = next(event for event in reversed(history) if isinstance(event, RunStarted | RunResumed))
    if began.clock == clock.origin:
        return max(last.t_s, began.t_s + clock.now() - began.clock_s)
    try:
        last_utc = datetime.fromisoformat(last.utc).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UnusableLog(
            f"the log ends with an event of the time {last.utc!r}, which is none: it was edited; restore the file as "
            "rb-tune wrote it"
        ) from None
    return last.t_s + max(0.0, (clock.utc() - last_utc).total_seconds())
