"""The chart: how far forecasts were off, and what the others' plans cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from chart import BLUE, GREY, ORANGE, VERMILION, write_svg

from curves.rows import Row
from curves.tables import group_of, pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATIOS = (0.5, 1.0, 2.0, 4.0)

MARKS = {"static": (GREY, "s"), "greedy": (ORANGE, "^")}


def write_chart(rows: Sequence[Row], path: Path) -> None:
    """Draw it as SVG."""
    groups = list(dict.fromkeys(group_of(row) for row in rows))

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        _forecasts(left, rows, groups)
        _costs(right, rows, groups)
        left.set_yticks(range(len(groups)), groups)
        left.invert_yaxis()

    write_svg(path, draw, width_in=8.0, height_in=0.55 * len(groups) + 1.2)


def _forecasts(axes: Axes, rows: Sequence[Row], groups: Sequence[str]) -> None:
    figures = {"time": (BLUE, "o", -0.12), "cost": (VERMILION, "D", 0.12)}
    for what, (color, mark, aside) in figures.items():
        for place, group in enumerate(groups):
            runs = [r for r in rows if group_of(r) == group and r.planner == "exact" and r.actual_s is not None]
            if runs:
                ratios = [r.time_ratio if what == "time" else r.cost_ratio for r in runs]
                _bar(axes, place + aside, ratios, (0.1, 0.5, 0.9), color, mark, what if place == 0 else None)
    axes.axvline(1.0, color="black", linewidth=0.6)
    axes.set_xscale("log")
    axes.set_xticks(RATIOS, [f"{ratio:g}" for ratio in RATIOS])
    axes.minorticks_off()
    axes.set_title("actual / forecast: median, p10 to p90")
    axes.legend(loc="best")


def _costs(axes: Axes, rows: Sequence[Row], groups: Sequence[str]) -> None:
    for number, (other, (color, mark)) in enumerate(MARKS.items()):
        for place, group in enumerate(groups):
            both = pairs([row for row in rows if group_of(row) == group], "exact", other)
            if both:
                shares = [a.cost_against(b) for a, b in both]
                label = f"against {other}" if place == 0 else None
                _bar(axes, place - 0.12 + 0.24 * number, shares, (0.25, 0.5, 0.75), color, mark, label)
    axes.axvline(1.0, color="black", linewidth=0.6)
    axes.set_title("exact plan's cost / the other's: quartiles")
    axes.legend(loc="best")


def _bar(
    axes: Axes,
    height: float,
    values: Sequence[float],
    ends: tuple[float, float, float],
    color: str,
    mark: str,
    label: str | None,
) -> None:
    low, middle, high = np.quantile(values, ends)
    axes.plot([low, high], [height, height], color=color)
    axes.plot([middle], [height], mark, color=color, label=label)
