"""The rung as a trial meets it: what it reports, and what `should_prune` answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rb_core.ports import TrialRun
from rb_core.trial import Iterated, Message, Ready
from rb_optuna.messages import AtRung, Follow, Order, Passed, Report, Verdict
from rb_optuna.resource import resource


class StageSuspended(BaseException):
    """Unwinds an objective that is to go on later, in another process.

    Not an `Exception`, so that ``except Exception`` in an objective lets it through.
    """


class Line(Protocol):
    """A rank's end of the channel to the parent."""

    def send(self, message: Message) -> None:
        """Tell the parent."""

    def ask(self, message: Message) -> Message:
        """Tell the parent and wait for its answer."""

    def stop_requested(self) -> bool:
        """Whether the trial was asked to save and end. Never blocks."""


def _nothing(*args: int) -> None:
    """Keep nothing."""


class Gate:
    """Counts the iterations of one start of a trial, and stops it at the rung where its stage ends.

    Attributes:
        done: iterations that are done.
        save: called with `done` before the trial may have to leave its process.
        reported: called when rank 0 has reported a value.
    """

    def __init__(self, line: Line, run: TrialRun, *, rank: int, first_step: int | None, last_step: int | None) -> None:
        """The gate of a start.

        Args:
            line: to the parent.
            run: what is started.
            rank: which of its ranks this is.
            first_step: the first step that the trial ever reported; None when it has reported none.
            last_step: the last one.
        """
        self.save: Callable[[int], None] = _nothing
        self.reported: Callable[[], None] = _nothing
        self.done = run.from_iteration
        self._line = line
        self._rank = rank
        self._alone = len(run.slots) == 1
        self._to = run.to_iteration
        self._end = run.max_iterations
        self._first_step = first_step
        self._asked = last_step is not None
        self._calls = 0
        self._ready = False
        self._since_s = time.perf_counter()
        self._iteration_s = 0.0

    def begin(self, restore_s: float = 0.0) -> None:
        """The first iteration of this start is about to begin. Of no effect when called again."""
        if not self._ready:
            self._ready = True
            self._since_s = time.perf_counter()
            if self._rank == 0:
                self._line.send(Ready(restore_s=restore_s))

    def report(self, value: float, step: int, *, stored: bool = False) -> None:
        """Rank 0 has reported a value; `stored` says that the study has it already."""
        self.begin()
        self._asked = True
        if self._first_step is None:
            self._first_step = step
        done = resource(step, self._first_step)
        if done > self.done:
            now_s = time.perf_counter()
            self._iteration_s = (now_s - self._since_s) / (done - self.done)
            self.done, self._since_s = done, now_s
            self._line.send(Iterated(iterations=done, seconds=self._iteration_s))
        self._line.send(Report(value=value, step=step, iterations=done, stored=stored))
        self.reported()

    def near(self, iterations: int) -> bool:
        """Whether a rung would be reached with so many iterations."""
        return self._to <= iterations

    def should_prune(self) -> bool:
        """What `Trial.should_prune` answers; waits at a rung until that is decided.

        Raises:
            StageSuspended: the trial is to give its slots away.
        """
        return self._follow() if self._rank else self._decide()

    def _decide(self) -> bool:
        if not self._asked:
            return self._pass()
        verdict = Verdict(order=Order.CONTINUE)
        while self._at_rung:
            self.save(self.done)
            verdict = self._ask(AtRung(iterations=self.done))
            if verdict.order is not Order.CONTINUE:
                return self._obey(verdict)
            self._to = verdict.to_iteration
            self._since_s = time.perf_counter()
            if self._to <= self.done:
                # A report may pass several rungs: each stage hears of its iterations.
                self._line.send(Iterated(iterations=self.done, seconds=self._iteration_s))
        if self.done < self._end and self._line.stop_requested():
            self.save(self.done)
            raise StageSuspended
        return self._pass()

    def _pass(self) -> bool:
        """Nothing is decided here; the other ranks, where there are any, hear of it."""
        if not self._alone:
            self._line.send(Passed())
        return False

    @property
    def _at_rung(self) -> bool:
        return self._to <= self.done and self._to < self._end

    def _follow(self) -> bool:
        call = self._calls
        self._calls += 1
        return self._obey(self._ask(Follow(call=call)))

    def _ask(self, message: Message) -> Verdict:
        verdict = self._line.ask(message)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"a verdict was due, not {verdict!r}")
        return verdict

    def _obey(self, verdict: Verdict) -> bool:
        if verdict.order is Order.SUSPEND:
            raise StageSuspended
        return verdict.order is Order.PRUNE
