"""Experiments that follow each other until enough trials have been run: rounds of one bracket, or of Hyperband's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from rb_core.check import non_negative
from rb_core.spec import Chain, ExperimentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How trials are grouped into experiments.

    Attributes:
        r: iterations of the first rung.
        R: iterations in total of a trial that is never stopped.
        eta: reduction factor: one trial in so many goes on after every rung.
        hyperband: whether a round is all of Hyperband's brackets, or the one that starts with the most trials.
    """

    r: int
    R: int
    eta: int
    hyperband: bool = False

    def __post_init__(self) -> None:
        if self.hyperband:
            ExperimentSpec.hyperband(R=self.R, eta=self.eta, r=self.r)
        else:
            self._bracket(1, self.r)

    @property
    def trials(self) -> int:
        """How many trials a full round has: in a bracket of successive halving just one of them runs to the end."""
        if self.hyperband:
            return self.full.trials
        trials, rung = 1, self.r
        while rung < self.R:
            trials, rung = trials * self.eta, rung * self.eta
        return trials

    @property
    def full(self) -> ExperimentSpec:
        """A full round.

        Raises:
            InvalidInput: it has too many trials.
        """
        if self.hyperband:
            return ExperimentSpec.hyperband(R=self.R, eta=self.eta, r=self.r)
        return self._bracket(self.trials, self.r)

    def of(self, trials: int | None) -> Iterator[ExperimentSpec]:
        """Rounds for so many trials in all, the last one as small as it must be; without end for None.

        Raises:
            InvalidInput: `trials` is a negative number, or full rounds have too many trials.
        """
        if trials is None:
            yield from repeat(self.full)
            return
        non_negative("trials", trials)
        whole, left = divmod(trials, self.trials)
        if whole:
            yield from repeat(self.full, whole)
        if left:
            yield self._part(left)

    def _part(self, trials: int) -> ExperimentSpec:
        """A round of fewer trials: its brackets in order, until there are enough."""
        if not self.hyperband:
            return self._bracket(trials, self.r)
        chains: list[Chain] = []
        for chain in self.full.chains:
            if trials:
                width = min(trials, chain[0].trials)
                whole = width == chain[0].trials
                chains += (chain,) if whole else self._bracket(width, chain[0].iterations).chains
                trials -= width
        return ExperimentSpec(chains=tuple(chains))

    def _bracket(self, trials: int, rung: int) -> ExperimentSpec:
        return ExperimentSpec.successive_halving(n=trials, r=rung, R=self.R, eta=self.eta)
