"""Measuring the samplers, and writing what comes of them.

All get the same problems, six brackets of 27 trials each, and so the same number of iterations. Everything follows from
the seeds and the version of Optuna.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import optuna
from origin import made_by
from pool import each
from table import read_csv, write_csv

from .brackets import SAMPLERS, losses_after_brackets
from .curves import LAGS, Curves
from .tables import Row, page


def measure(out: Path, lags: Sequence[str], *, seeds: int, quick: bool) -> None:
    """Measure and write losses.csv and samplers.md.

    Args:
        out: a folder.
        lags: names of how much early rungs mislead.
        seeds: how many.
        quick: which command the page names.
    """
    rows: list[Row] = []
    for lag in lags:
        for sampler in SAMPLERS:
            for own in each(partial(_rows, lag, sampler), range(seeds)):
                rows += own
            print(f"{lag}, {sampler}", file=sys.stderr, flush=True)
    write_csv(out / "losses.csv", rows)
    write_page(out, quick=quick)


def write_page(out: Path, *, quick: bool) -> None:
    """What follows from losses.csv."""
    rows = read_csv(out / "losses.csv", Row)
    origin = made_by("sampling", quick=quick, seeds=f"seeds 0 to {max(row.seed for row in rows)} of everything")
    (out / "samplers.md").write_text(page(rows, origin), encoding="utf-8")


def _rows(lag: str, sampler: str, seed: int) -> list[Row]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    losses = losses_after_brackets(Curves.drawn(LAGS[lag], seed), SAMPLERS[sampler](seed))
    return [
        Row(lag=lag, sampler=sampler, seed=seed, bracket=bracket, loss=loss)
        for bracket, loss in enumerate(losses, start=1)
    ]
