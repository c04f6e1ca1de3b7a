"""Measuring some of the cases, and writing what comes of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from origin import made_by
from pool import each
from table import read_csv, write_csv

from .rows import Row, case_of, outcomes_of, row_of
from .tables import page


def measure(out: Path, problems: Sequence[str], factors: Sequence[float], *, seeds: int, quick: bool) -> None:
    """Measure and write replanning.csv and replanning.md.

    Args:
        out: a folder.
        problems: names of those that are asked for.
        factors: deadlines, as multiples of the time of the fastest plan.
        seeds: how many of each row.
        quick: which command the page names.
    """
    table = []
    for problem in problems:
        for factor in factors:
            case = case_of(problem, factor)
            row = row_of(case, list(each(partial(outcomes_of, case), range(seeds))))
            table.append(row)
            print(
                f"{row.problem} {row.deadline_factor:g}x: in time in {row.replanned_met:.1%} of what the oracle is, at "
                f"{row.replanned_ratio:.3f} times its cost",
                file=sys.stderr,
                flush=True,
            )
    write_csv(out / "replanning.csv", table)
    write_page(out, quick=quick)


def write_page(out: Path, *, quick: bool) -> None:
    """What follows from replanning.csv."""
    table = read_csv(out / "replanning.csv", Row)
    origin = made_by("replanning", quick=quick, seeds=f"seeds 0 to {table[0].seeds - 1} of every row")
    (out / "replanning.md").write_text(page(table, origin), encoding="utf-8")
