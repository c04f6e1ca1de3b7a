"""Measuring some of the cases, and writing what comes of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from origin import made_by
from pool import each
from table import read_csv, write_csv

from .cases import Case
from .chart import write_chart
from .rows import Row, rows_of
from .tables import page


def measure(
    out: Path,
    experiments: Sequence[str],
    deadline_factors: Sequence[float],
    errors: Mapping[str, Sequence[float]],
    *,
    seeds: int,
    quick: bool,
) -> None:
    """Measure and write sensitivity.csv and what follows from it.

    Args:
        out: a folder.
        experiments: names of those that are asked for.
        deadline_factors: deadlines, as multiples of the time of the fastest plan.
        errors: what is wrong, and how far.
        seeds: how many where something varies.
        quick: which command the page names.
    """
    cases = [
        Case(experiment=experiment, deadline_factor=deadline_factor, wrong=wrong, factor=factor)
        for experiment in experiments
        for deadline_factor in deadline_factors
        for wrong, factors in errors.items()
        for factor in factors
    ]
    rows: list[Row] = []
    for case, own in zip(cases, each(partial(rows_of, seeds=seeds), cases), strict=True):
        rows += own
        where = f"{case.experiment} {case.deadline_factor:g}x"
        print(f"{where} {case.wrong} {case.factor:g}", file=sys.stderr, flush=True)
    write_csv(out / "sensitivity.csv", rows)
    write_page(out, quick=quick)


def write_page(out: Path, *, quick: bool) -> None:
    """What follows from sensitivity.csv."""
    rows = read_csv(out / "sensitivity.csv", Row)
    last = max(row.seeds for row in rows) - 1
    seeds = f"seeds 0 to {last} where there is noise, and no chance elsewhere"
    origin = made_by("sensitivity", quick=quick, seeds=seeds)
    (out / "sensitivity.md").write_text(page(rows, origin), encoding="utf-8")
    write_chart(rows, out / "sensitivity.svg")
