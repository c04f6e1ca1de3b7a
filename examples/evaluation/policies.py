"""Works out anew what the policies before a barrier gain: results/policies.csv and results/policies.md.

    python examples/evaluation/policies.py         everything, into examples/evaluation/results
    python examples/evaluation/policies.py --experiment NAME --cloud NAME --out DIR     a part of it, elsewhere

Samples have fixed seeds, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from gains import Gains, gains, read_csv, write_csv
from study import CLOUDS, EXPERIMENTS, cases
from tables import head, line


def write_page(rows: Sequence[Gains], path: Path) -> None:
    """All policies, by experiment, cloud and deadline."""
    lines = [
        "# What the policies before a barrier gain",
        "",
        "Of the exact planner's plans. *Noise*: iterations vary by 5 % (each by itself), configurations by 20 % in "
        "speed, launch and init by 20 %; plans are chosen for that.",
        "",
        "## In all",
        "",
        *head(["policy", "what it saves", "rows", "median", "largest"]),
    ]
    growing = [row for row in rows if row.grows]
    for policy, what, of, value in (
        ("early release", "cost", rows, lambda row: row.early),
        ("early release", "cost, with noise", rows, lambda row: row.noisy_early),
        ("prefetch", "cost at most, where nodes are added later", growing, lambda row: row.prefetch_usd),
        ("prefetch", "time at most, where nodes are added later", growing, lambda row: row.prefetch_time),
        ("prefetch", "cost at most, all rows", rows, lambda row: row.prefetch_usd),
        ("prefetch", "cost at most, all rows, plans chosen for it", rows, lambda row: row.prefetch_planned),
        ("early promotion", "time at most, with noise", rows, lambda row: row.promote_time),
        ("early promotion", "cost at most, with noise, alone", rows, lambda row: row.promote_usd),
        ("early promotion", "cost, with noise, beside early release", rows, lambda row: row.promote_beside),
    ):
        lines.append(line([policy, what, str(len(of)), *_middle_and_most(of, value)]))
    lines += ["", "Saved seconds of prefetch, where nodes are added later: " + _seconds(growing)]
    lines += [
        "",
        "## Early release, by panel",
        "",
        "Means over the workloads of the part of the cost that is saved; with noise over 1,000 samples under common "
        "random numbers, with 95 % confidence intervals.",
    ]
    for experiment, group in groupby(rows, key=lambda row: row.experiment):
        lines += ["", f"### {experiment}", ""]
        lines += head(["cloud", "deadline", "nothing varies", "with noise"])
        for (cloud, factor), panel in _panels(list(group)):
            half = float(np.sqrt(sum(row.noisy_early_95**2 for row in panel))) / len(panel)
            cells = [_percent(_mean(panel, "early")), f"{_percent(_mean(panel, 'noisy_early'))} +- {_percent(half, 2)}"]
            lines.append(line([cloud, f"{factor:g}x", *cells]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _panels(rows: Sequence[Gains]) -> Iterator[tuple[tuple[str, float], list[Gains]]]:
    groups: dict[tuple[str, float], list[Gains]] = {}
    for row in rows:
        groups.setdefault((row.cloud, row.deadline_factor), []).append(row)
    yield from groups.items()


def _mean(rows: Sequence[Gains], key: str) -> float:
    return statistics.fmean(getattr(row, key) for row in rows)


def _middle_and_most(rows: Sequence[Gains], value: Callable[[Gains], float]) -> tuple[str, str]:
    values = [value(row) for row in rows]
    return (_percent(statistics.median(values), 2), _percent(max(values), 2)) if values else ("-", "-")


def _seconds(rows: Sequence[Gains]) -> str:
    values = [row.prefetch_s for row in rows]
    return f"median {statistics.median(values):.0f}, largest {max(values):.0f}." if values else "none does."


def _percent(fraction: float, digits: int = 1) -> str:
    return f"{round(100 * fraction, digits) + 0.0:.{digits}f} %"


def main() -> None:
    """Work out the cases that were asked for and write the results."""
    parser = argparse.ArgumentParser(
        prog="python examples/evaluation/policies.py", description="Work out the policies' gains anew."
    )
    parser.add_argument("--experiment", action="append", choices=list(EXPERIMENTS), help="only this (repeatable)")
    parser.add_argument("--cloud", action="append", choices=list(CLOUDS), help="only this (repeatable)")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder to write into")
    asked = parser.parse_args()
    if (asked.experiment or asked.cloud) and asked.out == parser.get_default("out"):
        parser.error("a part of the figures must not replace the whole: give --out")
    rows: list[Gains] = []
    for case in cases():
        if case.experiment in (asked.experiment or EXPERIMENTS) and case.cloud in (asked.cloud or CLOUDS):
            began = time.perf_counter()
            rows += gains(case)
            taken_s = time.perf_counter() - began
            print(f"{case.experiment} {case.cloud} {case.workload}: {taken_s:.1f} s", file=sys.stderr)
    asked.out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, asked.out / "policies.csv")
    write_page(read_csv(asked.out / "policies.csv"), asked.out / "policies.md")


if __name__ == "__main__":
    main()
