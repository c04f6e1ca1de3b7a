"""How long it takes to sample a job's time and cost, and the most memory that this process ever held.

    python examples/benchmarks/simulate.py [sha|large] [samples] [repeats]

Prints one line of JSON.
"""

import json
import resource
import statistics
import sys
import time

import numpy as np
import problems

from rb_core.simulate import simulate

JOBS = {
    "sha": (problems.sha(), {"instance_type": "four", "nodes": 16}),
    "large": (problems.large(), {"instance_type": "eight", "nodes": 32}),
}


def measure(job: str, samples: int, repeats: int) -> dict:
    """Simulate `repeats` times, each time with another seed."""
    problem, size = JOBS[job]
    plan = problems.shrinking(problem, **size)
    taken_s = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        began = time.perf_counter()
        simulate(problem, plan, samples=samples, rng=rng)
        taken_s.append(time.perf_counter() - began)
    return {
        "benchmark": "simulate",
        "job": job,
        "samples": samples,
        "repeats": repeats,
        "ms": {
            "min": round(min(taken_s) * 1e3, 1),
            "median": round(statistics.median(taken_s) * 1e3, 1),
            "max": round(max(taken_s) * 1e3, 1),
        },
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
    }


if __name__ == "__main__":
    job, samples, repeats = (*sys.argv[1:], *("sha", "1000", "20")[len(sys.argv) - 1 :])
    print(json.dumps(measure(job, int(samples), int(repeats))))
