"""Kills the driver of a run on EC2's shim at many points, and looks whether anything is left; see the package."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pool

from crash_ec2 import After, Case, Condition, case_of, kill_points, outcome

MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one case: its number or name, where it was killed, what is wrong."""

    name: str
    condition: Condition
    killed_at: tuple[str, ...]
    problems: tuple[str, ...]


def judge(named: tuple[str, Case]) -> Verdict:
    """Let a case happen; an error of the run itself is a problem too."""
    logging.disable(logging.CRITICAL)
    name, case = named
    try:
        told = outcome(case)
    except Exception as error:
        return Verdict(
            name=name, condition=case.condition, killed_at=(), problems=(f"{type(error).__name__}: {error}",)
        )
    return Verdict(name=name, condition=case.condition, killed_at=told.killed_at, problems=told.problems)


def every() -> Iterator[tuple[str, Case]]:
    """Each kill point of each condition, resumed and collected in turn."""
    for condition in Condition:
        for spot in (False, True):
            steps = kill_points(Case(condition=condition, spot=spot))
            for number in range(len(steps)):
                after = list(After)[(number + spot) % 2]
                case = Case(condition=condition, spot=spot, fatal=(number,), after=after)
                yield repr(case), case


def main() -> int:
    """Kill as often as was asked for."""
    parser = argparse.ArgumentParser(prog="./dev crash", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many by chance (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default 0)")
    parser.add_argument("--every", action="store_true", help="every kill point of every condition instead")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    asked = parser.parse_args()
    numbers = range(asked.first, asked.first + asked.runs)
    cases = every() if asked.every else ((f"--first {number} --runs 1", case_of(number)) for number in numbers)
    began, runs, kills, broken = time.perf_counter(), 0, 0, Counter[Condition]()
    with Pool(asked.processes) as pool:
        for verdict in pool.imap_unordered(judge, cases, chunksize=4):
            runs += 1
            if runs % 100 == 0:
                print(f"{runs} runs, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
            kills += len(verdict.killed_at)
            if verdict.problems:
                broken[verdict.condition] += 1
                if sum(broken.values()) <= MOST_SHOWN:
                    print(
                        f"killed {', then '.join(verdict.killed_at) or 'nowhere'}: {'; '.join(verdict.problems)}\n"
                        f"  again: ./dev crash {verdict.name}",
                        flush=True,
                    )
    taken_s = time.perf_counter() - began
    by = ", ".join(f"{condition} {count}" for condition, count in broken.items())
    print(f"{runs} runs, {kills} kills, {sum(broken.values())} not sound ({by or 'none'}), {taken_s:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
