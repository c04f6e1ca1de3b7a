"""Who stands where in the one bracket of a run, kept as a log from which it can be built again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from rb_core.bracket import Bracket, Decision, Verdict
from rb_core.spec import ExperimentSpec

Entry = Sequence[Any]
"""What happened: ``["came", trial]``, ``["report", trial, iterations, score]``, ``["left", trial, why]`` or
``["decided", survivors]``, as JSON has it."""


class Rungs:
    """Successive halving whose width is known only when all trials have come.

    Trials are numbered in the order of their arrival. Until the first rung is decided another one may come, and one
    that left may come back; the bracket is then built anew from the log.
    """

    def __init__(self, *, r: int, R: int, eta: int, mode: str, log: Iterable[Entry] = ()) -> None:  # noqa: N803
        """The bracket that a log tells of; an empty one to begin with.

        Args:
            r: iterations of the first rung.
            R: iterations in total of a trial that is never stopped.
            eta: reduction factor.
            mode: ``max`` or ``min``.
            log: `log` of an earlier sitting.
        """
        self._r, self._most, self._eta = r, R, eta
        self._mode = mode
        self._first_rung = min(r, R)
        self._log: list[Entry] = [list(entry) for entry in log]
        self._changes = 0
        self._came: dict[int, None] = {}
        self._order: tuple[int, ...] = ()
        self._gone: dict[int, str] = {}
        self._reached: dict[int, int] = {}
        self._rebuild()

    @property
    def log(self) -> list[Entry]:
        """All that counts, in the order in which it happened."""
        return self._log

    @property
    def changes(self) -> int:
        """How often `log` has changed in this sitting."""
        return self._changes

    @property
    def experiment(self) -> ExperimentSpec:
        """With as many trials as have come, and those that left at once among them; at least one."""
        return ExperimentSpec.successive_halving(n=max(1, len(self._came)), r=self._r, R=self._most, eta=self._eta)

    @property
    def stage(self) -> int:
        """The stage whose rung is decided next."""
        return self._bracket.stage

    @property
    def stages(self) -> int:
        """How many there are."""
        return len(self._ends)

    def __contains__(self, trial: int) -> bool:
        return trial in self._came

    @property
    def last(self) -> bool:
        """Whether the current stage is the last one."""
        return self._bracket.stage >= len(self._ends) - 1

    @property
    def ends(self) -> tuple[int, ...]:
        """Iterations in total at which each stage ends."""
        return self._ends

    @property
    def rung(self) -> int:
        """Iterations in total at which the current stage ends."""
        return self._bracket.rung

    @property
    def over(self) -> bool:
        """Whether nothing is left to run."""
        return bool(self._came) and self._bracket.over

    @property
    def complete(self) -> bool:
        """Whether every trial that has come stands at the rung, or left."""
        return bool(self._came) and self._bracket.complete

    @property
    def alive(self) -> tuple[int, ...]:
        """Trials that neither left nor were stopped: the survivors of the last rung, best first."""
        return tuple(trial for trial in self._order if trial not in self._gone)

    def gone(self, trial: int) -> str:
        """Why a trial is out; empty when it is not."""
        return self._gone.get(trial, "")

    def verdict(self, trial: int, *, gathered: bool) -> Verdict:
        """What a trial is to do next.

        Args:
            trial: one that has come.
            gathered: whether all have. Before, nobody passes the first rung.
        """
        if trial in self._gone:
            return Verdict.STOP
        if not gathered and self.stage == 0:
            return Verdict.WAIT if self._reached.get(trial, 0) >= self._first_rung else Verdict.CONTINUE
        return self._bracket.verdict(trial)

    def come(self, trial: int) -> None:
        """A trial more, or back one that left since the last decision; no other may come once a rung is decided."""
        for place in range(len(self._log) - 1, -1, -1):
            kind, *rest = self._log[place]
            if kind == "decided":
                break
            if kind == "left" and rest[0] == trial:
                del self._log[place]
                self._rebuild()
                return
        if trial in self._came or self.decided:
            return
        self._log.append(["came", trial])
        if self._reached or self._gone:
            self._rebuild()
        else:
            self._changes += 1
            self._came[trial] = None
            self._order = (*self._order, trial)
            self._begin()

    @property
    def decided(self) -> bool:
        """Whether any rung is decided, so that nobody new may come."""
        return self._bracket.stage > 0

    def report(self, trial: int, iterations: int, score: float) -> None:
        """Take a score, of which only the first one at or beyond a rung counts."""
        if trial in self._gone or iterations < 1:
            return
        before, now = self._reached.get(trial, 0), max(iterations, self._reached.get(trial, 0))
        ends = (self._first_rung, *self._ends)
        if any(before < end <= now for end in ends):
            self._take(["report", trial, iterations, float(score)])

    def leave(self, trial: int, why: str) -> None:
        """A trial is out: the rung waits for one less. One that was through with the last stage stays in."""
        if trial in self._came and trial not in self._gone and not self.finished(trial):
            self._take(["left", trial, why])

    def finished(self, trial: int) -> bool:
        """Whether a trial has done everything that is to be done."""
        return trial not in self._gone and self._reached.get(trial, 0) >= self._ends[-1] and self.last

    def decide(self) -> Decision:
        """Decide the current rung. When all scores are NaN there is nothing to go by, and nobody goes on."""
        scores = self.scores(self.stage)
        hopeless = bool(scores) and all(math.isnan(score) for score in scores.values())
        decision = self._bracket.decide(() if hopeless and not self.last else None)
        self._note(decision)
        self._changes += 1
        self._log.append(["decided", list(decision.survivors)])
        return decision

    def scores(self, stage: int) -> dict[int, float]:
        """What each trial that is still in came to at the end of a stage, as far as it got there."""
        found: dict[int, float] = {}
        for kind, trial, *rest in self._log:
            if kind == "report" and trial not in self._gone and rest[0] >= self._ends[stage]:
                found.setdefault(trial, rest[1])
        return found

    def _rebuild(self) -> None:
        self._changes += 1
        self._came = {entry[1]: None for entry in self._log if entry[0] == "came"}
        self._order = tuple(self._came)
        self._gone = {}
        self._reached = {}
        self._begin()
        for entry in self._log:
            self._replay(entry)

    def _begin(self) -> None:
        chain = self.experiment.chains[0]
        self._ends = tuple(accumulate(stage.iterations for stage in chain))
        self._bracket = Bracket(chain, self._mode)

    def _take(self, entry: Entry) -> None:
        self._changes += 1
        self._log.append(entry)
        self._replay(entry)

    def _replay(self, entry: Entry) -> None:
        match entry:
            case ["report", int(trial), int(iterations), float(score)]:
                self._reached[trial] = max(iterations, self._reached.get(trial, 0))
                self._bracket.report(trial, iterations, score)
            case ["left", int(trial), str(why)]:
                self._gone[trial] = why
                self._bracket.fail(trial)
            case ["decided", survivors]:
                self._note(self._bracket.decide(survivors))

    def _note(self, decision: Decision) -> None:
        self._order = decision.survivors
        self._gone.update(dict.fromkeys(decision.stopped, "stopped"))
