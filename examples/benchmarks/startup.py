"""How long `rb-tune --help` takes, from the start of its process to its end.

    python examples/benchmarks/startup.py [repeats]

Prints one line of JSON; times in milliseconds.
"""

import json
import statistics
import subprocess
import sys
import time


def measure(repeats: int) -> dict:
    """Ask for help once to warm the disk's cache, then `repeats` times."""
    taken_ms = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "rb_plugins", "--help"], check=True, stdout=subprocess.DEVNULL)
        taken_ms.append((time.perf_counter() - began) * 1e3)
    return {
        "benchmark": "startup",
        "repeats": repeats,
        "first_ms": round(taken_ms[0], 1),
        "ms": {"min": round(min(taken_ms[1:]), 1), "median": round(statistics.median(taken_ms[1:]), 1)},
    }


if __name__ == "__main__":
    print(json.dumps(measure(*(map(int, sys.argv[1:] or ["10"])))))
