"""Working out some of the cases, and writing what they come to."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from origin import made_by
from pool import each
from table import read_csv, write_csv

from .cases import Case, cases
from .chart import write_chart
from .gains import SAMPLES, SEED, Gains, gains
from .policies import page
from .rows import Line, lines_of, rows_of, worked_out
from .tables import summary, table


def work_out(out: Path, experiments: Collection[str], clouds: Collection[str], *, quick: bool) -> None:
    """Work out the table and the policies.

    Args:
        out: a folder.
        experiments: names of those that are asked for.
        clouds: likewise.
        quick: which command the pages name.
    """
    asked = [case for case in cases() if case.experiment in experiments and case.cloud in clouds]
    rows = []
    for case, own in zip(asked, each(worked_out, asked), strict=True):
        rows += own
        _tell(case, "planned")
    write_csv(out / "table.csv", lines_of(rows))
    write_table_pages(out, quick=quick)
    gained: list[Gains] = []
    for case, of_case in zip(asked, each(gains, asked), strict=True):
        gained += of_case
        _tell(case, "policies")
    write_csv(out / "policies.csv", gained)
    write_policies_page(out, quick=quick)


def write_table_pages(out: Path, *, quick: bool) -> None:
    """What follows from table.csv, whose figures are rounded: so all the rest follows from it to the last digit."""
    rows = rows_of(read_csv(out / "table.csv", Line))
    origin = made_by("headline", quick=quick, seeds="nothing is sampled, so there is no seed")
    (out / "table.md").write_text(table(rows, origin), encoding="utf-8")
    (out / "summary.md").write_text(summary(rows, origin), encoding="utf-8")
    write_chart(rows, out / "chart.svg")


def write_policies_page(out: Path, *, quick: bool) -> None:
    """What follows from policies.csv."""
    rows: Sequence[Gains] = read_csv(out / "policies.csv", Gains)
    origin = made_by("headline", quick=quick, seeds=f"seed {SEED} of {SAMPLES:,} samples of each plan")
    (out / "policies.md").write_text(page(rows, origin), encoding="utf-8")


def _tell(case: Case, what: str) -> None:
    print(f"{case.experiment} {case.cloud} {case.workload}: {what}", file=sys.stderr, flush=True)
