"""The table and its summary in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rows import PLANNERS, Outcome, Row

MEASURED = ("static-1", "static", "static-beside", "greedy")
"""Planners that the exact one is compared with in the summary."""


def write_summary(rows: Sequence[Row], path: Path) -> None:
    """What the exact planner saves, by experiment, cloud and deadline, over the workloads."""
    lines = [
        "# What the exact planner saves",
        "",
        "Median (smallest to largest) over the workloads of the part of the other planner's cost that is saved. Where "
        "the other finds no plan in time for some, it is over the rest, whose number is given; *none* where it never "
        "does. The last column is what the exact plan costs above the lower bound.",
    ]
    for experiment, group in groupby(rows, key=lambda row: row.case.experiment):
        of_experiment = list(group)
        names = [name for name in planners_of(of_experiment) if name in MEASURED]
        lines += ["", f"## {experiment}", ""]
        lines += head(["cloud", "deadline", *(f"against {name}" for name in names), "above bound"])
        for _, cloud, factor, panel in by_panel(of_experiment):
            cells = [cloud, f"{factor:g}x", *(savings(panel, name) for name in names), above_bound(panel)]
            lines.append(line(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_table(rows: Sequence[Row], path: Path) -> None:
    """All figures: for each case and deadline the time and cost of every planner."""
    lines = [
        "# The table",
        "",
        "Time in hours and cost in usd of the cheapest plan in time of each planner; a dash where it has none.",
    ]
    for (experiment, cloud), group in groupby(rows, key=lambda row: (row.case.experiment, row.case.cloud)):
        of_panel = list(group)
        names = planners_of(of_panel)
        lines += ["", f"## {experiment} on {cloud}", ""]
        lines += head(["workload", "deadline", *names, "lower bound"])
        for row in of_panel:
            deadline = f"{row.deadline_factor:g}x = {row.deadline_s / 3600:.2f} h"
            figures = [_figures(row.outcomes[name]) for name in names]
            lines.append(line([row.case.workload, deadline, *figures, f"{row.lower_bound_usd:.2f}"]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def planners_of(rows: Sequence[Row]) -> list[str]:
    """The planners, without `static-beside` where there is nothing to put beside each other."""
    alike = all(row.outcomes["static-beside"] == row.outcomes["static"] for row in rows)
    return [name for name in PLANNERS if not (alike and name == "static-beside")]


def by_panel(rows: Sequence[Row]) -> Iterator[tuple[str, str, float, list[Row]]]:
    """(experiment, cloud, deadline factor, its rows) in the order in which they first appear."""
    groups: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.case.experiment, row.case.cloud, row.deadline_factor), []).append(row)
    for key, group in groups.items():
        yield *key, group


def savings(rows: Sequence[Row], against: str) -> str:
    """Median and range of what the exact planner saves against another."""
    found = [saving for row in rows if (saving := row.saving(against)) is not None]
    return _spread(found) + (f", {len(found)} of {len(rows)}" if 0 < len(found) < len(rows) else "")


def above_bound(rows: Sequence[Row]) -> str:
    """Median and range of what the exact plan costs above the lower bound."""
    return _spread([row.outcomes["exact"].cost_usd / row.lower_bound_usd - 1.0 for row in rows])


def _spread(fractions: Sequence[float]) -> str:
    if not fractions:
        return "none"
    low, middle, high = (_percent(f) for f in (min(fractions), statistics.median(fractions), max(fractions)))
    return f"{middle} % ({low} to {high})" if low != high else f"{middle} %"


def _percent(fraction: float) -> str:
    """With one decimal, and never a negative zero."""
    return f"{round(100 * fraction, 1) + 0.0:.1f}"


def _figures(outcome: Outcome | None) -> str:
    return "-" if outcome is None else f"{outcome.jct_s / 3600:.2f} h {outcome.cost_usd:.2f}"


def head(cells: Sequence[str]) -> list[str]:
    """The first two lines of a table in Markdown."""
    return [line(cells), line(["---"] * len(cells))]


def line(cells: Sequence[str]) -> str:
    """One line of it."""
    return "| " + " | ".join(cells) + " |"
