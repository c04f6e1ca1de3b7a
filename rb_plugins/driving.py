"""A run from its first event, or from where its log ends, to its last: the engine among locks, plugins and signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress

from rb_core.engine import Engine
from rb_core.engine.engine import PromoteHook
from rb_core.engine.request import RunRequest
from rb_core.errors import RubberBandError, TrialFailure, UnusableLog
from rb_core.eventlog import EventLog, read_log
from rb_core.events import Event
from rb_core.journal import Observer
from rb_core.lease import Lease, check_free
from rb_core.ports import Clock, Inbox, Launcher, Provider
from rb_core.spec import ExperimentSpec
from rb_plugins.interrupts import interruptible
from rb_plugins.latencies import remember
from rb_plugins.manager import Manager
from rb_plugins.outcome import Outcome, read_outcome
from rb_plugins.progress import Progress
from rb_plugins.rundir import RunDirectory


@contextmanager
def at_work(directory: RunDirectory, clock: Clock) -> Iterator[EventLog]:
    """Be the one process that is at work on a run, while this lasts: its log, locked, and its lease.

    Args:
        directory: of the run.
        clock: the time.

    Raises:
        UnusableLog: another process is, or the log or the lease cannot be written.
    """
    check_free(directory.lease, clock)
    with EventLog(directory.events) as log, Lease(directory.lease, clock):
        yield log


def drive(
    request: RunRequest,
    launcher: Launcher,
    *,
    directory: RunDirectory,
    clock: Clock,
    manager: Manager,
    rent: Callable[[Inbox], Provider],
    observers: Sequence[Observer],
    progress: Progress | None = None,
    history: Sequence[Event] = (),
    inbox: Inbox | None = None,
    log: EventLog | None = None,
) -> Outcome:
    """Let the engine run, and keep what came of it.

    Args:
        request: the run.
        launcher: of the run; left by the engine when the run is over.
        directory: of the run.
        clock: the time.
        manager: the plugins, which are asked and told.
        rent: makes the provider, which puts its notices into the inbox.
        observers: told each event after it was written, before the plugins.
        progress: told before them, and shown while the run lasts.
        history: all events of the log; none of a run that begins.
        inbox: made by `clock`, where it is known to others; a new one when None.
        log: of the run, from `at_work`, where that was entered before; it is entered when None.

    Raises:
        UnusableLog: another process is at work on the run, or was since the history was read.
        RubberBandError: as the engine; the error says how to go on where that makes sense.
    """
    inbox = clock.inbox() if inbox is None else inbox
    with (
        interruptible(),
        at_work(directory, clock) if log is None else nullcontext(log) as log,
        closing(rent(inbox)) as provider,
        nullcontext() if progress is None else progress.shown(),
    ):
        if len(read_log(directory.events).events) != len(history):
            raise UnusableLog(f"another process has been at work on run {directory.run} meanwhile; look at it again")
        engine = Engine(
            provider=provider,
            launcher=launcher,
            clock=clock,
            inbox=inbox,
            log=log,
            observers=[*([] if progress is None else [progress]), *observers, *manager.observers()],
            promote=_promotion(manager, request.mode),
        )
        try:
            if history:
                engine.resume(request, history)
            else:
                engine.run(request)
        except RubberBandError as error:
            # A training function that is at fault would fail again.
            if directory.began and not isinstance(error, TrialFailure):
                error.add_note(f"go on with it: rb-tune run --resume {directory.run}")
            with suppress(RubberBandError):
                directory.write("outcome.json", read_outcome(directory).table())
            raise
        finally:
            remember(directory, request.problem.cloud.provider, clock)
    outcome = read_outcome(directory)
    directory.write("outcome.json", outcome.table())
    return outcome


def _promotion(manager: Manager, mode: str) -> PromoteHook:
    sign = 1.0 if mode == "max" else -1.0

    def promote(spec: ExperimentSpec, stage: int, scores: Mapping[int, float]) -> Sequence[int] | None:
        return manager.promote(spec, stage, {trial: sign * score for trial, score in scores.items()})

    return promote
