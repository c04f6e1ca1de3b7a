"""Compares the means of many rehearsals without faults with those of the simulation, case by case.

    python examples/rehearsal/means.py              5,000 seeds of every case in tests/cases

Scores are synthetic here, so it is another trial that goes on in each run, and the two agree in distribution alone: a
mean may be off by 4 standard errors. The exit status is 1 when one is off by more.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

from rb_core.sim.rehearsal import rehearse
from rb_core.simulate import simulate
from rb_plugins.config.plan import read_plan
from rb_plugins.config.problem import read_problem

CASES = Path(__file__).parents[2] / "tests" / "cases"
SAMPLES = 100_000
MOST_ERRORS = 4.0


def main() -> int:
    """Compare them all."""
    parser = argparse.ArgumentParser(prog="python examples/rehearsal/means.py", description="Compare the means.")
    parser.add_argument("--seeds", type=int, default=5000, help="rehearsals of each case (default 5000)")
    asked, missed = parser.parse_args(), 0
    for path in sorted(CASES.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        problem = read_problem(case["problem"], folder=CASES, price_books={}.__getitem__)
        plan = read_plan(case.get("plan") or {"stages": case["optimum"]["a_plan"]}, problem).plan
        rehearsal = rehearse(problem, plan, seeds=range(asked.seeds))
        estimate = simulate(problem, plan, samples=SAMPLES, rng=np.random.default_rng(asked.seeds))
        for key in ("jct_s", "cost_usd"):
            got, wanted = getattr(rehearsal, key), getattr(estimate, key)
            error = math.sqrt(got.var() / len(got) + wanted.var() / len(wanted))
            off = abs(got.mean() - wanted.mean())
            missed += off > MOST_ERRORS * error + 1e-6
            errors = f"{off / error:.2f} standard errors" if error > 1e-9 else f"{off:.2g}"
            print(f"{path.stem} {key}: rehearsed {got.mean():.6g}, simulated {wanted.mean():.6g}, off by {errors}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
