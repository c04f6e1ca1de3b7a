"""Measures re-planning against an oracle: CSV and Markdown.

    python examples/replanning                     1,000 seeds of everything, into examples/replanning/results
    python examples/replanning --quick --out DIR   20 seeds of each row, elsewhere
    python examples/replanning --problem NAME --factor 2 --seeds 50 --out DIR

Everything follows from the seeds, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path

from cases import DEADLINE_FACTORS, PROBLEMS
from rows import Row, case_of, read_csv, row_of, write_csv
from tables import write_table

SEEDS = 1000
QUICK_SEEDS = 20


def _row(asked: tuple[str, float, int]) -> Row:
    name, factor, seeds = asked
    return row_of(case_of(name, factor), seeds)


def _rows(asked: Sequence[tuple[str, float, int]], processes: int) -> Iterator[Row]:
    if processes == 1:
        yield from map(_row, asked)
    else:
        with Pool(processes) as pool:
            yield from pool.imap(_row, asked, chunksize=1)


def main() -> None:
    """Measure what was asked for and write the results."""
    parser = argparse.ArgumentParser(prog="python examples/replanning", description="Measure re-planning.")
    parser.add_argument("--problem", action="append", choices=list(PROBLEMS), help="only this (repeatable)")
    parser.add_argument("--factor", action="append", type=float, choices=DEADLINE_FACTORS, help="only this deadline")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many of each row (default {SEEDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds")
    parser.add_argument("--processes", type=int, default=1, help="rows at a time (default 1)")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder to write into")
    asked = parser.parse_args()
    seeds = QUICK_SEEDS if asked.quick else asked.seeds
    whole = not asked.problem and not asked.factor and seeds == SEEDS
    if not whole and asked.out == parser.get_default("out"):
        parser.error("a part of the measurement must not replace the whole: give --out")
    asked.out.mkdir(parents=True, exist_ok=True)
    began, table = time.perf_counter(), []
    names, factors = asked.problem or PROBLEMS, asked.factor or DEADLINE_FACTORS
    for row in _rows([(name, factor, seeds) for name in names for factor in factors], asked.processes):
        table.append(row)
        print(
            f"{row.problem} {row.deadline_factor:g}x after {time.perf_counter() - began:.0f} s: in time in "
            f"{row.replanned_met:.1%} of what the oracle is, at {row.replanned_ratio:.3f} times its cost",
            file=sys.stderr,
            flush=True,
        )
        write_csv(table, asked.out / "replanning.csv")
        # What is read from the file is rounded: so the rest follows from it to the last digit.
        write_table(read_csv(asked.out / "replanning.csv"), asked.out / "replanning.md")


if __name__ == "__main__":
    main()
