"""The study: real runs, rehearsals, and the pages that follow from their files."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from origin import made_by
from table import read_csv, write_csv

from .cases import Case, cases, quick_cases
from .measured import Run, measured
from .picture import draw
from .rehearsals import PROBLEMS, TRUE_CVS, Covered, Rehearsed, covered, rehearsed
from .tables import of_rehearsals, of_runs

SEEDS, QUICK_SEEDS = 200, 40
"""Rehearsals of each problem and true factor's spread."""


def study(out: Path, *, quick: bool) -> None:
    """Measure, rehearse, and write everything.

    Args:
        out: a folder.
        quick: whether it is the small one.
    """
    rehearse(out, QUICK_SEEDS if quick else SEEDS)
    measure(out, quick_cases() if quick else cases())
    write_pages(out, quick=quick)


def measure(out: Path, chosen: Sequence[Case]) -> None:
    """Make real runs and write runs.csv, anew after each run."""
    rows: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="fidelity-") as home:
        for row in measured(chosen, Path(home)):
            rows.append(row)
            write_csv(out / "runs.csv", rows)
            print(told(row, len(chosen) - len(rows)), file=sys.stderr, flush=True)


def rehearse(out: Path, seeds: int) -> None:
    """Rehearse and write rehearsals.csv and covered.csv."""
    every: list[Rehearsed] = []
    rows: list[Covered] = []
    for true_cv in TRUE_CVS:
        for name in PROBLEMS:
            own = list(rehearsed(name, true_cv, seeds))
            every += own
            rows += [covered(name, own, run_cv=run_cv) for run_cv in dict.fromkeys((0.0, true_cv))]
    write_csv(out / "rehearsals.csv", every)
    write_csv(out / "covered.csv", rows)


def write_pages(out: Path, *, quick: bool) -> None:
    """What follows from the files: runs.md, rehearsals.md and fidelity.svg."""
    runs, rows = read_csv(out / "runs.csv", Run), read_csv(out / "covered.csv", Covered)
    origin = made_by(
        "fidelity", quick=quick, seeds="each row of the files has its seeds and the command that repeats it"
    )
    (out / "runs.md").write_text(of_runs(runs, origin), encoding="utf-8")
    (out / "rehearsals.md").write_text(of_rehearsals(rows, origin), encoding="utf-8")
    draw(runs, rows, out / "fidelity.svg")


def told(row: Run, left: int) -> str:
    """A run in one line."""
    return (
        f"{row.name}: {row.jct_s:.1f} s of {row.jct_p10_s:.1f} to {row.jct_p90_s:.1f} s, "
        f"{'inside' if row.jct_inside else 'outside'}; iterations {row.iteration_ratio:.2f} times the profile's; "
        f"{left} left"
    )
