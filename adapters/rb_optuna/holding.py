"""Keeps the processes of trials that wait at a rung, so that those that go on in the same place just go on."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import Self

from rb_core.errors import FailureKind, TrialFailure
from rb_core.ports import (
    Clock,
    Errand,
    Inbox,
    Launcher,
    Notice,
    Slot,
    Timer,
    TrialExit,
    TrialHandle,
    TrialNotice,
    TrialRun,
)
from rb_core.trial import ConfigRead, Iterated, Message, Ready, Remark, Reported, Saved
from rb_optuna.desk import Desk
from rb_optuna.messages import (
    AtRung,
    CanResume,
    End,
    Finished,
    Follow,
    Order,
    Passed,
    Report,
    Verdict,
)
from rb_optuna.resource import resource
from rb_plugins import interrupts

GRACE_S = 5.0
"""How long the other ranks of a trial may take to end once rank 0 has."""

_logger = logging.getLogger("optuna.rubberband")
_CORE = (Ready, Iterated, Saved, Remark, ConfigRead)


class _Standing(Enum):
    """Where a start stands."""

    RUNNING = auto()
    """The engine knows of it."""
    HELD = auto()
    """It waits at a rung; for the engine it has ended its stage."""
    LEAVING = auto()
    """It was told to go."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Start:
    """One start of a trial's processes, and what the engine was given for it.

    Attributes:
        run: the stage that it runs, or has run last.
        inbox: where the engine listens.
        handle: of the processes; None until they are there.
        standing: where it stands.
        can_resume: whether it keeps what it needs to go on from a checkpoint.
        asking: whether rank 0 waits for a verdict.
        orders: what rank 0 was told at each question.
        followers: ranks that wait for what rank 0 is told, and at which question.
        finished: what rank 0 said at its end.
        elsewhere: the first failure that another rank spoke of.
        reaper: ends what is left of it.
    """

    run: TrialRun
    inbox: Inbox
    handle: TrialHandle | None = None
    standing: _Standing = _Standing.RUNNING
    can_resume: bool = False
    asking: bool = False
    orders: list[Order] = field(default_factory=list)
    followers: list[tuple[int, int]] = field(default_factory=list)
    finished: Finished | None = None
    elsewhere: Finished | None = None
    reaper: Timer | None = None

    @property
    def trial(self) -> int:
        return self.run.trial


@dataclass(frozen=True, slots=True)
class _Tap:
    """The inbox of one start's processes: what they say is heard in the engine's thread, in order."""

    inbox: Inbox
    launcher: HoldingLauncher
    start: _Start

    def put(self, notice: Notice) -> None:
        self.inbox.put(Errand(action=partial(self.launcher.hear, self.start, notice)))

    def get(self, until_s: float | None = None) -> Notice | None:
        raise TypeError("only the engine listens")


