"""What the policies before a barrier gain, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np
from table import markdown

from .gains import SAMPLES, SEED, Gains


def page(rows: Sequence[Gains], origin: str) -> str:
    """All policies, by experiment, cloud and deadline."""
    growing = [row for row in rows if row.grows]
    in_all = [
        [policy, what, str(len(of)), *_middle_and_most(of, value)]
        for policy, what, of, value in (
            ("early release", "cost", rows, lambda row: row.early),
            ("early release", "cost, with noise", rows, lambda row: row.noisy_early),
            ("prefetch", "cost at most, where nodes are added later", growing, lambda row: row.prefetch_usd),
            ("prefetch", "time at most, where nodes are added later", growing, lambda row: row.prefetch_time),
            ("prefetch", "cost at most, all rows", rows, lambda row: row.prefetch_usd),
            ("prefetch", "cost at most, all rows, plans chosen for it", rows, lambda row: row.prefetch_planned),
            ("early promotion", "time at most, with noise", rows, lambda row: row.promote_time),
            ("early promotion", "cost at most, with noise, alone", rows, lambda row: row.promote_usd),
            ("early promotion", "cost, with noise, beside early release", rows, lambda row: row.promote_beside),
        )
    ]
    parts = [
        "# What the policies before a barrier gain",
        "Of the exact planner's plans. *Noise*: iterations vary by 5 % (each by itself), configurations by 20 % in "
        "speed, launch and init by 20 %; plans are chosen for that.",
        origin,
        "## In all",
        markdown(["policy", "what it saves", "rows", "median", "largest"], in_all),
        "Saved seconds of prefetch, where nodes are added later: " + _seconds(growing),
        "## Early release, by panel",
        f"Means over the workloads of the part of the cost that is saved; with noise over {SAMPLES:,} samples (seed "
        f"{SEED}) under common random numbers, with 95 % confidence intervals.",
    ]
    for experiment, group in groupby(rows, key=lambda row: row.experiment):
        cells = []
        for (cloud, factor), panel in _panels(list(group)):
            half = float(np.sqrt(sum(row.noisy_early_95**2 for row in panel))) / len(panel)
            noisy = f"{_percent(_mean(panel, 'noisy_early'))} +- {_percent(half, 2)}"
            cells.append([cloud, f"{factor:g}x", _percent(_mean(panel, "early")), noisy])
        parts += [f"### {experiment}", markdown(["cloud", "deadline", "nothing varies", "with noise"], cells)]
    return "\n\n".join(parts) + "\n"


def _panels(rows: Sequence[Gains]) -> Iterator[tuple[tuple[str, float], list[Gains]]]:
    groups: dict[tuple[str, float], list[Gains]] = {}
    for row in rows:
        groups.setdefault((row.cloud, row.deadline_factor), []).append(row)
    yield from groups.items()


def _mean(rows: Sequence[Gains], key: str) -> float:
    return statistics.fmean(getattr(row, key) for row in rows)


def _middle_and_most(rows: Sequence[Gains], value: Callable[[Gains], float]) -> tuple[str, str]:
    values = [value(row) for row in rows]
    return (_percent(statistics.median(values), 2), _percent(max(values), 2)) if values else ("-", "-")


def _seconds(rows: Sequence[Gains]) -> str:
    values = [row.prefetch_s for row in rows]
    return f"median {statistics.median(values):.0f}, largest {max(values):.0f}." if values else "none does."


def _percent(fraction: float, digits: int = 1) -> str:
    return f"{round(100 * fraction, digits) + 0.0:.{digits}f} %"
