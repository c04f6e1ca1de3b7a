"""Recorded learning curves, replayed through the whole engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from origin import made_by
from pool import each
from table import read_csv, write_csv

from curves import learners, openclip
from curves.fetch import LCDB, SCAN_BENCH, opened
from curves.picture import write_chart
from curves.recordings import Pool
from curves.rows import Row, Study, worked_out
from curves.tables import written
from rb_core.spec import ExperimentSpec

TITLE = "Recorded learning curves"

SEEDS = "seeds from 0 on, one a draw of configurations"

DRAWS = {"OpenCLIP": (50, 3), "lcdb": (5, 1)}
"""Of each pool, in full and quick."""

QUICK_DATA_SETS = 4


def run(out: Path, *, quick: bool) -> None:
    """Replay all studies and write `curves.csv`, `curves.md` and `curves.svg`.

    Args:
        out: folder to write into.
        quick: fewer draws, and fewer data sets.

    Raises:
        RecordingMissing: the recordings cannot be fetched.
    """
    draws = [(study, seed) for study, seeds in studies(quick=quick) for seed in range(seeds)]
    rows = [row for own in each(_drawn, draws) for row in own]
    write_csv(out / "curves.csv", rows)
    # What is read from the file is rounded: so the rest follows from it to the last digit.
    rows = read_csv(out / "curves.csv", Row)
    made = made_by("curves", quick=quick, seeds=SEEDS)
    (out / "curves.md").write_text(written(rows, made, [str(SCAN_BENCH), str(LCDB)]), encoding="utf-8")
    write_chart(rows, out / "curves.svg")


def studies(*, quick: bool) -> Iterator[tuple[Study, int]]:
    """Each with its number of draws."""
    eight, nine, four = openclip_pools()
    for name, pool, experiment in (
        ("SHA(32,1,8,2)", eight, eight.experiment(32)),
        ("SHA(27,1,9,3)", nine, nine.experiment(27)),
        ("Hyperband(9,3)", nine, ExperimentSpec.hyperband(R=9, eta=3)),
        ("SHA(32,1,4,2)", four, four.experiment(32)),
    ):
        yield Study(name=name, pool=pool, experiment=experiment), DRAWS["OpenCLIP"][quick]
    data_sets = learner_pools()
    for pool in data_sets[:QUICK_DATA_SETS] if quick else data_sets:
        yield Study(name="SHA of 16", pool=pool, experiment=pool.experiment(16)), DRAWS["lcdb"][quick]


def _drawn(draw: tuple[Study, int]) -> list[Row]:
    return list(worked_out(*draw))


def openclip_pools() -> list[Pool]:
    """The pools of scan-bench."""
    with opened(SCAN_BENCH) as table:
        return openclip.pools(table)


def learner_pools() -> list[Pool]:
    """The pools of lcdb."""
    with opened(LCDB) as table:
        return learners.pools(table)
