"""The chart: every run in its band, how its rank in the forecast is distributed, and coverage in rehearsals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chart import BLUE, GREY, SKY, VERMILION, write_svg

from .bands import AIM, Coverage
from .measured import Run
from .rehearsals import Covered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 10


def draw(runs: Sequence[Run], rows: Sequence[Covered], path: Path) -> None:
    """Draw it as SVG."""

    def figure(sheet: Figure) -> None:
        above, below = sheet.subfigures(2, 1, height_ratios=(3, 2), squeeze=False)[:, 0]
        _bands(above.subplots(), runs)
        left, middle, right = below.subplots(1, 3)
        _ranks(left, [row.jct_rank for row in runs], "time")
        _ranks(middle, [row.cost_rank for row in runs], "cost")
        _rehearsals(right, rows)

    write_svg(path, figure, width_in=8.5, height_in=6.0)


def _bands(axes: Axes, runs: Sequence[Run]) -> None:
    """Each run's band and what came, as multiples of its P50; outliers have another marker as well as colour."""
    for at, row in enumerate(runs):
        axes.plot([at, at], [row.jct_p10_s / row.jct_p50_s, row.jct_p90_s / row.jct_p50_s], color=SKY, linewidth=4)
    for inside, color, marker, name in ((True, BLUE, "o", "inside"), (False, VERMILION, "x", "outside")):
        found = [(at, row.jct_s / row.jct_p50_s) for at, row in enumerate(runs) if row.jct_inside is inside]
        axes.plot([at for at, _ in found], [y for _, y in found], marker, color=color, label=name)
    axes.axhline(1.0, color=GREY, linewidth=0.6)
    axes.set_ylabel("time / forecast P50")
    axes.set_xlabel("run, in the order of the table; bars from P10 to P90")
    axes.legend(loc="best")


def _ranks(axes: Axes, ranks: Sequence[float], what: str) -> None:
    """Even where forecasts are true; in the middle where they are too wide, at the ends where too narrow."""
    axes.hist(ranks, bins=BINS, range=(0.0, 1.0), color=BLUE, edgecolor="white")
    axes.axhline(len(ranks) / BINS, color=GREY, linestyle="--", linewidth=0.8)
    axes.set_xlabel(f"share of samples below the actual {what}")
    axes.set_ylabel("runs")


def _rehearsals(axes: Axes, rows: Sequence[Covered]) -> None:
    """Coverage of time over how far the profile is off, for forecasts that are told so and that are not."""
    true_cvs = sorted({row.true_cv for row in rows})
    for told, color, style in ((False, VERMILION, "--s"), (True, BLUE, "-o")):
        shares = []
        for true_cv in true_cvs:
            own = [row for row in rows if row.true_cv == true_cv and row.run_cv == (true_cv if told else 0.0)]
            shares.append(Coverage.counted(sum(r.jct_inside for r in own), sum(r.runs for r in own)))
        axes.errorbar(
            [100 * true_cv for true_cv in true_cvs],
            [100 * share.share for share in shares],
            yerr=[[100 * (s.share - s.low) for s in shares], [100 * (s.high - s.share) for s in shares]],
            fmt=style,
            color=color,
            label="told so" if told else "profile taken for sure",
            capsize=2,
        )
    axes.axhline(100 * AIM, color=GREY, linestyle=":", linewidth=0.8)
    axes.set_ylim(0, 100)
    axes.set_xlabel("profile off by (%)")
    axes.set_ylabel("rehearsals inside (%)")
    axes.legend(loc="lower left")
