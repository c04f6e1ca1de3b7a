"""How long a planner takes for SHA(64, 4, 508, 2) on up to 64 nodes of 4 slots.

    python examples/benchmarks/plan.py [planner] [noise] [repeats]

The deadline is 1.5 times the time of the fastest plan; `noise` is the coefficient of variation of every latency.
Prints one line of JSON.
"""

import dataclasses
import json
import statistics
import sys
import time

import numpy as np
import problems

from rb_core.expectation import expected
from rb_core.plan import Objective
from rb_core.planners.objective import resolve
from rb_plugins import make_manager


def measure(planner: str, noise: float, repeats: int) -> dict:
    """Plan `repeats` times, each time with a planner of its own."""
    factory = make_manager().planners().choose(planner, key="planner")
    problem = dataclasses.replace(
        problems.sha(noise=noise, trial_cv=4 * noise), objective=Objective(deadline_factor=1.5)
    )
    resolved = resolve(problem)
    taken_ms = []
    for _ in range(repeats):
        began = time.perf_counter()
        plan = factory().plan(resolved, np.random.default_rng(0))
        taken_ms.append((time.perf_counter() - began) * 1e3)
    jct_s, cost_usd = expected(resolved, plan)
    return {
        "benchmark": "plan",
        "planner": planner,
        "noise": noise,
        "repeats": repeats,
        "first_ms": round(taken_ms[0], 1),
        "median_ms": round(statistics.median(taken_ms), 1),
        "jct_s": round(jct_s, 1),
        "cost_usd": round(cost_usd, 2),
    }


if __name__ == "__main__":
    planner, noise, repeats = (*sys.argv[1:], *("exact", "0", "5")[len(sys.argv) - 1 :])
    print(json.dumps(measure(planner, float(noise), int(repeats))))
