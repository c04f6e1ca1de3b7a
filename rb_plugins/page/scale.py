"""Axes: where their ticks are and what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS_S = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
"""Distances of ticks that people count in."""

_LEAST_STEP = 1e-300
"""Ticks no further apart than that are one."""

Tick = tuple[float, str]
"""A value and its label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values from `low` to `high`, on a logarithmic scale if so said."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high one, values beyond them on the edge."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log(max(value, low)), math.log(low), math.log(high)
        return 0.0 if high <= low else min(1.0, max(0.0, (value - low) / (high - low)))


def time_ticks(end_s: float, *, most: int = 5) -> list[Tick]:
    """Ticks of a time axis from 0 to `end_s` in seconds."""
    step_s = next((step for step in _STEPS_S if end_s / step <= most), _STEPS_S[-1])
    while end_s / step_s > most:
        step_s *= 2
    return [(n * step_s, _time_words(n * step_s, step_s)) for n in range(int(end_s / step_s + 1e-9) + 1)]


def ticks(low: float, high: float, *, most: int = 5) -> list[float]:
    """Round values from `low` to `high`."""
    raw = high / most - low / most
    if raw < _LEAST_STEP:
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def money_ticks(high_usd: float) -> list[Tick]:
    """Ticks of an axis of money from 0."""
    return [(usd, f"{usd:,.6g}") for usd in ticks(0.0, high_usd)]


def _time_words(t_s: float, step_s: float) -> str:
    if t_s == 0:
        return "0"
    if step_s < 60:
        return f"{t_s:g} s"
    if step_s < 3600:
        return f"{t_s / 60:g} min" if t_s < 5400 else f"{t_s // 3600:.0f}h{t_s % 3600 // 60:02.0f}"
    return f"{t_s / 3600:g} h" if step_s < 86400 else f"{t_s / 86400:g} d"
