"""Experiments that follow each other until enough trials have been run: rounds of one bracket, or of Hyperband's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from rb_core.check import positive_int
from rb_core.spec import Chain, ExperimentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How trials are grouped into experiments.

    Attributes:
        min_resource: iterations of the first rung.
        max_resource: iterations in total of a trial that is never stopped.
        reduction_factor: one trial in so many goes on after every rung.
        hyperband: whether a round is all of Hyperband's brackets, or the one that starts with the most trials.
    """

    min_resource: int
    max_resource: int
    reduction_factor: int
    hyperband: bool = False

    def __post_init__(self) -> None:
        ExperimentSpec.hyperband(R=self.max_resource, eta=self.reduction_factor, r=self.min_resource)

    @property
    def full(self) -> ExperimentSpec:
        """A full round: in a bracket of successive halving just one trial runs to the end."""
        if self.hyperband:
            return ExperimentSpec.hyperband(R=self.max_resource, eta=self.reduction_factor, r=self.min_resource)
        trials, rung = 1, self.min_resource
        while rung < self.max_resource:
            trials, rung = trials * self.reduction_factor, rung * self.reduction_factor
        return self._bracket(trials, self.min_resource)

    def of(self, trials: int | None) -> Iterator[ExperimentSpec]:
        """Rounds for so many trials in all, the last one as small as it must be; without end for None.

        Raises:
            InvalidInput: `trials` is no positive integer.
        """
        full = self.full
        if trials is None:
            yield from repeat(full)
            return
        left = positive_int("trials", trials)
        while left >= full.trials:
            yield full
            left -= full.trials
        if left:
            yield self._part(full, left)

    def _part(self, full: ExperimentSpec, trials: int) -> ExperimentSpec:
        """A round of fewer trials: its brackets in order, until there are enough."""
        chains: list[Chain] = []
        for chain in full.chains:
            if trials:
                width = min(trials, chain[0].trials)
                whole = width == chain[0].trials
                chains += (chain,) if whole else self._bracket(width, chain[0].iterations).chains
                trials -= width
        return ExperimentSpec(chains=tuple(chains))

    def _bracket(self, trials: int, rung: int) -> ExperimentSpec:
        return ExperimentSpec.successive_halving(n=trials, r=rung, R=self.max_resource, eta=self.reduction_factor)
