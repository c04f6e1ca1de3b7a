"""Measuring some of the cases, and writing what comes of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from origin import made_by
from pool import each
from table import read_csv, write_csv

from rb_core.hardware import MarketPolicy

from .cases import case_of
from .rows import Row, outcome, row_of
from .tables import page

POLICIES = (MarketPolicy.SPOT, MarketPolicy.SPOT_THEN_ON_DEMAND)

SILENT_RATE = 0.6
"""The rate at which it is also measured what comes of it when no interruption is announced."""


def measure(out: Path, experiments: Sequence[str], rates: Sequence[float], *, seeds: int, quick: bool) -> None:
    """Measure and write spot.csv and spot.md.

    Args:
        out: a folder.
        experiments: names of those that are asked for.
        rates: interruptions of each node and hour.
        seeds: how many of each row.
        quick: which command the page names.
    """
    table = []
    for row in _rows(experiments, rates, seeds):
        table.append(row)
        print(
            f"{row.experiment} {row.policy} {row.rate:g}/h: {row.cheaper:.2f} times cheaper, {row.missed:.1%} late",
            file=sys.stderr,
            flush=True,
        )
    write_csv(out / "spot.csv", table)
    write_page(out, quick=quick)


def write_page(out: Path, *, quick: bool) -> None:
    """What follows from spot.csv."""
    table = read_csv(out / "spot.csv", Row)
    origin = made_by("spot", quick=quick, seeds=f"seeds 0 to {max(row.seeds for row in table) - 1} of every row")
    (out / "spot.md").write_text(page(table, origin), encoding="utf-8")


def _rows(experiments: Sequence[str], rates: Sequence[float], seeds: int) -> Iterator[Row]:
    for experiment in experiments:
        # Nothing varies on demand.
        yield _row(experiment, MarketPolicy.ON_DEMAND, 0.0, 1)
        for rate in rates:
            for policy in POLICIES:
                yield _row(experiment, policy, rate, seeds)
        if SILENT_RATE in rates:
            yield _row(experiment, MarketPolicy.SPOT_THEN_ON_DEMAND, SILENT_RATE, seeds, unannounced=1.0)


def _row(experiment: str, policy: MarketPolicy, rate: float, seeds: int, *, unannounced: float = 0.0) -> Row:
    case = case_of(experiment, policy, rate)
    outcomes = list(each(partial(outcome, case, unannounced=unannounced), range(seeds)))
    return row_of(case, outcomes, unannounced=unannounced)