class HoldingLauncher:
    """A launcher whose trials stay where they are at a rung, as long as nobody needs their slots.

    The engine sees a trial end its stage at the rung. When it starts the trial's next stage in the same place, the
    process goes on; when it starts another trial there, the one that waits is suspended if it can resume, and ended
    to be run again from its beginning if it cannot.

    Attributes:
        can_resume: whether any objective has said that it can be resumed.

    Args:
        inner: starts the processes.
        desk: answers them.
        clock: the time.
        fixed: whether a place is a device of one node; otherwise slots without a device are alike.
        crowded: whether those that wait may stay although others use their slots.
        room: slots that there are in all where those without a device are alike: up to so many nobody has to leave.
        holds: whether objectives that can be resumed wait at a rung; otherwise they always leave there, and a failure
            of an objective is one of its trial, as profilers want it.
        restart: whether objectives that cannot be resumed may be run again from their beginning.
        cost_factor: what that multiplies the training by, at most.
    """

    name = "optuna"

    def __init__(
        self,
        inner: Launcher,
        desk: Desk,
        clock: Clock,
        *,
        fixed: bool = False,
        crowded: bool = False,
        room: int = 0,
        holds: bool = True,
        restart: bool = True,
        cost_factor: float = 1.0,
    ) -> None:
        self._inner = inner
        self._desk = desk
        self._clock = clock
        self._fixed = fixed
        self._crowded = crowded
        self._room = room
        self._holds = holds
        self.can_resume = False
        self._restart = restart
        self._cost_factor = cost_factor
        self._starts: list[_Start] = []
        self._deferred: deque[_Start] = deque()
        self._warned = False
        self._closing = False
        self._inbox: Inbox | None = None

    def __enter__(self) -> Self:
        """Warm up."""
        self._inner.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        """End every process; those that were dropped come to their own end first. `inner` stays warm."""
        try:
            if exc[0] is None:
                self._wait_for_leaving()
        finally:
            with interrupts.held():
                self._closing = True
                self._deferred.clear()
                for start in self._starts:
                    self._end(start)
                self._wait_for_all()

    @interrupts.held()
    def start(self, run: TrialRun, inbox: Inbox) -> TrialHandle:
        """Let a trial begin, go on, or be started again; see the class."""
        self._inbox = inbox
        start = _Start(run=run, inbox=inbox)
        if not self._desk.open(run.trial):
            inbox.put(TrialExit(trial=run.trial, left="no further trial was to begin"))
            return _Handle(self, start, run.trial)
        if self._desk.is_over(run.trial):
            inbox.put(TrialExit(trial=run.trial, left="it had ended"))
            return _Handle(self, start, run.trial)
        held = next((s for s in self._starts if s.trial == run.trial and s.standing is _Standing.HELD), None)
        if held is not None and held.asking and self._same_place(held.run.slots, run.slots):
            self._swap(held, run)
            self._go_on(held, run)
            return _Handle(self, held, run.trial)
        self._deferred.append(start)
        self._make_room(start)
        self._begin_deferred()
        return _Handle(self, start, run.trial)

    def dropped(self, trial: int) -> None:
        """A trial was dropped at a rung: its process is told so, or the study where it has none."""
        held = next((s for s in self._starts if s.trial == trial and s.standing is _Standing.HELD), None)
        if held is None:
            self._later(partial(self._desk.drop, trial))
            return
        held.standing = _Standing.LEAVING
        self._order(held, Order.PRUNE)

    def lost(self, trial: int, cause: str) -> None:
        """A trial's processes were lost too often."""
        self._later(partial(self._desk.lose, trial, cause))

    @interrupts.held()
    def hear(self, start: _Start, notice: Notice) -> None:
        """Take in what the processes of a start said."""
        if isinstance(notice, TrialExit):
            self._gone(start, notice.failure)
        elif isinstance(notice, TrialNotice) and not self._closing:
            self._told(start, notice.rank, notice.message)

    def _told(self, start: _Start, rank: int, message: Message) -> None:
        desk, trial = self._desk, start.trial
        match message:
            case Report():
                score = desk.report(trial, message)
                if score is None:
                    self._end(start)
                elif start.standing is _Standing.RUNNING:
                    self._tell(start, Reported(iterations=message.iterations, score=score))
            case AtRung():
                start.asking = True
                if start.can_resume and not self._holds:
                    self._order(start, Order.SUSPEND)
                elif start.standing is _Standing.RUNNING and not desk.is_over(trial):
                    start.standing = _Standing.HELD
                    start.inbox.put(TrialExit(trial=trial))
            case Passed():
                self._settle(start, Order.CONTINUE)
            case Follow():
                start.followers.append((rank, message.call))
                self._answer_followers(start)
            case CanResume():
                start.can_resume = self.can_resume = True
            case Finished():
                self._finished(start, rank, message)
            case _ if isinstance(message, _CORE):
                if start.standing is _Standing.RUNNING:
                    self._tell(start, message, rank)
            case _:
                answer = desk.answer(trial, rank, message)
                if answer is not None and start.handle is not None:
                    start.handle.send(rank, answer)

    def _finished(self, start: _Start, rank: int, finished: Finished) -> None:
        if rank:
            # A rank that fails takes rank 0 with it, which then tells of no more than that.
            if finished.end is End.FAILED and not finished.lost_peer and start.elsewhere is None:
                start.elsewhere = finished
            return
        if finished.lost_peer and start.elsewhere is not None:
            finished = start.elsewhere
        start.finished = finished
        if len(start.run.slots) > 1:
            start.reaper = self._clock.call_at(self._clock.now() + GRACE_S, lambda: self._end(start))
        if finished.end is End.FAILED and finished.lost_peer and start.elsewhere is None:
            start.finished = None  # its exit tells why: another rank, or its node, was lost
        elif finished.end is End.SUSPENDED:
            self._settle(start, Order.SUSPEND)
        else:
            self._desk.end(start.trial, finished)

    def _gone(self, start: _Start, failure: TrialFailure | None) -> None:
        """All its processes are gone."""
        if start not in self._starts:
            return
        self._starts.remove(start)
        _cancel(start)
        if self._closing:
            return
        finished, run = start.finished, start.run
        if start.standing is _Standing.RUNNING:
            start.inbox.put(self._exit(start, failure))
        elif start.standing is _Standing.LEAVING and start.orders[-1:] == [Order.PRUNE] and finished is None:
            self._desk.drop(run.trial)
        self._begin_deferred()

    def _exit(self, start: _Start, failure: TrialFailure | None) -> TrialExit:
        """What the engine is told of the end of processes that it knows of."""
        trial, finished, run = start.trial, start.finished, start.run
        if finished is None:
            if self._desk.is_over(trial):
                return TrialExit(trial=trial, left="ended by another process")
            return TrialExit(trial=trial, failure=failure)
        if finished.end is End.SUSPENDED:
            return TrialExit(trial=trial)
        if finished.end is End.FAILED and not self._holds:
            cause = TrialFailure(trial=trial, rank=0, cause=finished.words, traceback=finished.traceback)
            return TrialExit(trial=trial, failure=cause)
        reports = self._desk.reports(trial)
        reached = resource(max(reports), min(reports)) if reports else 0
        if finished.end is End.VALUE and run.to_iteration == run.max_iterations <= reached:
            return TrialExit(trial=trial)
        return TrialExit(trial=trial, left=_WORDS[finished.end])

    # Places

    def _same_place(self, before: Sequence[Slot], now: Sequence[Slot]) -> bool:
        return [self._place(slot) for slot in before] == [self._place(slot) for slot in now]

    def _place(self, slot: Slot) -> tuple[str, str]:
        return (slot.node if self._fixed else "", slot.device)

    def _swap(self, held: _Start, run: TrialRun) -> None:
        """Whoever waits on the slots of `run` takes those that `held` had until now."""
        for other in self._starts:
            if other is not held and other.run.slots == run.slots:
                other.run = replace(other.run, slots=held.run.slots)

    def _make_room(self, start: _Start) -> None:
        """Let those go that wait on the slots of a start, or that are the trial's own in another place."""
        for other in self._starts:
            if other.standing is _Standing.HELD and (other.trial == start.trial or self._crowds(other, start)):
                self._evict(other)

    def _crowds(self, other: _Start, start: _Start) -> bool:
        shared = set(other.run.slots) & set(start.run.slots)
        return bool(shared) and not self._crowded and not self._has_room(start)

    def _has_room(self, start: _Start) -> bool:
        """Whether there are slots enough for everybody, though the engine gives those first that were free first."""
        if self._fixed or any(slot.device for slot in start.run.slots):
            return False
        return sum(len(each.run.slots) for each in (*self._starts, start)) <= self._room

    def _in_the_way(self, start: _Start) -> bool:
        return any(other.trial == start.trial or self._crowds(other, start) for other in self._starts)

    def _begin_deferred(self) -> None:
        for start in [s for s in self._deferred if not self._in_the_way(s)]:
            self._deferred.remove(start)
            self._desk.start_anew(start.trial)
            self._starts.append(start)
            start.handle = self._inner.start(start.run, _Tap(start.inbox, self, start))

    # Orders

    def _go_on(self, held: _Start, run: TrialRun) -> None:
        """The next stage of a trial begins where it waits."""
        held.run, held.standing = run, _Standing.RUNNING
        self._tell(held, Ready(restore_s=0.0))
        reports = self._desk.reports(run.trial)
        for step, score in reports.items():
            self._tell(held, Reported(iterations=resource(step, min(reports)), score=score))
        self._order(held, Order.CONTINUE)

    def _evict(self, held: _Start) -> None:
        held.standing = _Standing.LEAVING
        if held.can_resume:
            self._order(held, Order.SUSPEND)
        elif self._holds:
            self._drop(held)
        else:
            self._end(held)

    def _drop(self, held: _Start) -> None:
        """End a trial's process for others, to run its objective again from the beginning later."""
        words = (
            "objectives that cannot be resumed are run again from their beginning where others need their slots, which "
            f"takes up to {self._cost_factor:.2g} times the training. To avoid that, let the objective go on from "
            "where it was: `run = rb_optuna.session(trial, model=model, optimizer=optimizer)` before its loop, and "
            "`for epoch in run.steps(n):` as the loop."
        )
        if not self._restart:
            raise RuntimeError(f"There are fewer slots than trials, and {words}")
        if not self._warned:
            self._warned = True
            _logger.warning("There are fewer slots than trials: %s", words)
        self._end(held)

    def _order(self, start: _Start, order: Order) -> None:
        """Answer the question that rank 0 waits with."""
        if start.asking and start.handle is not None:
            start.asking = False
            start.handle.send(0, self._verdict(start, order))
            self._settle(start, order)

    def _settle(self, start: _Start, order: Order) -> None:
        if order is not Order.CONTINUE or len(start.run.slots) > 1:
            start.orders.append(order)
            self._answer_followers(start)

    def _answer_followers(self, start: _Start) -> None:
        for rank, call in tuple(start.followers):
            if call < len(start.orders) and start.handle is not None:
                start.followers.remove((rank, call))
                start.handle.send(rank, self._verdict(start, start.orders[call]))

    def _verdict(self, start: _Start, order: Order) -> Verdict:
        return Verdict(order=order, to_iteration=start.run.to_iteration)

    def _tell(self, start: _Start, message: Message, rank: int = 0) -> None:
        start.inbox.put(TrialNotice(trial=start.trial, rank=rank, message=message))

    def _end(self, start: _Start) -> None:
        if start.handle is not None:
            start.handle.kill()

    def _wait_for_leaving(self) -> None:
        """Let trials that were dropped come to their own end; what they say, and what is still to do, is heard."""
        if self._inbox is None:
            return
        while True:
            leaving = any(start.standing is _Standing.LEAVING for start in self._starts)
            notice = self._inbox.get(None if leaving else self._clock.now())
            if isinstance(notice, Errand):
                notice.action()
            elif notice is None and not leaving:
                return

    def _wait_for_all(self) -> None:
        """Wait, not for ever, until the processes that were ended are gone. Notices of others are of no use by now."""
        until_s = self._clock.now() + GRACE_S
        while self._starts and self._inbox is not None:
            notice = self._inbox.get(until_s)
            if notice is None:
                _logger.warning("%d trials have processes that do not end.", len(self._starts))
                return
            if isinstance(notice, Errand):
                notice.action()

    def _later(self, action: Callable[[], None]) -> None:
        """Do what may raise where that ends the run."""
        if self._inbox is not None:
            self._inbox.put(Errand(action=interrupts.held()(lambda: None if self._closing else action())))

    # What the engine asks of a start

    def stop(self, start: _Start, grace_s: float) -> None:
        """Ask a start to save and end."""
        if start in self._deferred:
            self._forget(start)
        elif start.handle is not None and start.standing is _Standing.RUNNING:
            start.handle.stop(grace_s)

    def kill(self, start: _Start) -> None:
        """End the processes of a start."""
        if start in self._deferred:
            self._forget(start)
        elif start.standing is _Standing.RUNNING:
            self._end(start)

    def _forget(self, start: _Start) -> None:
        self._deferred.remove(start)
        failure = TrialFailure(trial=start.trial, rank=0, cause="ended before it began", kind=FailureKind.DIED)
        start.inbox.put(TrialExit(trial=start.trial, failure=failure))


@dataclass(slots=True)
class _Handle:
    """What the engine holds of a start."""

    launcher: HoldingLauncher
    start: _Start
    trial: int

    def send(self, rank: int, message: Message) -> None:
        """Tell one rank."""
        if self.start.handle is not None:
            self.start.handle.send(rank, message)

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask the trial to save and end."""
        self.launcher.stop(self.start, grace_s)

    def kill(self) -> None:
        """End its processes."""
        self.launcher.kill(self.start)


_WORDS = {
    End.VALUE: "its objective returned",
    End.PRUNED: "its objective pruned itself",
    End.FAILED: "its objective failed",
}


def _cancel(start: _Start) -> None:
    if start.reaper is not None:
        start.reaper.cancel()
