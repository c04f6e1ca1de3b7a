"""Raw measurements of a training function, and the scaling profile that follows from them.

The parts of a start are defined so that ``start + iterations * iteration + save`` is exactly what the start took:

- *start* runs from the launch to the first iteration, and includes what the first iteration took longer than
  a typical one (warm-up);
- *iteration* is any iteration of a process but its first;
- *save* runs from the end of the last iteration until all processes are gone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from rb_core.check import non_negative, positive
from rb_core.ernest import ErnestFit, fit_ernest
from rb_core.hardware import Latency
from rb_core.profile import ScalingProfile

GIB = 1024**3

TOLERANCE_ERRORS = 2.0
"""Standard errors of a mean that the fit may miss it by."""

BETWEEN_RUNS_CV = 0.05
"""How far the same iterations lie apart from one measurement to the next on one machine, as a coefficient of variation,
beyond what the scatter within one tells: clock rates, caches and neighbours change. From 60 real runs on a virtual
machine with 2 cores (examples/evaluation/results/fidelity, 2026-12-03): forecast with 0.03, 39 of them ended between
P10 and P90; with 0.05 it would have been 47, where 48 are aimed at."""

_SURE = 0.9
"""Quantile at which few configurations are to be as cautious as Student's distribution is: the upper end of a forecast
from P10 to P90."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One start of one configuration's processes, fresh or from its checkpoint.

    Attributes:
        slots: processes side by side, the world size.
        config: number of the configuration within `MeasuredProfile.configs`.
        from_iteration: iterations done before; above 0 it was restored from its checkpoint.
        start_s: from the launch to the beginning of the first iteration.
        restore_s: the part of it that went into reading the checkpoint.
        iterations_s: length of each iteration; the first one contains the warm-up.
        save_s: from the end of the last iteration until all processes were gone.
        checkpoint_bytes: size of the checkpoint that it left; 0 if none.
    """

    slots: int
    config: int
    from_iteration: int
    start_s: float
    restore_s: float
    iterations_s: tuple[float, ...]
    save_s: float
    checkpoint_bytes: int

    @property
    def steady_s(self) -> tuple[float, ...]:
        """The iterations without the warm-up."""
        return self.iterations_s[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpeed:
    """How fast a type was found to be.

    Attributes:
        mean: seconds of an iteration on the reference over those on this type: above 1 it is the faster one.
        std: standard deviation of that ratio over widths, configurations and starts.
        by_slots: the ratio for each number of slots per trial that was measured on both.
        warnings: what a person should know of it, one sentence each.
        measurements: every start on this type that ran to its end.
    """

    mean: float
    std: float = 0.0
    by_slots: Mapping[int, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = ()

    def __post_init__(self) -> None:
        positive("mean", self.mean)
        non_negative("std", self.std)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProfile:
    """A scaling profile with everything that it rests on.

    Attributes:
        profile: what planners are given.
        configs: the configurations that were tried, in the order of their numbers.
        measurements: every start that ran to its end.
        fit: Ernest's curve through the measured sizes; None when there was only one.
        warnings: what a person should know, one sentence each.
        seconds: how long profiling took.
        instance_type: name of the type that was measured; empty where nobody said which.
        speeds: how fast other types were found to be, by their names, relative to that one.
        usd: what the nodes that were measured on cost.
    """

    profile: ScalingProfile
    configs: tuple[Mapping[str, Any], ...]
    measurements: tuple[Measurement, ...]
    fit: ErnestFit | None
    warnings: tuple[str, ...]
    seconds: float
    instance_type: str = ""
    speeds: Mapping[str, MeasuredSpeed] = field(default_factory=dict)
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class _Cell:
    """All starts of one configuration on one number of slots that left at least one steady iteration."""

    starts: tuple[Measurement, ...]

    @property
    def steady_s(self) -> list[float]:
        return [seconds for start in self.starts for seconds in start.steady_s]

    @property
    def mean_s(self) -> float:
        return float(np.mean(self.steady_s))

    @property
    def start_means_s(self) -> list[float]:
        return [float(np.mean(start.steady_s)) for start in self.starts if start.steady_s]


def complete_configs(measurements: Sequence[Measurement], sizes: Collection[int]) -> tuple[int, ...]:
    """Numbers of the configurations that left a steady iteration on each of `sizes`.

    Means are taken over these alone, so that different sizes are compared on equal work.
    """
    seen: dict[int, set[int]] = {}
    for measurement in measurements:
        if measurement.steady_s:
            seen.setdefault(measurement.config, set()).add(measurement.slots)
    return tuple(sorted(config for config, measured in seen.items() if measured >= set(sizes)))


def summarise(
    measurements: Sequence[Measurement], sizes: Collection[int], *, sync_s: float
) -> tuple[ScalingProfile, ErnestFit | None]:
    """The profile that the measurements on `sizes` support, and the curve through its iteration latencies.

    The profile lists the measured sizes with their measured means, and the ones between and beyond that the fit
    vouches for, with the measured sizes' relative noise.

    Args:
        measurements: at least one configuration must be complete (see `complete_configs`) on `sizes`.
        sizes: the numbers of slots to summarise.
        sync_s: length of the barrier, which is not measured here.
    """
    cells = _cells(measurements, sizes)
    configs = complete_configs(measurements, sizes)
    means = {w: float(np.mean([cells[w, j].mean_s for j in configs])) for w in sorted(sizes)}
    noise = {w: _noise([cell for (v, _), cell in cells.items() if v == w]) for w in means}
    known = [relative for relative in noise.values() if relative is not None]
    typical = float(np.sqrt(np.mean(np.square(known)))) if known else 0.0
    relative = {w: typical if value is None else value for w, value in noise.items()}

    timed = {w: sum(len(cell.steady_s) for (v, _), cell in cells.items() if v == w) for w in means}
    fit = fit_ernest(means, {w: TOLERANCE_ERRORS * relative[w] / math.sqrt(timed[w]) for w in means})
    predicted = dict(fit.predictions) if fit else {}
    latencies = {w: Latency(mean=mean, std=relative[w] * mean) for w, mean in means.items()}
    latencies |= {w: Latency(mean=mean, std=typical * mean) for w, mean in predicted.items()}

    counted = [start for cell in cells.values() for start in cell.starts]
    starts = [
        max(0.0, start.start_s + start.iterations_s[0] - cell.mean_s)
        for cell in cells.values()
        for start in cell.starts
    ]
    profile = ScalingProfile(
        iteration_s=latencies,
        start_s=_latency(starts),
        save_s=_latency([start.save_s for start in counted]),
        sync_s=sync_s,
        trial_cv=_trial_cv(cells, configs, sorted(sizes)),
        run_cv=_run_cv(cells, configs, sorted(sizes)),
        checkpoint_gib=float(np.mean([start.checkpoint_bytes for start in counted])) / GIB,
    )
    return profile, fit


def _cells(measurements: Sequence[Measurement], sizes: Collection[int]) -> dict[tuple[int, int], _Cell]:
    grouped: dict[tuple[int, int], list[Measurement]] = {}
    for measurement in measurements:
        if measurement.slots in sizes:
            grouped.setdefault((measurement.slots, measurement.config), []).append(measurement)
    cells = {key: _Cell(tuple(starts)) for key, starts in grouped.items()}
    return {key: cell for key, cell in cells.items() if cell.steady_s}


def _latency(seconds: Sequence[float]) -> Latency:
    spread = float(np.std(seconds, ddof=1)) if len(seconds) > 1 else 0.0
    return Latency(mean=float(np.mean(seconds)), std=spread)


def _pooled_noise(samples: Iterable[Sequence[float]]) -> float | None:
    """Relative standard deviation of a value around its own sample's mean; None where none has two values."""
    squares, freedom = 0.0, 0
    for sample in samples:
        values = np.array(sample)
        squares += float(np.sum((values / values.mean() - 1.0) ** 2))
        freedom += len(values) - 1
    return math.sqrt(squares / freedom) if freedom else None


