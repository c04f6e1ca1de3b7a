"""The chart: cost and end against how far what is believed is off."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chart import BLACK, BLUE, VERMILION, write_svg
from known import known

from .rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = {
    "kept": ("plan kept", BLUE, "--", "o"),
    "replanned": ("re-planned", VERMILION, "-", "s"),
    "static": ("static", BLACK, ":", "^"),
}
"""Name, colour, stroke and marker of each."""


def write_chart(rows: Sequence[Row], path: Path) -> None:
    """Draw it as SVG: a point is the median over the experiments and deadlines for which a plan was found."""
    wrongs = list(dict.fromkeys(row.wrong for row in rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, len(wrongs), sharex="col", sharey="row", squeeze=False)
        for column, wrong in enumerate(wrongs):
            own = [row for row in rows if row.wrong == wrong and row.cost_usd is not None]
            _draw(panels[0, column], own, lambda row: known(row.against_informed))
            _draw(panels[1, column], own, lambda row: known(row.jct_s) / row.deadline_s)
            panels[0, column].set_title(wrong)
            panels[1, column].set_xlabel("believed / true" if wrong != "scaling" else "loss not seen")
        panels[0, 0].set_ylabel("cost / informed")
        panels[1, 0].set_ylabel("end / deadline")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(LINES))

    write_svg(path, draw, width_in=2.2 * len(wrongs), height_in=4.2)


def _draw(axes: Axes, rows: Sequence[Row], value: Callable[[Row], float]) -> None:
    axes.axhline(1.0, color=BLACK, linewidth=0.5)
    for runner, (name, color, stroke, marker) in LINES.items():
        factors = sorted({row.factor for row in rows if row.runner == runner})
        medians = [
            statistics.median(value(row) for row in rows if (row.runner, row.factor) == (runner, factor))
            for factor in factors
        ]
        axes.plot(factors, medians, stroke, color=color, marker=marker, label=name)
    if rows and min(row.factor for row in rows) > 0:
        axes.set_xscale("log")
        shown = sorted({row.factor for row in rows})
        axes.set_xticks(shown, [f"{factor:g}" for factor in shown])
        axes.minorticks_off()
