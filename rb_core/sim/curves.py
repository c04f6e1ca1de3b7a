"""Learning curves: what a rehearsed trial scores after so many iterations."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Curves(Protocol):
    """Scores of trials. Pure: the same trial has the same score after the same iterations."""

    def score(self, trial: int, iterations: int) -> float:
        """The score of a trial after so many iterations in total."""


class SyntheticCurves:
    """Accuracies that rise towards an asymptote by a power law, with a little noise.

    Trials differ in their asymptote and their pace, so that early ranks agree with late ones often and not always.
    """

    def __init__(self, trials: int, rng: np.random.Generator, *, noise: float = 0.01) -> None:
        """Curves of so many trials.

        Args:
            trials: how many.
            rng: what their shapes are drawn with.
            noise: largest deviation of a score from its smooth curve.
        """
        self._asymptotes = rng.beta(4.0, 2.0, trials).tolist()
        self._rates = np.exp(rng.normal(math.log(0.5), 0.4, trials)).tolist()
        self._seeds = rng.integers(0, 1 << 62, trials).tolist()
        self._noise = noise

    def score(self, trial: int, iterations: int) -> float:
        """The smooth curve at that point, and the noise that belongs to it."""
        smooth: float = self._asymptotes[trial] * (1.0 - (1.0 + iterations) ** -self._rates[trial])
        return smooth + self._noise * (2.0 * _uniform(self._seeds[trial] + iterations) - 1.0)


def _uniform(key: int) -> float:
    """A number in [0, 1) that looks random and depends on `key` alone (splitmix64, Steele et al., OOPSLA 2014)."""
    mixed = (key * _GOLDEN) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((mixed ^ (mixed >> 31)) >> 11) / (1 << 53)
