"""Rehearses random small problems under random faults, and checks every invariant after each run.

    python examples/rehearsal                        100,000 runs
    python examples/rehearsal --first 17 --runs 1    the run of that number again

The exit status is 1 when an invariant was broken; the command that repeats the run is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from multiprocessing import Pool

from rb_core.errors import RubberBandError
from rb_core.sim.trouble import trouble

MOST_SHOWN = 20


def problem_of(number: int, *, replan: bool) -> tuple[int, str]:
    """What was amiss in the run of that number; nothing for a sound one."""
    try:
        trouble(number, replan=replan).rehearse()
    except RubberBandError as error:
        return number, str(error)
    except Exception as error:
        return number, f"{type(error).__name__}: {error}"
    return number, ""


def main() -> int:
    """Rehearse what was asked for."""
    parser = argparse.ArgumentParser(prog="./dev rehearse", description="Rehearse random problems under faults.")
    parser.add_argument("--runs", type=int, default=100_000, help="how many (default 100000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default 0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--replan", action="store_true", help="let the engine plan the rest anew (slow)")
    asked = parser.parse_args()
    option = " --replan" if asked.replan else ""
    began, broken = time.perf_counter(), 0
    numbers = range(asked.first, asked.first + asked.runs)
    with Pool(asked.processes) as pool:
        for number, problem in pool.imap_unordered(partial(problem_of, replan=asked.replan), numbers, chunksize=20):
            if problem:
                broken += 1
                if broken <= MOST_SHOWN:
                    print(
                        f"run {number}: {problem}\n  again: ./dev rehearse --first {number} --runs 1{option}",
                        flush=True,
                    )
    taken_s = time.perf_counter() - began
    print(f"{asked.runs} runs in {taken_s:.0f} s, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
