"""The pure state machine of one early-stopping run: told a score it answers continue, wait or stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from rb_core.check import one_of, positive_int
from rb_core.errors import InvalidInput, PluginConflict
from rb_core.spec import Chain

Promote = Callable[[int, Mapping[int, float]], Sequence[int] | None]
"""Chooses who goes on: told the stage and the scores of its trials, it answers their numbers, best first, or None
for the built-in choice."""


class Verdict(StrEnum):
    """What a trial is to do next."""

    CONTINUE = "continue"
    """Run on: the next rung lies ahead."""
    WAIT = "wait"
    """It stands at a rung that is not decided yet."""
    STOP = "stop"
    """Nothing is left to run: dropped at a rung, failed, or through with the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided at a rung.

    Attributes:
        stage: the stage that the rung ends.
        survivors: who goes on, best first; at the last rung all that finished.
        stopped: who is dropped, best first.
    """

    stage: int
    survivors: tuple[int, ...]
    stopped: tuple[int, ...]


class Bracket:
    """Successive halving over one chain of stages, without any I/O or time.

    The trials of the first stage are the first ones that report or fail, as many as the stage has. A rung lies at
    the end of every stage; its score of a trial is the first one reported at or beyond it, so one report may pass
    several rungs. A trial that fails leaves, and its rung waits for one trial less.
    """

    def __init__(self, chain: Chain, mode: str, promote: Promote | None = None) -> None:
        """A bracket in which nothing has been reported.

        Args:
            chain: the stages.
            mode: ``max`` or ``min``, which scores are better.
            promote: asked first at every rung but the last.
        """
        one_of("mode", mode, ("max", "min"))
        self._chain = chain
        self._ends = tuple(accumulate(stage.iterations for stage in chain))
        self._sign = -1.0 if mode == "max" else 1.0
        self._promote = promote
        self._stage = 0
        self._live: set[int] = set()
        self._gone: set[int] = set()
        self._scores: list[dict[int, float]] = [{} for _ in chain]
        self._awaited = chain[0].trials

    @property
    def stage(self) -> int:
        """The stage whose rung is decided next; the number of stages once all are, or nobody goes on."""
        return self._stage

    @property
    def rung(self) -> int:
        """Iterations in total at which the current stage ends; those of the last one once all are decided."""
        return self._ends[min(self._stage, len(self._ends) - 1)]

    @property
    def complete(self) -> bool:
        """Whether every live trial has reported at the current rung, so that it can be decided."""
        return self._stage < len(self._chain) and self._awaited == 0

    @property
    def over(self) -> bool:
        """Whether nothing is left to run."""
        return self._stage == len(self._chain) or (self._stage > 0 and not self._live)

    def report(self, trial: int, iterations: int, score: float) -> Verdict:
        """Take a score and say what the trial is to do.

        Args:
            trial: number of the trial.
            iterations: iterations that it has done in total.
            score: may be NaN, which ranks last.

        Raises:
            InvalidInput: the trial is one more than the first stage has, or iterations is not positive.
        """
        positive_int("iterations", iterations)
        if not self._joins(trial):
            return Verdict.STOP
        for stage in range(self._stage, len(self._ends)):
            if self._ends[stage] > iterations:
                break
            if trial not in self._scores[stage]:
                self._scores[stage][trial] = float(score)
                if stage == self._stage:
                    self._awaited -= 1
        return self.verdict(trial)

    def verdict(self, trial: int) -> Verdict:
        """What a trial is to do, going by what has been reported and decided."""
        if trial in self._gone or self.over:
            return Verdict.STOP
        return Verdict.WAIT if trial in self._scores[self._stage] else Verdict.CONTINUE

    def fail(self, trial: int) -> None:
        """Take a trial out; of no effect when it is out already.

        Raises:
            InvalidInput: the trial is one more than the first stage has.
        """
        if not self._joins(trial):
            return
        if not self.over and trial not in self._scores[self._stage]:
            self._awaited -= 1
        self._drop(trial)

    def decide(self, survivors: Sequence[int] | None = None) -> Decision:
        """Decide the current rung; the next stage becomes the current one.

        Args:
            survivors: who goes on, best first, where that was decided before; None decides it now.

        Raises:
            InvalidInput: the rung is not complete, or the survivors are not of it.
            PluginConflict: `promote` answered with a wrong number of trials or with trials that are not there.
        """
        if not self.complete:
            raise InvalidInput(
                "",
                f"stage {self._stage} cannot be decided: {self._awaited} of its trials have not reported; "
                "report their scores first",
            )
        scores = {trial: self._scores[self._stage][trial] for trial in sorted(self._live)}
        ranked = sorted(scores, key=lambda trial: (*self._rank(scores[trial]), trial))
        if survivors is not None:
            chosen = tuple(survivors)
            if len(set(chosen)) < len(chosen) or not scores.keys() >= set(chosen):
                raise InvalidInput(
                    "survivors", f"must be different trials of stage {self._stage}, got {', '.join(map(str, chosen))}"
                )
        elif self._stage + 1 == len(self._chain):
            chosen = tuple(ranked)
        else:
            chosen = self._chosen(scores, ranked, min(self._chain[self._stage + 1].trials, len(ranked)))
        going_on = set(chosen)
        stopped = tuple(trial for trial in ranked if trial not in going_on)
        for trial in stopped:
            self._drop(trial)
        decision = Decision(stage=self._stage, survivors=chosen, stopped=stopped)
        self._stage = self._stage + 1 if self._live else len(self._chain)
        if self._stage < len(self._chain):
            self._awaited = len(self._live) - len(self._scores[self._stage])
        return decision

    def _chosen(self, scores: Mapping[int, float], ranked: Sequence[int], count: int) -> tuple[int, ...]:
        answer = self._promote(self._stage, scores) if self._promote is not None else None
        if answer is None:
            return tuple(ranked[:count])
        chosen = tuple(answer)
        if len(chosen) != count or len(set(chosen)) != count or not scores.keys() >= set(chosen):
            raise PluginConflict(
                f"rubberband_promote must answer {count} different trials out of those of stage {self._stage} "
                f"({', '.join(map(str, scores))}); it answered {list(chosen)!r}"
            )
        return chosen

    def _rank(self, score: float) -> tuple[bool, float]:
        return (True, 0.0) if math.isnan(score) else (False, self._sign * score)

    def _joins(self, trial: int) -> bool:
        """Whether the trial is live, letting it in while the first stage still has room."""
        if trial in self._live:
            return True
        if trial in self._gone:
            return False
        if self._stage > 0 or len(self._live) + len(self._gone) == self._chain[0].trials:
            raise InvalidInput("trial", f"must be one of the bracket's {self._chain[0].trials} trials, got {trial}")
        self._live.add(trial)
        return True

    def _drop(self, trial: int) -> None:
        self._live.discard(trial)
        self._gone.add(trial)
        for scores in self._scores[self._stage :]:
            scores.pop(trial, None)
