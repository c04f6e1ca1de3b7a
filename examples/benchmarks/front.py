"""How long the exact planner takes for a job's whole front, and the most memory that this process ever held.

    python examples/benchmarks/front.py [large|wide] [repeats]

Prints one line of JSON.
"""

import json
import resource
import statistics
import sys
import time

import problems

from rb_core.expectation import ExpectedModel
from rb_core.planners.exact import front

JOBS = {"large": problems.large(noise=0.0, trial_cv=0.0), "wide": problems.wide()}


def measure(job: str, repeats: int) -> dict:
    """Work the front out `repeats` times, each time from nothing."""
    taken_ms = []
    for _ in range(repeats):
        began = time.perf_counter()
        plans = front(ExpectedModel(JOBS[job]))
        taken_ms.append((time.perf_counter() - began) * 1e3)
    return {
        "benchmark": "front",
        "job": job,
        "repeats": repeats,
        "plans": len(plans),
        "first_ms": round(taken_ms[0], 1),
        "ms": {"min": round(min(taken_ms), 1), "median": round(statistics.median(taken_ms), 1)},
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
    }


if __name__ == "__main__":
    job, repeats = (*sys.argv[1:], *("large", "5")[len(sys.argv) - 1 :])
    print(json.dumps(measure(job, int(repeats))))
