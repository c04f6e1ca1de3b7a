"""How charts are drawn: the same bytes for the same figures, in colours that everybody can tell apart."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = PALETTE = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7",
)  # fmt: skip
"""Okabe and Ito's colours (Color Universal Design, 2008). Yellow is too pale for a line on white. Lines differ in
stroke or marker as well, for those who see no colours at all."""

GREY = "#777777"

CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""Colours of lines that name none, in this order."""

NOTE = "no chart: matplotlib is not installed; pip install 'rubberband-tune[report]'"


def write_svg(path: Path, draw: Callable[[Figure], None], *, width_in: float, height_in: float) -> bool:
    """Draw a chart.

    The bytes depend on what is drawn and on the version of matplotlib. Without matplotlib it says so on standard error,
    and no chart that was there before is left, since its figures may be others.

    Args:
        path: the SVG, which is replaced. Its folder is made where it is missing.
        draw: is given a new figure, with room made for legends outside of its axes.
        width_in: width in inches.
        height_in: height in inches.

    Returns:
        Whether there is a chart now.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.rcsetup import cycler
    except ModuleNotFoundError:
        print(NOTE, file=sys.stderr)
        path.unlink(missing_ok=True)
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # Somebody's own matplotlibrc must not show.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.hashsalt": "evaluation",
                "svg.fonttype": "none",
                "font.family": "DejaVu Sans",
                "font.size": 8,
                "axes.titlesize": 8,
                "axes.prop_cycle": cycler(color=CYCLE),
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.grid": True,
                "axes.grid.axis": "y",
                "grid.linewidth": 0.3,
                "lines.linewidth": 1.2,
                "lines.markersize": 4,
                "legend.frameon": False,
            }
        )
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        draw(figure)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    return True
