"""Measures spot under a deadline: CSV and Markdown.

    python examples/spot --processes 2           1,000 seeds of everything, into examples/spot/results
    python examples/spot --seeds 20 --out DIR    20 seeds of each row, elsewhere

Everything follows from the seeds, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import Pool
from pathlib import Path

from cases import EXPERIMENTS, RATES, Case, case_of
from rows import Outcome, Row, outcome, read_csv, row_of, write_csv
from tables import write_table

from rb_core.hardware import MarketPolicy

SEEDS = 1000

POLICIES = (MarketPolicy.SPOT, MarketPolicy.SPOT_THEN_ON_DEMAND)


def _outcomes(case: Case, seeds: int, unannounced: float, processes: int) -> Sequence[Outcome]:
    run = partial(outcome, case, unannounced=unannounced)
    if processes == 1:
        return [run(seed) for seed in range(seeds)]
    with Pool(processes) as pool:
        return pool.map(run, range(seeds), chunksize=10)


def _rows(
    names: Sequence[str], rates: Sequence[float], seeds: int, unannounced: float, processes: int
) -> Iterator[Row]:
    for name in names:
        case = case_of(name, MarketPolicy.ON_DEMAND, 0.0)
        # Nothing varies on demand.
        yield row_of(case, _outcomes(case, 1, unannounced, 1), unannounced=unannounced)
        for rate in rates:
            for policy in POLICIES:
                case = case_of(name, policy, rate)
                yield row_of(case, _outcomes(case, seeds, unannounced, processes), unannounced=unannounced)


def main() -> None:
    """Measure what was asked for and write the results."""
    parser = argparse.ArgumentParser(prog="python examples/spot", description="Measure spot under a deadline.")
    parser.add_argument("--experiment", action="append", choices=list(EXPERIMENTS), help="only this (repeatable)")
    parser.add_argument("--rate", action="append", type=float, choices=RATES, help="only this rate (repeatable)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many of each row (default {SEEDS})")
    parser.add_argument("--unannounced", type=float, default=0.0, help="share of interruptions without notice")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument("--note", default="", help="a line for the table, such as machine and date")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder to write into")
    asked = parser.parse_args()
    whole = not asked.experiment and not asked.rate and asked.seeds == SEEDS and not asked.unannounced
    if not whole and asked.out == parser.get_default("out"):
        parser.error("a part of the measurement must not replace the whole: give --out")
    asked.out.mkdir(parents=True, exist_ok=True)
    began, table = time.perf_counter(), list[Row]()
    names, rates = asked.experiment or list(EXPERIMENTS), asked.rate or RATES
    for row in _rows(names, rates, asked.seeds, asked.unannounced, asked.processes):
        table.append(row)
        print(
            f"{row.experiment} {row.policy} {row.rate:g}/h after {time.perf_counter() - began:.0f} s: "
            f"{row.cheaper:.2f} times cheaper, {row.missed:.1%} late",
            file=sys.stderr,
            flush=True,
        )
        write_csv(table, asked.out / "spot.csv")
        # What is read from the file is rounded: so the rest follows from it to the last digit.
        write_table(read_csv(asked.out / "spot.csv"), asked.out / "spot.md", asked.note)


if __name__ == "__main__":
    main()
