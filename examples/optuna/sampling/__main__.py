"""Compares samplers over brackets of synchronous successive halving: CSV and Markdown.

    python examples/optuna/sampling                        50 seeds of everything, into examples/optuna/sampling/results
    python examples/optuna/sampling --lag slight --seeds 2 --out DIR

All samplers get the same problems, six brackets of 27 trials each, and so the same number of iterations. Everything
follows from the seeds and the version of Optuna.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import optuna
from brackets import SAMPLERS, losses_after_brackets
from curves import LAGS, Curves
from tables import Row, read_csv, write_csv, write_table

SEEDS = 50


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(prog="python examples/optuna/sampling", description="Compare samplers.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default {SEEDS})")
    parser.add_argument("--lag", action="append", choices=list(LAGS), help="only this (repeatable)")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder to write into")
    asked = parser.parse_args()
    if (asked.lag or asked.seeds != SEEDS) and asked.out == parser.get_default("out"):
        parser.error("a part of the measurement must not replace the whole: give --out")
    asked.out.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows = []
    for lag in asked.lag or LAGS:
        for name, sampler in SAMPLERS.items():
            began = time.perf_counter()
            for seed in range(asked.seeds):
                losses = losses_after_brackets(Curves.drawn(LAGS[lag], seed), sampler(seed))
                rows.append(Row(lag=lag, sampler=name, seed=seed, losses=tuple(losses)))
            print(f"{lag}, {name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    write_csv(rows, asked.out / "losses.csv")
    # What is read from the file is rounded: so the table follows from it to the last digit.
    write_table(read_csv(asked.out / "losses.csv"), asked.out / "samplers.md")


if __name__ == "__main__":
    main()
