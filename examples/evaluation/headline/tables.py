"""The table and its summary in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import groupby

from known import known
from table import markdown

from .rows import PLANNERS, Outcome, Row

MEASURED = ("static-1", "static", "static-beside", "greedy")
"""Planners that the exact one is compared with in the summary."""

NO_GAIN = 0.0005
"""Savings below this share are none."""


def summary(rows: Sequence[Row], origin: str) -> str:
    """A page of what the exact planner saves, by experiment, cloud and deadline, over the workloads."""
    parts = [
        "# What the exact planner saves",
        "Median (smallest to largest) over the workloads of the part of the other planner's cost that is saved. Where "
        "the other finds no plan in time for some, it is over the rest, whose number is given; *none* where it never "
        "does. The last column is what the exact plan costs above the lower bound.",
        origin,
        "## In all",
        _in_all(rows),
    ]
    for experiment, group in groupby(rows, key=lambda row: row.case.experiment):
        of_experiment = list(group)
        names = [name for name in planners_of(of_experiment) if name in MEASURED]
        cells = [
            [cloud, f"{factor:g}x", *(savings(panel, name) for name in names), above_bound(panel)]
            for _, cloud, factor, panel in by_panel(of_experiment)
        ]
        header = ["cloud", "deadline", *(f"against {name}" for name in names), "above bound"]
        parts += [f"## {experiment}", markdown(header, cells)]
    return "\n\n".join(parts) + "\n"


def _in_all(rows: Sequence[Row]) -> str:
    """Over all clouds, workloads and deadlines of an experiment."""
    cells = []
    for experiment, group in groupby(rows, key=lambda row: row.case.experiment):
        of_experiment = list(group)
        for name in planners_of(of_experiment):
            found = [saving for row in of_experiment if (saving := row.saving(name)) is not None]
            if name == "exact" or not found:
                continue
            nothing = sum(saving < NO_GAIN for saving in found)
            share = f"{len(found)} of {len(of_experiment)}"
            cells.append([experiment, name, _spread(found), share, str(nothing)])
    return markdown(["experiment", "against", "saved", "in time", f"no gain (below {100 * NO_GAIN:g} %)"], cells)


def table(rows: Sequence[Row], origin: str) -> str:
    """A page of all figures: for each case and deadline the time and cost of every planner."""
    parts = [
        "# The table",
        "Time in hours and cost in usd of the cheapest plan in time of each planner; a dash where it has none.",
        origin,
    ]
    for (experiment, cloud), group in groupby(rows, key=lambda row: (row.case.experiment, row.case.cloud)):
        of_panel = list(group)
        names = planners_of(of_panel)
        cells = [
            [
                row.case.workload,
                f"{row.deadline_factor:g}x = {row.deadline_s / 3600:.2f} h",
                *(_figures(row.outcomes[name]) for name in names),
                f"{row.lower_bound_usd:.2f}",
            ]
            for row in of_panel
        ]
        parts += [f"## {experiment} on {cloud}", markdown(["workload", "deadline", *names, "lower bound"], cells)]
    return "\n\n".join(parts) + "\n"


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
    return _spread([known(row.outcomes["exact"]).cost_usd / row.lower_bound_usd - 1.0 for row in rows])


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
