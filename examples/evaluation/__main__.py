"""Works out the table of examples/evaluation anew: CSV, Markdown and, with matplotlib, the chart.

    python examples/evaluation                     everything, into examples/evaluation/results
    python examples/evaluation --experiment NAME --cloud NAME --out DIR     a part of it, elsewhere

Nothing is sampled and nothing is measured, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from chart import write_chart
from rows import read_csv, worked_out, write_csv
from study import CLOUDS, EXPERIMENTS, cases
from tables import write_summary, write_table


def main() -> None:
    """Work out the cases that were asked for and write the results."""
    parser = argparse.ArgumentParser(prog="python examples/evaluation", description="Work out the table anew.")
    parser.add_argument("--experiment", action="append", choices=list(EXPERIMENTS), help="only this (repeatable)")
    parser.add_argument("--cloud", action="append", choices=list(CLOUDS), help="only this (repeatable)")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder to write into")
    asked = parser.parse_args()
    whole = not asked.experiment and not asked.cloud
    if not whole and asked.out == parser.get_default("out"):
        parser.error("a part of the table must not replace the whole: give --out")
    rows = []
    for case in cases():
        if case.experiment in (asked.experiment or EXPERIMENTS) and case.cloud in (asked.cloud or CLOUDS):
            began = time.perf_counter()
            rows += worked_out(case)
            taken_s = time.perf_counter() - began
            print(f"{case.experiment} {case.cloud} {case.workload}: {taken_s:.1f} s", file=sys.stderr)
    asked.out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, asked.out / "table.csv")
    # What is read from the file is rounded: so the rest follows from it to the last digit.
    rows = read_csv(asked.out / "table.csv")
    write_table(rows, asked.out / "table.md")
    write_summary(rows, asked.out / "summary.md")
    if find_spec("matplotlib"):
        write_chart(rows, asked.out / "chart.svg")
    else:
        print("no chart: matplotlib is not installed; install rubberband-tune[report]", file=sys.stderr)


if __name__ == "__main__":
    main()
