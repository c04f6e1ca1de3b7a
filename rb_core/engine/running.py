"""A trial whose processes are there: what it says goes to the journal, and silence ends it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rb_core.engine.places import Place
from rb_core.engine.request import LEAST_PATIENCE_S, RunRequest
from rb_core.engine.retention import superseded
from rb_core.errors import FailureKind, TrialFailure, UnusableCheckpoint
from rb_core.events import CheckpointDeleted, TrialReady, TrialReported, TrialSaved, TrialStarted
from rb_core.journal import Journal
from rb_core.learning import Learning
from rb_core.ports import Clock, Inbox, Launcher, Timer, TrialHandle, TrialRun
from rb_core.trial import ConfigRead, Iterated, Message, Ready, Remark, Reported, Saved

OnMessage = Callable[[int, int, Message], Message | None]
"""Told trial, rank and a message that the engine does not know; what it answers is sent back to that rank."""

Remove = Callable[[str], None]
"""Removes a checkpoint, by its path or its reference; raises UnusableCheckpoint when it cannot."""


_LONGEST = 2.0
"""So many times the mean is what one iteration is expected to take at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all parts of a running engine share.

    Attributes:
        request: what is run.
        journal: where it is written.
        launcher: starts trials.
        clock: the time.
        inbox: where notices arrive.
        remove: removes checkpoints.
        on_message: answers messages that the engine does not know.
        learning: what has been measured so far.
    """

    request: RunRequest
    journal: Journal
    launcher: Launcher
    clock: Clock
    inbox: Inbox
    remove: Remove
    on_message: OnMessage | None
    learning: Learning


class RunningTrial:
    """One start of one trial, from its launch until all its processes are gone.

    Attributes:
        run: what was started.
        place: where.
        iterations: iterations in total that it has said are done.
        read_keys: what it read of its configuration; None when it has not said so.
        interrupted: why it is to end before its stage does, through no fault of its own; empty otherwise.
    """

    def __init__(
        self, setting: Setting, run: TrialRun, place: Place, *, chain: int, stage_from: int, slow: float
    ) -> None:
        """Start the trial.

        Args:
            setting: the engine's parts.
            run: what is started.
            place: where.
            chain: the trial's chain.
            stage_from: iterations in total with which its stage begins; a retried start may be further.
            slow: what the place multiplies an iteration by.

        Raises:
            LaunchFailure: no process could be started.
            UnusableLog: the start could not be written; nothing was started.
        """
        self.run = run
        self.place = place
        self.iterations = run.from_iteration
        self.read_keys: frozenset[str] | None = None
        self.interrupted = ""
        self._setting = setting
        self._stage_from = stage_from
        self._slow = slow
        self._measured = 0
        self._measured_s = 0.0
        self._ready = False
        self._stalled = False
        self._stall: Timer | None = None
        setting.journal.write(
            TrialStarted,
            trial=run.trial,
            chain=chain,
            stage=run.stage,
            nodes=place.nodes,
            slots=len(place.slots),
            from_iteration=run.from_iteration,
        )
        self.handle: TrialHandle = setting.launcher.start(run, setting.inbox)
        self._began_s = self._heard_s = setting.clock.now()
        self._watch()

    @property
    def iteration_s(self) -> float | None:
        """Mean time of the iterations of this start; None before the first one is over."""
        return self._measured_s / self._measured if self._measured else None

    @property
    def step_s(self) -> float:
        """The longest that one iteration is expected to take, and the save after it."""
        profile = self._setting.learning.profile
        return _LONGEST * self._slow * profile.iteration_s[len(self.run.slots)].mean + profile.save_s.mean

    @property
    def stop_s(self) -> float:
        """How long it takes, as is expected, to end and save after the iteration that it is in."""
        if not self._ready:
            return 0.0
        profile = self._setting.learning.profile
        iteration_s = self._slow * profile.iteration_s[len(self.run.slots)].mean
        since_s = self._setting.clock.now() - self._heard_s
        return iteration_s - math.fmod(since_s, iteration_s) + profile.save_s.mean

    def interrupt(self, cause: str, grace_s: float | None = None) -> None:
        """End it for a reason that is not its own: at once, or after it has saved where a grace is given."""
        self.interrupted = cause
        if grace_s is None:
            self.handle.kill()
        else:
            self.handle.stop(grace_s)

    def told(self, rank: int, message: Message) -> None:
        """Take a message of one rank. What every rank says alike is taken from rank 0."""
        self._heard_s = self._setting.clock.now()
        journal, trial = self._setting.journal, self.run.trial
        match message:
            case Iterated():
                self._iterated(message)
            case Ready():
                if not self._ready:
                    self._ready = True
                    self._setting.learning.started(self._heard_s - self._began_s)
                    journal.write(TrialReady, trial=trial, restore_s=message.restore_s)
            case Reported():
                if rank == 0:
                    journal.write(TrialReported, trial=trial, iterations=message.iterations, score=float(message.score))
            case Saved():
                self._saved(message)
            case ConfigRead():
                self.read_keys = (self.read_keys or frozenset()) | frozenset(message.keys)
            case Remark():
                journal.warn(message.text)
            case _:
                self._answer(rank, message)

    def left(self) -> None:
        """All processes are gone: nothing is waited for any more."""
        if self._stall is not None:
            self._stall.cancel()

    def problem(self, failure: TrialFailure | None) -> TrialFailure | None:
        """Why this start did not complete its stage, None when it did.

        Args:
            failure: what the launcher says of it.
        """
        run, request = self.run, self._setting.request
        if self._stalled:
            cause = f"made no progress for {self._limit_s():.0f} s: does it hang?"
            return self._failure(cause, failure, kind=FailureKind.HUNG)
        if failure is not None:
            return failure
        if self.iterations < run.to_iteration:
            return self._failure(
                f"returned after {self.iterations} of {run.to_iteration} iterations; "
                "loop over trial.iterations() to its end"
            )
        scores = self._setting.journal.state.trials[run.trial].scores
        if not scores or next(reversed(scores)) <= self._stage_from:
            return self._failure(
                f"never reported its score ({request.metric}) in stage {run.stage}; "
                "call trial.report(score) in every iteration"
            )
        return None

    def _iterated(self, message: Iterated) -> None:
        new = message.iterations - self.iterations
        if new <= 0:
            return
        self.iterations = message.iterations
        self._measured += new
        self._measured_s += new * message.seconds
        self._setting.learning.iterated(
            self.run.trial, len(self.run.slots), self._slow, iterations=new, seconds=new * message.seconds
        )

    def _saved(self, message: Saved) -> None:
        setting, trial = self._setting, self.run.trial
        self.iterations = max(self.iterations, message.iterations)
        setting.journal.write(
            TrialSaved,
            trial=trial,
            iterations=message.iterations,
            checkpoint=message.checkpoint,
            size_bytes=message.size_bytes,
            save_s=message.save_s,
        )
        for old in superseded(setting.journal.state.trials[trial], setting.request.mode):
            remove(setting, trial, old.path)

    def _answer(self, rank: int, message: Message) -> None:
        if self._setting.on_message is not None:
            reply = self._setting.on_message(self.run.trial, rank, message)
            if reply is not None:
                self.handle.send(rank, reply)

    def _watch(self) -> None:
        if self._setting.request.patience is not None:
            self._stall = self._setting.clock.call_at(self._heard_s + self._limit_s(), self._look)

    def _look(self) -> None:
        if self._setting.clock.now() < self._heard_s + self._limit_s():
            self._watch()
        else:
            self._stalled = True
            self.handle.kill()

    def _limit_s(self) -> float:
        """The longest silence that is borne, by what has been measured of its steps."""
        profile = self._setting.learning.profile
        iteration_s = self._slow * profile.iteration_s[len(self.run.slots)].mean
        longest_s = max(profile.start_s.mean, iteration_s, profile.save_s.mean)
        return LEAST_PATIENCE_S + (self._setting.request.patience or 0.0) * longest_s

    def _failure(
        self, cause: str, seen: TrialFailure | None = None, kind: FailureKind = FailureKind.RAISED
    ) -> TrialFailure:
        return TrialFailure(
            trial=self.run.trial,
            rank=0,
            cause=cause,
            kind=kind,
            traceback=seen.traceback if seen else "",
            output_tail=seen.output_tail if seen else (),
        )


def remove(setting: Setting, trial: int, path: str) -> None:
    """Remove a checkpoint that is no longer needed; where that fails, a warning says so."""
    setting.journal.write(CheckpointDeleted, trial=trial, checkpoint=path)
    erase(setting, path)


def erase(setting: Setting, path: str) -> None:
    """Remove a checkpoint of which the log says so; where that fails, a warning says so."""
    try:
        setting.remove(path)
    except UnusableCheckpoint as error:
        setting.journal.warn(f"{error}; remove it by hand")
