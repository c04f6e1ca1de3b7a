"""A trial whose processes are there: what it says goes to the journal, and silence ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rb_core.engine.places import Place
from rb_core.engine.request import RunRequest
from rb_core.engine.retention import superseded
from rb_core.errors import TrialFailure, UnusableCheckpoint
from rb_core.events import CheckpointDeleted, TrialReady, TrialReported, TrialSaved, TrialStarted
from rb_core.journal import Journal
from rb_core.ports import Clock, Inbox, Launcher, Timer, TrialHandle, TrialRun
from rb_core.trial import ConfigRead, Iterated, Message, Ready, Remark, Reported, Saved

OnMessage = Callable[[int, int, Message], Message | None]
"""Told trial, rank and a message that the engine does not know; what it answers is sent back to that rank."""

Remove = Callable[[str], None]
"""Removes the checkpoint at a path; raises UnusableCheckpoint when it cannot."""


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
    """

    request: RunRequest
    journal: Journal
    launcher: Launcher
    clock: Clock
    inbox: Inbox
    remove: Remove
    on_message: OnMessage | None


class RunningTrial:
    """One start of one trial, from its launch until all its processes are gone."""

    def __init__(self, setting: Setting, run: TrialRun, place: Place, *, chain: int, stage_from: int) -> None:
        """Start the trial.

        Args:
            setting: the engine's parts.
            run: what is started.
            place: where.
            chain: the trial's chain.
            stage_from: iterations in total with which its stage begins; a retried start may be further.

        Raises:
            LaunchFailure: no process could be started.
            UnusableLog: the start could not be written; nothing was started.
        """
        self.run = run
        self.place = place
        self.iterations = run.from_iteration
        self.read_keys: frozenset[str] | None = None
        self.on_lost_node = False
        self._setting = setting
        self._stage_from = stage_from
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
        self._heard_s = setting.clock.now()
        self._watch()

    def told(self, rank: int, message: Message) -> None:
        """Take a message of one rank. What every rank says alike is taken from rank 0."""
        self._heard_s = self._setting.clock.now()
        journal, trial = self._setting.journal, self.run.trial
        match message:
            case Iterated():
                self.iterations = max(self.iterations, message.iterations)
            case Ready():
                if not self._ready:
                    self._ready = True
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
            return self._failure(f"made no progress for {request.stall_s:g} s: does it hang?", failure)
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
        stall_s = self._setting.request.stall_s
        if stall_s is not None:
            self._stall = self._setting.clock.call_at(self._heard_s + stall_s, self._look)

    def _look(self) -> None:
        stall_s = self._setting.request.stall_s
        if stall_s is not None and self._setting.clock.now() < self._heard_s + stall_s:
            self._watch()
        else:
            self._stalled = True
            self.handle.kill()

    def _failure(self, cause: str, seen: TrialFailure | None = None) -> TrialFailure:
        return TrialFailure(
            trial=self.run.trial,
            rank=0,
            cause=cause,
            traceback=seen.traceback if seen else "",
            output_tail=seen.output_tail if seen else (),
        )


def remove(setting: Setting, trial: int, path: str) -> None:
    """Remove a checkpoint that is no longer needed; where that fails, a warning says so."""
    setting.journal.write(CheckpointDeleted, trial=trial, checkpoint=path)
    try:
        setting.remove(path)
    except UnusableCheckpoint as error:
        setting.journal.warn(f"{error}; remove it by hand")
