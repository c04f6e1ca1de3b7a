"""The table in Markdown, and above it what hurts."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby

from known import known
from table import markdown

from .rows import Row

NAMES = {"kept": "plan kept", "replanned": "re-planned", "static": "static"}

WORST = 10
"""How many rows are printed as those that hurt most."""

MEANINGS = (
    "*iterations*: all are believed to take so many times as long as they do",
    "*scaling*: so much of what several slots lose is not seen: 1 believes in perfect scaling, and below 0 more is "
    "feared than is lost",
    "*price*: g5.12xlarge is believed to cost so many times as much as it does",
    "*start*: nodes are believed to take so many times as long to launch and to join",
    "*noise*: spreads are believed to be so many times as large as they are (iterations 5 %, each by itself; "
    "configurations, launch and init 20 %); the means are known, and at 1 nothing is wrong",
)


def page(rows: Sequence[Row], origin: str) -> str:
    """What hurts, then everything."""
    parts = [
        "# Plans made from wrong figures",
        "A plan is made from what is believed, and carried out in the world as it is: by the real engine on a "
        "simulated cloud (g5, ResNet-50's scaling, as in the headline table). *Cost* is relative to the plan that is "
        "made from what is true, and kept; *end* is relative to the deadline (with noise the mean, and the share of "
        "late runs). *Static* is the best static cluster by what is believed, for Hyperband one for each bracket. "
        "*No plan*: by what is believed none is in time, so nothing is run.",
        origin,
        "\n".join(f"- {meaning}" for meaning in MEANINGS),
        "## What hurts",
        markdown(["wrong", "who", "cases", "no plan", "late", "latest end", "cost, median", "dearest"], _hurts(rows)),
        f"The {WORST} that hurt most with re-planning, by the share of late runs and then by cost:",
        markdown(["experiment", "deadline", "wrong", "believed", "cost", "late", "end"], _worst(rows)),
    ]
    for (experiment, factor), group in groupby(rows, key=lambda row: (row.experiment, row.deadline_factor)):
        parts += [f"## {experiment}, deadline {factor:g} times the fastest", _panel(list(group))]
    return "\n\n".join(parts) + "\n"


def _hurts(rows: Sequence[Row]) -> Iterable[Sequence[str]]:
    for wrong in dict.fromkeys(row.wrong for row in rows):
        for runner, name in NAMES.items():
            own = [row for row in rows if (row.wrong, row.runner) == (wrong, runner)]
            ran = [row for row in own if row.cost_usd is not None]
            if not ran:
                yield [wrong, name, str(len(own)), str(len(own)), "-", "-", "-", "-"]
                continue
            costs = [known(row.against_informed) for row in ran]
            yield [
                wrong,
                name,
                str(len(own)),
                str(len(own) - len(ran)),
                str(sum(known(row.late) > 0 for row in ran)),
                f"{max(known(row.latest) for row in ran):.2f}",
                f"{statistics.median(costs):.2f}",
                f"{max(costs):.2f}",
            ]


def _worst(rows: Sequence[Row]) -> Iterable[Sequence[str]]:
    own = [row for row in rows if row.runner == "replanned" and row.cost_usd is not None]
    own.sort(key=lambda row: (-known(row.late), -known(row.against_informed)))
    for row in own[:WORST]:
        yield [
            row.experiment,
            f"{row.deadline_factor:g}x",
            row.wrong,
            f"{row.factor:g}",
            f"{row.against_informed:.2f}",
            f"{row.late:.0%}",
            f"{row.latest:.2f}",
        ]


def _panel(rows: Sequence[Row]) -> str:
    header = ["wrong", "believed"]
    for name in NAMES.values():
        header += [f"{name}: cost", "end"]
    cells = []
    for (wrong, factor), group in groupby(rows, key=lambda row: (row.wrong, row.factor)):
        own = {row.runner: row for row in group}
        figures = [cell for runner in NAMES for cell in _figures(own[runner])]
        cells.append([wrong, f"{factor:g}", *figures, f"{own['replanned'].changes or 0:.1f}"])
    return markdown([*header, "changes of plan"], cells)


def _figures(row: Row) -> tuple[str, str]:
    if row.cost_usd is None:
        return "no plan", "-"
    late = f", {row.late:.0%} late" if row.seeds > 1 else (", late" if row.late else "")
    return f"{row.against_informed:.2f}", f"{known(row.jct_s) / row.deadline_s:.2f}{late}"