def _noise(cells: Sequence[_Cell]) -> float | None:
    """Relative standard deviation of one iteration; None when nothing was timed twice.

    The model takes iterations for independent, but what disturbs one tends to disturb its neighbours too. So it is
    raised to where independent iterations would scatter the means of whole starts as much as they did.
    """
    by_iteration = _pooled_noise(cell.steady_s for cell in cells)
    by_start = _pooled_noise(cell.start_means_s for cell in cells)
    if by_iteration is None or by_start is None:
        return by_iteration
    length = float(np.mean([len(start.steady_s) for cell in cells for start in cell.starts if start.steady_s]))
    return max(by_iteration, by_start * math.sqrt(length))


def _trial_cv(cells: Mapping[tuple[int, int], _Cell], configs: Sequence[int], sizes: Sequence[int]) -> float:
    """Coefficient of variation of the speed between configurations, without the noise of measuring it.

    Each configuration's speed relative to the mean is averaged over the sizes. From the variance of these averages
    goes what noise alone would cause: by the scatter between starts, or by the disagreement between sizes, whichever
    is larger. The root is divided by c4(k), its expectation for k normal draws of unit variance.
    """
    k = len(configs)
    if k < 2:
        return 0.0
    # shape (configs, sizes)
    means = np.array([[cells[w, j].mean_s for w in sizes] for j in configs])
    relative = means / means.mean(axis=0)
    speeds = relative.mean(axis=1)
    noise = 0.0
    scatter = _pooled_noise(cells[w, j].start_means_s for w in sizes for j in configs)
    if scatter is not None:
        starts = np.array([sum(len(cells[w, j].start_means_s) for w in sizes) for j in configs])
        noise = scatter**2 * float(np.mean(1.0 / starts))
    if len(sizes) > 1:
        disagreement = np.sum((relative - speeds[:, None]) ** 2) / ((k - 1) * (len(sizes) - 1))
        noise = max(noise, float(disagreement) / len(sizes))
    variance = max(0.0, float(np.var(speeds, ddof=1)) - noise)
    c4 = math.sqrt(2 / (k - 1)) * math.exp(math.lgamma(k / 2) - math.lgamma((k - 1) / 2))
    return math.sqrt(variance) / c4


def _run_cv(cells: Mapping[tuple[int, int], _Cell], configs: Sequence[int], sizes: Sequence[int]) -> float:
    """How far the iterations of a run may be off the means, all together, as a coefficient of variation.

    Of two parts. Means over a few configurations have an error: by the variance of the configurations' own means
    around them, in which the noise of measuring is contained. That variance is itself known from few, so that the error
    is widened as Student's distribution is against the normal one. What changes between two measurements,
    `BETWEEN_RUNS_CV`, cannot be seen within one.
    """
    from scipy.special import stdtrit

    k = len(configs)
    if k < 2:
        # Nothing is known of other configurations, so the scatter of this one's starts is the least that there is.
        scatter = _pooled_noise(cells[w, j].start_means_s for w in sizes for j in configs) or 0.0
        return math.hypot(scatter, BETWEEN_RUNS_CV)
    # shape (configs, sizes)
    means = np.array([[cells[w, j].mean_s for w in sizes] for j in configs])
    variance = float(np.var(means / means.mean(axis=0), axis=0, ddof=1).mean()) / k
    widened = float(stdtrit(k - 1, _SURE)) / NormalDist().inv_cdf(_SURE)
    return math.hypot(widened * math.sqrt(variance), BETWEEN_RUNS_CV)
