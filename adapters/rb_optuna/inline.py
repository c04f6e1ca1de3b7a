"""The launcher `inline`: objectives run in this process and thread, taking turns at their rungs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from greenlet import getcurrent, greenlet

from rb_core.errors import FailureKind, LaunchFailure, TrialFailure
from rb_core.ports import Clock, Inbox, TrialExit, TrialNotice, TrialRun
from rb_core.trial import Message
from rb_optuna.gate import Line

Body = Callable[[TrialRun, Line], Message]
"""Runs an objective over a line to the parent, and says how it ended."""


class InlineLauncher:
    """Runs one rank of each trial as a greenlet: a stack of its own in the thread of the engine.

    A trial that waits for an answer gives the thread back until it has it, and keeps its stack meanwhile. Nothing
    else happens while an objective runs: nodes, limits and other trials wait.

    Args:
        body: what a rank does.
        clock: the time.
    """

    name = "inline"

    def __init__(self, body: Body, clock: Clock) -> None:
        self._body = body
        self._clock = clock

    def __enter__(self) -> Self:
        """Nothing to warm up."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing to end: what has begun is ended by its handle."""

    def start(self, run: TrialRun, inbox: Inbox) -> InlineTrial:
        """Let a trial begin when the engine waits the next time.

        Raises:
            LaunchFailure: it is to have several ranks.
        """
        if len(run.slots) > 1:
            raise LaunchFailure(f"the inline launcher runs one rank a trial, got {len(run.slots)}")
        return InlineTrial(self._body, run, inbox, self._clock)


class InlineTrial:
    """The engine's side of a trial that runs in its own thread.

    Args:
        body: what the trial does.
        run: what is started.
        inbox: where its notices go.
        clock: the time.
    """

    def __init__(self, body: Body, run: TrialRun, inbox: Inbox, clock: Clock) -> None:
        self.trial = run.trial
        self.stop_requested = False
        self._inbox = inbox
        self._clock = clock
        self._over = False
        line = _InlineLine(self)
        self._stack = greenlet(lambda: body(run, line))
        self._arrange(None)

    def tell(self, message: Message) -> None:
        """From the objective: put a notice for the engine."""
        self._inbox.put(TrialNotice(trial=self.trial, rank=0, message=message))

    def wait(self) -> Message:
        """From the objective: let others have the thread until there is an answer."""
        if self._stack.parent is None or getcurrent() is not self._stack:
            raise RuntimeError("a trial can be used by its own objective alone, in the thread that runs it")
        answer: Message = self._stack.parent.switch()
        return answer

    def send(self, rank: int, message: Message) -> None:
        """Answer the objective; it goes on when the engine waits the next time."""
        self._arrange(message)

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask the objective to save and end when it asks whether to prune."""
        self.stop_requested = True

    def kill(self) -> None:
        """Unwind the objective's stack, and let its ``finally`` blocks run."""
        if not self._over:
            self._over = True
            self._stack.throw()
            failure = TrialFailure(trial=self.trial, rank=0, cause="ended on request", kind=FailureKind.DIED)
            self._inbox.put(TrialExit(trial=self.trial, failure=failure))

    def _arrange(self, message: Message | None) -> None:
        self._clock.call_at(self._clock.now(), lambda: self._go_on(message))

    def _go_on(self, message: Message | None) -> None:
        """Run the objective until it waits or ends."""
        if self._over:
            return
        try:
            finished = self._stack.switch(*(() if message is None else (message,)))
        except BaseException:
            self._over = True
            self._inbox.put(TrialExit(trial=self.trial))
            raise
        if self._stack.dead:
            self._over = True
            self.tell(finished)
            self._inbox.put(TrialExit(trial=self.trial))


class _InlineLine:
    """The objective's side."""

    def __init__(self, trial: InlineTrial) -> None:
        self._trial = trial

    def send(self, message: Message) -> None:
        """Tell the parent."""
        self._trial.tell(message)

    def ask(self, message: Message) -> Message:
        """Tell the parent and wait for its answer."""
        self._trial.tell(message)
        return self._trial.wait()

    def stop_requested(self) -> bool:
        """Whether the trial was asked to save and end."""
        return self._trial.stop_requested
