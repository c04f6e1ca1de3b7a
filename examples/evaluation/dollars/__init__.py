"""The best model for equal dollars: ours against SHA and ASHA on fixed clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from curves import learner_pools, openclip_pools
from curves.fetch import LCDB, SCAN_BENCH
from curves.recordings import Pool
from origin import made_by
from pool import each
from table import read_csv, write_csv

from dollars.choices import Choice, chosen
from dollars.picture import write_chart
from dollars.purse import Purse
from dollars.rows import Case, Row, worked_out
from dollars.tables import written

TITLE = "The best model for equal dollars"

HOUR_S = 3600.0

SEEDS = "seeds from 0 on, one a draw of configurations"

DRAWS, QUICK_DRAWS = 60, 5

PURSES = {
    "OpenCLIP 8 epochs": [(usd, hours) for usd in (200.0, 500.0, 1000.0) for hours in (3.0, 8.0)],
    "OpenCLIP 9 epochs": [(usd, hours) for usd in (200.0, 500.0, 1000.0) for hours in (3.0, 8.0)],
    "OpenCLIP 4 epochs": [(usd, hours) for usd in (60.0, 150.0, 400.0) for hours in (2.0, 5.0)],
    "lcdb": [(0.06, 0.5), (0.12, 0.5), (0.25, 0.15)],
}
"""Dollars and hours, by pool."""

PROFILING_S = {"OpenCLIP": 600.0, "lcdb": 60.0}
"""What profiling takes of ours, on one node. Of OpenCLIP a profile takes steps, and waits for no epoch."""

DATA_SETS = ("lcdb 41027", "lcdb 396", "lcdb 41142")
"""A game's positions, a collection of documents and a table of the AutoML challenge."""

QUICK = {"OpenCLIP 8 epochs": [(500.0, 3.0)], "OpenCLIP 4 epochs": [(150.0, 2.0)], "lcdb 41027": [(0.12, 0.5)]}
"""What is looked at quickly."""


def run(out: Path, *, quick: bool) -> None:
    """Tune with every purse and write `dollars.csv`, `choices.csv`, `dollars.md` and `dollars.svg`.

    Args:
        out: folder to write into.
        quick: fewer purses and fewer draws.

    Raises:
        RecordingMissing: the recordings cannot be fetched.
    """
    seeds = range(QUICK_DRAWS if quick else DRAWS)
    draws = [(case, seed) for case in cases(quick=quick) for seed in seeds]
    rows = [row for own in each(_drawn, draws) for row in own]
    kept, choices = chosen(rows)
    write_csv(out / "dollars.csv", kept)
    write_csv(out / "choices.csv", choices)
    # What is read from the files is rounded: so the rest follows from them to the last digit.
    kept, choices = read_csv(out / "dollars.csv", Row), read_csv(out / "choices.csv", Choice)
    made = made_by("dollars", quick=quick, seeds=SEEDS)
    page = written(kept, choices, made, [str(SCAN_BENCH), str(LCDB)])
    (out / "dollars.md").write_text(page, encoding="utf-8")
    write_chart(kept, out / "dollars.svg")


def cases(*, quick: bool) -> Iterator[Case]:
    """Every pool with each of its purses."""
    for pool in [*openclip_pools(), *(pool for pool in learner_pools() if pool.name in DATA_SETS)]:
        for usd, hours in _purses(pool, quick=quick):
            profiling_s = PROFILING_S[pool.name.partition(" ")[0]]
            yield Case(
                pool=pool, purse=Purse(budget_usd=usd, deadline_s=HOUR_S * hours), profiling_s=profiling_s
            )  # fmt: skip


def _drawn(draw: tuple[Case, int]) -> list[Row]:
    return list(worked_out(*draw))


def _purses(pool: Pool, *, quick: bool) -> Sequence[tuple[float, float]]:
    if quick:
        return QUICK.get(pool.name, ())
    return PURSES.get(pool.name) or PURSES[pool.name.partition(" ")[0]]
