"""Whether an iteration costs the same each time, which every prediction takes for granted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rb_core.measurement import Measurement

MOST_NOISE = 0.3
"""Relative standard deviation of one iteration above which a person is told."""

MOST_DRIFT = 0.2
"""Relative change over the measured iterations above which a person is told."""

LEAST_SIGNIFICANCE = 4.0
"""Standard errors that a drift must amount to."""


def steadiness_warnings(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Sentences on the cost per iteration: that it drifts, or that it varies; empty when it is steady."""
    positions, deviations, cells = _deviations(measurements)
    freedom = len(deviations) - cells
    if freedom < 1:
        return ()
    drift = _drift(positions, deviations, freedom)
    if drift is not None:
        verb = "grows" if drift > 0 else "shrinks"
        window = round(float(positions.max() - positions.min())) + 1
        return (
            f"the cost of an iteration {verb} by about {abs(drift):.0%} over the first {window} iterations; plans "
            f"take it for constant, so later stages will take {'longer' if drift > 0 else 'less'} than predicted",
        )
    noise = math.sqrt(float(np.sum(deviations**2)) / freedom)
    if noise > MOST_NOISE:
        return (
            f"the cost of an iteration varies by {noise:.0%} (standard deviation) from one to the next; predictions "
            "will be as vague: see what else runs on this machine, or let an iteration do more",
        )
    return ()


def _deviations(
    measurements: Sequence[Measurement],
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Position of each steady iteration and its relative deviation, both centred by cell, and the cells."""
    grouped: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for m in measurements:
        cell = grouped.setdefault((m.slots, m.config), [])
        cell.extend((m.from_iteration + 1 + i, seconds) for i, seconds in enumerate(m.steady_s))
    positions, deviations = [], []
    rows = [np.array(cell) for cell in grouped.values() if cell]
    for row in rows:
        positions.append(row[:, 0] - row[:, 0].mean())
        deviations.append(row[:, 1] / row[:, 1].mean() - 1.0)
    if not rows:
        return np.empty(0), np.empty(0), 0
    return np.concatenate(positions), np.concatenate(deviations), len(rows)


def _drift(positions: NDArray[np.float64], deviations: NDArray[np.float64], freedom: int) -> float | None:
    """Relative change over the window by least squares; None unless it is large and beyond chance."""
    weight = float(np.sum(positions**2))
    if weight == 0 or freedom < 2:
        return None
    slope = float(np.sum(positions * deviations)) / weight
    residual = float(np.sum((deviations - slope * positions) ** 2)) / (freedom - 1)
    change = slope * float(positions.max() - positions.min())
    significant = abs(slope) > LEAST_SIGNIFICANCE * math.sqrt(residual / weight)
    return change if significant and abs(change) > MOST_DRIFT else None
