"""One scrambled quasi-random sequence for parameters that become known only as they are suggested."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.stats import qmc

_DIMENSIONS = 128
"""Coordinates of the sequence; what lies beyond them is plainly random."""


class QuasiRandom:
    """A scrambled Sobol' sequence whose points belong to trials, by number, and its coordinates to parameters.

    A parameter takes the next coordinate when it is first asked for. So a search space need not be known beforehand,
    the first trial is a point like all others, and a trial's point depends on its number alone.
    """

    def __init__(self, seed: int | None = None) -> None:
        """A sequence of its own for each seed; None takes one from the operating system."""
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._coordinates: dict[str, int] = {}
        self._points = np.empty((0, _DIMENSIONS))

    def coin(self, number: int) -> float:
        """A number in [0, 1) for a decision about a trial; it has a coordinate to itself."""
        return self._coordinate(number, 0)

    def value(self, number: int, name: str, distribution: BaseDistribution) -> Any:
        """The value of a parameter of a trial."""
        coordinate = self._coordinates.setdefault(name, len(self._coordinates) + 1)
        return quantile(distribution, self._coordinate(number, coordinate))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_points": np.empty((0, _DIMENSIONS))}

    def _coordinate(self, number: int, coordinate: int) -> float:
        if coordinate >= _DIMENSIONS:
            return float(np.random.default_rng((self._seed, number, coordinate)).random())
        if number >= len(self._points):
            self._points = self._drawn(number + 1)
        return float(self._points[number, coordinate])

    def _drawn(self, count: int) -> NDArray[np.float64]:
        """The first points, at least so many; shape (a power of two, _DIMENSIONS)."""
        engine = qmc.Sobol(_DIMENSIONS, scramble=True, rng=np.random.default_rng(self._seed))
        return engine.random_base2(max(6, math.ceil(math.log2(count))))


def quantile(distribution: BaseDistribution, share: float) -> Any:
    """The value below which this share of a distribution lies, in the type that Optuna uses for it.

    Args:
        distribution: one of Optuna's.
        share: in [0, 1).
    """
    match distribution:
        case CategoricalDistribution():
            return distribution.choices[int(share * len(distribution.choices))]
        case IntDistribution(log=True):
            low, high = math.log(distribution.low - 0.5), math.log(distribution.high + 0.5)
            return min(max(round(math.exp(low + share * (high - low))), distribution.low), distribution.high)
        case IntDistribution():
            values = (distribution.high - distribution.low) // distribution.step + 1
            return distribution.low + int(share * values) * distribution.step
        case FloatDistribution(step=float(step)):
            values = round((distribution.high - distribution.low) / step) + 1
            return min(distribution.low + int(share * values) * step, distribution.high)
        case FloatDistribution(log=True):
            low, high = math.log(distribution.low), math.log(distribution.high)
            return min(max(math.exp(low + share * (high - low)), distribution.low), distribution.high)
        case FloatDistribution():
            return min(distribution.low + share * (distribution.high - distribution.low), distribution.high)
        case _:
            raise NotImplementedError(f"The distribution {distribution} is not implemented.")
