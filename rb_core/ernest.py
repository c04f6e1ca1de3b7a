"""How iteration latency depends on the number of slots, between and a little beyond what was measured.

The form is Ernest's, ``a + b/w + c*log2(w) + d*w`` (Venkataraman et al., "Ernest: efficient performance
prediction for large-scale advanced analytics", NSDI 2016): a fixed part, a part that is divided among the
slots, a reduction tree and a cost for each slot, none of them negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rb_core.check import positive, positive_int
from rb_core.errors import InvalidInput

REACH = 2
"""The fit never speaks of more slots than this times the largest measured number."""

MOST_AMBIGUITY = 0.1
"""A size is vouched for while all curves through the measurements agree on it to this relative half-width."""

LEAST_TOLERANCE = 0.01
"""Relative error that even the quietest measurement is granted."""

LEAST_SIZES_BEYOND = 3
"""Sizes that must be measured before anything beyond the largest of them is vouched for: through two points,
curves that flatten and curves that turn upwards fit equally well."""


class _Prediction(NamedTuple):
    """Latency at one size relative to the smallest measured one: best, lowest and highest curve."""

    best: float
    low: float
    high: float

    @property
    def ambiguity(self) -> float:
        """Relative half-width of the range."""
        return (self.high - self.low) / (self.high + self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErnestFit:
    """The fitted curve and how far it may be trusted.

    Attributes:
        coefficients: a, b, c and d in seconds, none negative.
        residuals: relative residual at each measured size, (fitted - measured) / measured.
        predictions: seconds at each size that was not measured and that the fit vouches for.
        largest_slots: the largest size, measured or not, that it vouches for.
    """

    coefficients: tuple[float, float, float, float]
    residuals: Mapping[int, float]
    predictions: Mapping[int, float]
    largest_slots: int

    @property
    def largest_residual(self) -> float:
        """The largest relative residual, as a magnitude."""
        return max(abs(residual) for residual in self.residuals.values())


def fit_ernest(measured_s: Mapping[int, float], tolerances: Mapping[int, float] | None = None) -> ErnestFit | None:
    """Fit Ernest's form, weighting relative errors equally, and find the sizes that it determines.

    A size is vouched for when *every* non-negative curve that passes the measurements within their tolerances
    predicts nearly the same for it: two linear programmes give the lowest and the highest such prediction.

    Args:
        measured_s: mean iteration latency in seconds by number of slots.
        tolerances: relative error of each mean; 0 where left out. Raised to the best curve's own residual.

    Returns:
        The fit; None when fewer than two sizes were measured, which determine no curve.

    Raises:
        InvalidInput: a size is not a positive integer, or a latency not a positive number.
    """
    from scipy.optimize import nnls

    for slots, mean_s in measured_s.items():
        positive_int("slots", slots)
        positive(f"measured_s.{slots}", mean_s)
    if len(measured_s) < 2:
        return None
    sizes = sorted(measured_s)
    unit_s = measured_s[sizes[0]]
    rows = _terms(sizes) * np.array([[unit_s / measured_s[slots]] for slots in sizes])
    best, _ = nnls(rows, np.ones(len(sizes)))
    residuals = rows @ best - 1.0
    given = tolerances or {}
    tolerance = np.array([max(LEAST_TOLERANCE, given.get(slots, 0.0)) for slots in sizes])
    tolerance = np.maximum(tolerance, np.abs(residuals) * (1 + 1e-6) + 1e-9)

    predictions: dict[int, float] = {}
    for slots in _candidates(sizes):
        prediction = _predict(slots, rows, best, tolerance)
        if prediction.ambiguity <= MOST_AMBIGUITY:
            predictions[slots] = prediction.best * unit_s
        elif slots > sizes[-1]:
            break
    a, b, c, d = (float(x) * unit_s for x in best)
    return ErnestFit(
        coefficients=(a, b, c, d),
        residuals={slots: float(r) for slots, r in zip(sizes, residuals, strict=True)},
        predictions=predictions,
        largest_slots=max(sizes[-1], *predictions, 1),
    )


def ernest_s(coefficients: tuple[float, float, float, float], slots: int) -> float:
    """Seconds of one iteration on `slots` slots by the curve with these coefficients."""
    return float(_terms([positive_int("slots", slots)])[0] @ np.array(coefficients))


def _terms(sizes: ArrayLike) -> NDArray[np.float64]:
    """The form's four terms, shape (sizes, 4)."""
    w = np.asarray(sizes, dtype=np.float64)
    return np.stack([np.ones_like(w), 1.0 / w, np.log2(w), w], axis=-1)


def _candidates(sizes: list[int]) -> list[int]:
    """Sizes not measured that pack well on common nodes: powers of two, and three times a power of two."""
    limit = sizes[-1] * REACH if len(sizes) >= LEAST_SIZES_BEYOND else sizes[-1]
    powers = [2**k for k in range(limit.bit_length())]
    wanted = {*powers, *(3 * power for power in powers)}
    return sorted(w for w in wanted if sizes[0] < w <= limit and w not in sizes)


def _predict(
    slots: int, rows: NDArray[np.float64], best: NDArray[np.float64], tolerance: NDArray[np.float64]
) -> _Prediction:
    """The range of predictions of all curves within `tolerance`; `rows` has shape (sizes, 4)."""
    from scipy.optimize import linprog

    terms = _terms([slots])[0]
    limits = np.vstack([rows, -rows])
    bounds = np.concatenate([1.0 + tolerance, tolerance - 1.0])
    ends = []
    for sign in (1.0, -1.0):
        answer = linprog(sign * terms, A_ub=limits, b_ub=bounds, bounds=(0, None))
        if answer.fun is None:
            raise InvalidInput(
                "measured_s",
                f"no curve could be bounded at {slots} slots: {answer.message}; measure more numbers of slots",
            )
        ends.append(sign * answer.fun)
    return _Prediction(float(terms @ best), ends[0], ends[1])
