"""What the rows come to, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from known import known
from table import markdown

from curves.rows import AS_RUN, CONFIDENCE, Row

OTHERS = ("static-1", "static", "greedy")


def group_of(row: Row) -> str:
    """What it is summed up under: the data sets of lcdb are one group."""
    pool = "lcdb" if row.pool.startswith("lcdb ") else row.pool
    return f"{pool}, {row.study}"


def grouped(rows: Iterable[Row]) -> dict[tuple[str, float], list[Row]]:
    """The rows by group and deadline."""
    found: dict[tuple[str, float], list[Row]] = {}
    for row in rows:
        found.setdefault((group_of(row), row.deadline_factor), []).append(row)
    return found


def written(rows: Sequence[Row], made: str, sources: Sequence[str]) -> str:
    """The page.

    Args:
        rows: all of them.
        made: what repeats them.
        sources: whose recordings they rest on.
    """
    parts = [
        "# Recorded learning curves, replayed",
        made,
        "Scores and times of every trial are recorded ones; the engine, on a simulated cloud, promotes, stops, rents "
        "and pays. Plans are made with a profile of four configurations' first iterations.",
        "Recorded by others, fetched and not kept here: " + "; ".join(sources) + ".",
        "## Forecast and actual",
        "What came out over what was forecast (its median), for the exact plan: carried out as it stands, and *as "
        "run*, with early release and planning anew. Each deadline is to be kept with a probability of "
        f"{CONFIDENCE:g}. Median, and in brackets the 10th and 90th percentile over the draws; *in the band* is the "
        "share of draws between the forecast's 10th and 90th percentile, which should be 80 %.",
        markdown(
            ["recorded", "deadline", "plan", "runs", "time", "in the band", "cost", "in the band", "in time"],
            list(_fidelity(rows)),
            "lrlrrrrrr",
        ),
        "## What it costs",
        "Actual cost of the exact plan over that of another planner's plan for the same draw, where both found one: "
        "median, and in brackets the quartiles; *cheaper* is the share of draws. Both as they stand, and *as run*. A "
        "plan that is late may be cheap, so beside it stands how many were in time.",
        markdown(
            [
                "recorded",
                "deadline",
                "against",
                "draws",
                "cost",
                "cheaper",
                "as run",
                "cheaper",
                "in time",
                "as run",
                "the other",
            ],
            list(_against(rows)),
            "lrlrrrrrrrr",
        ),
        "## What is chosen",
        "How much worse the chosen configuration is than the best one, after a whole training: median, quartiles and "
        "worst. It is the same for every plan without planning anew, since trials are compared at the same iterations "
        "whatever they run on.",
        markdown(
            ["recorded", "draws", "against the best drawn", "best drawn found", "against the best recorded"],
            list(_regret(rows)),
            "lrrrr",
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _fidelity(rows: Sequence[Row]) -> Iterable[list[str]]:
    for (group, factor), own in grouped(rows).items():
        for planner in ("exact", AS_RUN):
            runs = [row for row in own if row.planner == planner and row.actual_s is not None]
            if runs:
                yield [
                    group,
                    f"{factor:g}x",
                    planner,
                    str(len(runs)),
                    _spread([row.time_ratio for row in runs], (0.1, 0.9), "{:.2f}"),
                    _percent([row.time_inside for row in runs]),
                    _spread([row.cost_ratio for row in runs], (0.1, 0.9), "{:.2f}"),
                    _percent([row.cost_inside for row in runs]),
                    _percent([known(row.in_time) for row in runs]),
                ]


def pairs(own: Iterable[Row], one: str, other: str) -> list[tuple[Row, Row]]:
    """Of each draw and deadline the rows of two planners, where both found a plan."""
    found: dict[str, dict[tuple[str, str, int, float], Row]] = {one: {}, other: {}}
    for row in own:
        if row.planner in found and row.actual_s is not None:
            found[row.planner][row.pool, row.study, row.seed, row.deadline_factor] = row
    return [(row, found[other][draw]) for draw, row in found[one].items() if draw in found[other]]


def _against(rows: Sequence[Row]) -> Iterable[list[str]]:
    for (group, factor), own in grouped(rows).items():
        draws = len({(row.pool, row.seed) for row in own})
        for other in OTHERS:
            plain, as_run = pairs(own, "exact", other), pairs(own, AS_RUN, other)
            cells = [group, f"{factor:g}x", other, f"{len(plain)} of {draws}"]
            if plain and as_run:
                for both in (plain, as_run):
                    cells.append(_spread([a.cost_against(b) for a, b in both], (0.25, 0.75), "{:.3f}"))
                    cells.append(_percent([known(a.actual_usd) < known(b.actual_usd) for a, b in both]))
                cells += [_percent([known(a.in_time) for a, _ in both]) for both in (plain, as_run)]
                cells.append(_percent([known(b.in_time) for _, b in plain]))
            yield cells + ["-"] * (11 - len(cells))


def _regret(rows: Sequence[Row]) -> Iterable[list[str]]:
    chosen: dict[str, dict[tuple[str, int], Row]] = {}
    for row in rows:
        if row.planner == "exact" and row.actual_s is not None:
            chosen.setdefault(group_of(row), {})[row.pool, row.seed] = row
    for group, by_draw in chosen.items():
        own = list(by_draw.values())
        yield [
            group,
            str(len(own)),
            _with_worst([known(row.regret_drawn) for row in own]),
            _percent([known(row.regret_drawn) <= 0 for row in own]),
            _with_worst([known(row.regret_pool) for row in own]),
        ]


def _with_worst(values: Sequence[float]) -> str:
    return f"{_spread(values, (0.25, 0.75), '{:.3f}')}, worst {max(values):.3f}"


def _spread(values: Sequence[float], ends: tuple[float, float], form: str) -> str:
    # No negative zeros.
    low, middle, high = (
        form.format(round(value, 6) + 0.0) for value in np.quantile(values, (ends[0], 0.5, ends[1])).tolist()
    )
    return f"{middle} ({low} to {high})"


def _percent(truths: Sequence[bool]) -> str:
    return f"{100 * np.mean(truths):.0f} %"
