"""The chart: regrets of all ways by setting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chart import BLUE, GREEN, GREY, VERMILION, write_svg

from dollars.choices import of_way, regrets, settings
from dollars.rows import ON_FIXED, OURS, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = dict(zip((OURS, *ON_FIXED), ((VERMILION, "o"), (GREY, "s"), (BLUE, "^"), (GREEN, "D")), strict=True))
"""Colour and mark of each way."""


def write_chart(rows: Sequence[Row], path: Path) -> None:
    """Draw it as SVG."""
    by_setting = settings(rows)
    pools = list(dict.fromkeys(pool for pool, _, _ in by_setting))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(pools), 1, squeeze=False)[:, 0]
        for axes, pool in zip(panels, pools, strict=True):
            own = {setting: found for setting, found in by_setting.items() if setting[0] == pool}
            for number, (way, (color, mark)) in enumerate(MARKS.items()):
                for place, found in enumerate(own.values()):
                    values = sorted(regrets(of_way(found, way)))
                    low, middle, high = (values[round(q * (len(values) - 1))] for q in (0.25, 0.5, 0.75))
                    if middle < math.inf:
                        at = place + 0.15 * (number - 1.5)
                        axes.plot([at, at], [low, min(high, 10 * middle + 1)], color=color)
                        axes.plot([at], [middle], mark, color=color, label=way if place == 0 else None)
            axes.set_xticks(range(len(own)), [f"{usd:g} usd\n{s / 3600:g} h" for _, usd, s in own])
            axes.set_ylabel("regret")
            axes.set_title(f"{pool}: median and quartiles; clusters of the others in hindsight")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(MARKS))

    write_svg(path, draw, width_in=7.5, height_in=1.9 * len(pools) + 0.5)
