"""Ours against another, draw by draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Regrets of ours and of another, over the same draws.

    Attributes:
        wins: draws in which ours was better.
        losses: draws in which it was worse.
        ties: draws in which both have the same model, or both have none.
        p: of the two-sided sign test over wins and losses.
        difference: median of ours less the other's, over the draws in which both have a model.
        low: lower end of its 95 % interval, by the bootstrap over draws.
        high: upper end.
    """

    wins: int
    losses: int
    ties: int
    p: float
    difference: float
    low: float
    high: float


def contest(ours: Sequence[float], other: Sequence[float]) -> Contest:
    """Compare regrets; infinite where there is no model."""
    wins = sum(a < b for a, b in zip(ours, other, strict=True))
    losses = sum(a > b for a, b in zip(ours, other, strict=True))
    both = np.array([a - b for a, b in zip(ours, other, strict=True) if a < math.inf and b < math.inf])
    middle = low = high = math.nan
    if len(both):
        middle = float(np.median(both))
        drawn = np.random.default_rng(0).choice(both, size=(RESAMPLES, len(both)))
        low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975)).tolist()
    return Contest(
        wins=wins,
        losses=losses,
        ties=len(ours) - wins - losses,
        p=float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0,
        difference=middle,
        low=low,
        high=high,
    )
