"""How long one rehearsal takes: the real engine on a manual clock against the simulated cloud, invariants checked.

    python examples/benchmarks/rehearse.py [sha|large] [repeats]

Prints one line of JSON.
"""

import json
import statistics
import sys
import time

import problems

from rb_core.sim.rehearsal import rehearse_once

JOBS = {
    "sha": (problems.sha(), {"instance_type": "four", "nodes": 16}),
    "large": (problems.large(), {"instance_type": "eight", "nodes": 32}),
}


def measure(job: str, repeats: int) -> dict:
    """Rehearse `repeats` times, each time with another seed."""
    problem, size = JOBS[job]
    plan = problems.shrinking(problem, **size)
    taken_ms, events = [], 0
    for seed in range(repeats):
        began = time.perf_counter()
        events = rehearse_once(problem, plan, seed=seed).events
        taken_ms.append((time.perf_counter() - began) * 1e3)
    return {
        "benchmark": "rehearse",
        "job": job,
        "repeats": repeats,
        "events": events,
        "ms": {
            "min": round(min(taken_ms), 1),
            "median": round(statistics.median(taken_ms), 1),
            "max": round(max(taken_ms), 1),
        },
    }


if __name__ == "__main__":
    job, repeats = (*sys.argv[1:], *("sha", "20")[len(sys.argv) - 1 :])
    print(json.dumps(measure(job, int(repeats))))
