"""Bands that are forecast, and how often they hold what comes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

AIM = 0.8
"""Share of runs that bands from P10 to P90 are to hold."""

CONFIDENCE = 0.95
"""Of the interval around a share that was counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Quantiles of a forecast's samples, in their unit."""

    p10: float
    p50: float
    p90: float

    @classmethod
    def of(cls, samples: NDArray[np.float64]) -> Band:
        """Those of samples; shape (samples,)."""
        p10, p50, p90 = np.quantile(samples, [0.1, 0.5, 0.9]).tolist()
        return cls(p10=p10, p50=p50, p90=p90)

    def holds(self, value: float) -> bool:
        """Whether a value lies between P10 and P90, both included."""
        return self.p10 <= value <= self.p90


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many of so many values lay in their bands.

    Attributes:
        inside: how many did.
        of: how many there were.
        low: lower end of the interval of the share (Clopper and Pearson, 1934).
        high: its upper end.
    """

    inside: int
    of: int
    low: float
    high: float

    @classmethod
    def counted(cls, inside: int, of: int) -> Coverage:
        """That of `of` values, at least one, of which so many lay inside."""
        interval = binomtest(inside, of).proportion_ci(confidence_level=CONFIDENCE, method="exact")
        return cls(inside=inside, of=of, low=float(interval.low), high=float(interval.high))

    @property
    def share(self) -> float:
        """Of the values that lay in their bands."""
        return self.inside / self.of

    def __str__(self) -> str:
        """For a cell: ``41 of 54: 76 % (62 to 87)``."""
        return f"{self.inside} of {self.of}: {self.share:.0%} ({100 * self.low:.0f} to {100 * self.high:.0f})".replace(
            "%", " %"
        )


def rank_of(value: float, samples: NDArray[np.float64]) -> float:
    """Share of the samples below a value, equal ones counting half: even over [0, 1] where forecasts are true."""
    return float(np.mean(samples < value) + np.mean(samples == value) / 2)
