"""The chart: for each experiment and cloud, what each planner's plan costs, as a multiple of `static-beside`'s."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chart import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, write_svg

from .rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = {
    "static-1": (GREY, "--"),
    "static": (BLACK, "-"),
    "static-beside": (PURPLE, "--"),
    "naive": (ORANGE, ":"),
    "greedy": (BLUE, "-"),
    "exact": (VERMILION, "-"),
    "lower bound": (GREEN, "-."),
}
"""Colour and stroke of each."""


def write_chart(rows: Sequence[Row], path: Path) -> None:
    """Draw it as SVG.

    A point is the median over the workloads, and stands only where the planner finds a plan for every one of them; the
    band is the range of the exact planner.
    """
    experiments = list(dict.fromkeys(row.case.experiment for row in rows))
    clouds = list(dict.fromkeys(row.case.cloud for row in rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(experiments), len(clouds), sharex=True, sharey="row", squeeze=False)
        for line, experiment in zip(panels, experiments, strict=True):
            for axes, cloud in zip(line, clouds, strict=True):
                chosen = [row for row in rows if (row.case.experiment, row.case.cloud) == (experiment, cloud)]
                _draw(axes, chosen)
                axes.set_title(f"{experiment} on {cloud}")
        for axes in panels[-1]:
            axes.set_xlabel("deadline / fastest possible")
        for axes in panels[:, 0]:
            axes.set_ylabel("cost / static-beside")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(LINES))

    write_svg(path, draw, width_in=3.2 * len(clouds), height_in=2.4 * len(experiments) + 0.5)


def _draw(axes: Axes, rows: Sequence[Row]) -> None:
    factors = sorted({row.deadline_factor for row in rows})
    by_factor = [[row for row in rows if row.deadline_factor == factor] for factor in factors]
    for name, (color, stroke) in LINES.items():
        shares = [_shares(group, name) for group in by_factor]
        middle = [statistics.median(values) if values else float("nan") for values in shares]
        axes.plot(factors, middle, stroke, color=color, label=name, marker=".")
        if name == "exact" and all(shares):
            axes.fill_between(
                factors, [min(v) for v in shares], [max(v) for v in shares], color=color, alpha=0.15, linewidth=0
            )
    axes.set_xscale("log")
    axes.set_xticks(factors, [f"{factor:g}" for factor in factors])
    axes.minorticks_off()


def _shares(rows: Sequence[Row], name: str) -> list[float]:
    """Cost of each row as a multiple of `static-beside`'s plan; nothing unless every row has both."""
    shares = []
    for row in rows:
        static, other = row.outcomes["static-beside"], row.outcomes.get(name)
        usd = row.lower_bound_usd if name == "lower bound" else other.cost_usd if other else None
        if static is None or usd is None:
            return []
        shares.append(usd / static.cost_usd)
    return shares
