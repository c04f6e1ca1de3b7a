"""How fast one instance type is for a training function, relative to another that the same was measured on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rb_core.errors import UnusableProfile
from rb_core.measurement import MeasuredSpeed, Measurement

MOST_SPREAD = 0.15
"""Relative difference between widths, or spread between starts, above which a person is told."""

LEAST_SIGNIFICANCE = 2.0
"""Standard errors that a difference between two widths must amount to."""


def measured_speed(name: str, reference: Sequence[Measurement], measured: Sequence[Measurement]) -> MeasuredSpeed:
    """Compare the starts on a type with those on the reference.

    Equal work is compared with equal work: starts of one configuration on one number of slots, the first with the
    first, the one from the checkpoint with the other. The speed is the geometric mean over the widths, since ratios
    multiply; each width counts once, as a plan may use any of them.

    Args:
        name: of the type, for warnings.
        reference: starts on the type that the profile is of.
        measured: starts on the other one.

    Raises:
        UnusableProfile: no configuration left a steady iteration on one number of slots of both.
    """
    here, there = _starts(measured), _starts(reference)
    ratios: dict[int, list[list[float]]] = {}
    for width, config in sorted(here.keys() & there.keys()):
        pairs = zip(there[width, config], here[width, config], strict=False)
        ratios.setdefault(width, []).append([before_s / now_s for before_s, now_s in pairs])
    if not ratios:
        raise UnusableProfile(
            f"nothing that ran on instance type {name} also ran on as many slots of the profiled one, so its speed is "
            "not known; raise budget_s, or give the type's speed"
        )
    logs = {width: [np.log(cell) for cell in cells] for width, cells in ratios.items()}
    by_slots = {width: math.exp(float(np.mean(np.concatenate(cells)))) for width, cells in logs.items()}
    mean = math.exp(float(np.mean(np.log(list(by_slots.values())))))
    every = np.concatenate([np.concatenate(cells) for cells in logs.values()])
    spread = float(np.std(every, ddof=1)) if len(every) > 1 else 0.0
    noise = _noise([cell for cells in logs.values() for cell in cells])
    counts = {width: sum(len(cell) for cell in cells) for width, cells in logs.items()}
    return MeasuredSpeed(
        mean=mean,
        std=mean * spread,
        by_slots=by_slots,
        warnings=_warnings(name, by_slots, counts, noise),
        measurements=tuple(measured),
    )


def _starts(measurements: Sequence[Measurement]) -> dict[tuple[int, int], list[float]]:
    """Mean steady iteration of each start, by slots and configuration, in the order of the starts."""
    found: dict[tuple[int, int], list[float]] = {}
    for start in measurements:
        if start.steady_s:
            found.setdefault((start.slots, start.config), []).append(float(np.mean(start.steady_s)))
    return found


def _noise(cells: Sequence[np.ndarray]) -> float | None:
    """Relative standard deviation between starts of one configuration and width; None where none was started twice."""
    freedom = sum(len(cell) - 1 for cell in cells)
    return math.sqrt(sum(float(np.sum((cell - cell.mean()) ** 2)) for cell in cells) / freedom) if freedom else None


def _warnings(
    name: str, by_slots: Mapping[int, float], counts: Mapping[int, int], noise: float | None
) -> tuple[str, ...]:
    told = []
    slow, fast = (choose(by_slots, key=by_slots.__getitem__) for choose in (min, max))
    error = (noise or 0.0) * math.sqrt(1 / counts[slow] + 1 / counts[fast])
    difference = math.log(by_slots[fast] / by_slots[slow])
    if difference > max(math.log1p(MOST_SPREAD), LEAST_SIGNIFICANCE * error):
        told.append(
            f"the speed of instance type {name} is {by_slots[fast]:.2f} on {_slots(fast)} per trial and "
            f"{by_slots[slow]:.2f} on {_slots(slow)}; plans take one figure for all, and miss by as much"
        )
    if noise is not None and noise > MOST_SPREAD:
        told.append(
            f"the speed of instance type {name} differs by {noise:.0%} (standard deviation) from start to start; "
            "plans are as vague: raise budget_s, or see what else runs there"
        )
    return tuple(told)


def _slots(number: int) -> str:
    return f"{number} slot{'s' if number > 1 else ''}"
