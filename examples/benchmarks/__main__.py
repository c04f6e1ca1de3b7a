"""Measures every benchmark and compares it with its goal; the exit status is 1 when a goal is missed.

    python examples/benchmarks [names]

Those that take long are run when they are named.

Each script runs in a process of its own and prints one line of JSON. Figures mean something on an otherwise idle
machine only: the load is printed with them.
"""

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One figure of one script.

    Attributes:
        what: in words.
        script: its name and arguments.
        figure: where the figure stands in the script's answer, keys joined by dots.
        unit: of figure and goal.
        goal: the largest value that is good enough; None for a figure without a goal.
        long: whether it takes many minutes.
    """

    what: str
    script: str
    figure: str
    unit: str
    goal: float | None = None
    long: bool = False


BENCHMARKS = (
    Benchmark(
        what="1,000 samples of SHA(64, 4, 508, 2)",
        script="simulate sha 1000 20",
        figure="ms.median",
        unit="ms",
        goal=50,
    ),
    Benchmark(
        what="10,000 samples of 10 stages, 512 trials",
        script="simulate large 10000 1",
        figure="ms.median",
        unit="ms",
        goal=5_000,
    ),
    Benchmark(
        what="... and the memory it takes", script="simulate large 10000 1", figure="peak_gib", unit="GiB", goal=1
    ),
    Benchmark(
        what="start of a two-rank stage, fork-server warm",
        script="launch 2 20",
        figure="started_ms.median",
        unit="ms",
        goal=100,
    ),
    Benchmark(what="rb-tune --help", script="startup 10", figure="ms.median", unit="ms", goal=300),
    Benchmark(
        what="exact plan of SHA(64, 4, 508, 2)", script="plan exact 0 9", figure="median_ms", unit="ms", goal=100
    ),
    Benchmark(
        what="... with noise (std 5 %, trial_cv 0.2)",
        script="plan exact 0.05 1",
        figure="first_ms",
        unit="ms",
        goal=1_000,
    ),
    Benchmark(
        what="... as `rb-tune plan`, confidence 0.95",
        script="command 1000 0.95",
        figure="ms",
        unit="ms",
        goal=1_500,
    ),
    Benchmark(
        what="whole front: 10 stages, 512 trials, 3 types",
        script="front large 5",
        figure="ms.median",
        unit="ms",
        goal=500,
    ),
    Benchmark(
        what="whole front: 5 types, 256 nodes of each",
        script="front wide 1",
        figure="ms.median",
        unit="ms",
        goal=10_000,
    ),
    Benchmark(what="... and the memory it takes", script="front wide 1", figure="peak_gib", unit="GiB", goal=1),
    Benchmark(what="rehearsal of SHA(64, 4, 508, 2)", script="rehearse sha 20", figure="ms.median", unit="ms", goal=50),
    Benchmark(
        what="rehearsal of 10 stages, 512 trials", script="rehearse large 5", figure="ms.median", unit="ms", goal=1_000
    ),
    Benchmark(what="greedy plan of SHA(64, 4, 508, 2)", script="plan greedy 0 9", figure="median_ms", unit="ms"),
    Benchmark(what="... with noise (std 5 %, trial_cv 0.2)", script="plan greedy 0.05 1", figure="first_ms", unit="ms"),
    Benchmark(
        what="Optuna: a report's round trip, in memory",
        script="optuna_report 500 3",
        figure="round_trip_ms.median",
        unit="ms",
        goal=2,
    ),
    Benchmark(
        what="Optuna: start of a process, once warm",
        script="optuna_start process 20",
        figure="ms.median",
        unit="ms",
        goal=50,
    ),
    Benchmark(
        what="... with torch and its process group",
        script="optuna_start ddp 20",
        figure="ms.median",
        unit="ms",
        goal=50,
    ),
    Benchmark(
        what="Optuna: 27 trials on digits, against n_jobs",
        script="optuna_digits 4",
        figure="ratio",
        unit="x",
        goal=1,
    ),
    Benchmark(
        what="Ray Tune, steps of 1 s: node-s against its best",
        script="ray_contest 1",
        figure="ratio",
        unit="x",
        long=True,
    ),
    Benchmark(
        what="... pause at a rung against a restart",
        script="ray_contest 1",
        figure="barrier",
        unit="x",
        goal=2,
        long=True,
    ),
    Benchmark(what="... with steps of 5 s", script="ray_contest 5", figure="ratio", unit="x", long=True),
    Benchmark(what="... with steps of 20 s", script="ray_contest 20", figure="ratio", unit="x", goal=0.6, long=True),
)


@cache
def answer(script: str) -> dict:
    """What a script prints."""
    name, *arguments = script.split()
    command = [sys.executable, Path(__file__).with_name(f"{name}.py"), *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def measured(benchmark: Benchmark) -> float:
    """The figure of a benchmark."""
    value = answer(benchmark.script)
    for key in benchmark.figure.split("."):
        value = value[key]
    return value


def machine() -> str:
    """Where and when, in one line."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.partition(": ")[2] for line in cpuinfo if line.startswith("model name")), platform.machine())
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch"))
    return (
        f"{len(os.sched_getaffinity(0))} cores of {cpu}, Python {platform.python_version()}, {versions}, "
        f"{datetime.now(UTC):%Y-%m-%d}, load {os.getloadavg()[0]:.1f}"
    )


def main(names: list[str]) -> int:
    """Run those whose script has one of these names, or all."""
    print(machine())
    missed = 0
    for benchmark in BENCHMARKS:
        if benchmark.script.split()[0] not in names if names else benchmark.long:
            continue
        value = measured(benchmark)
        late = benchmark.goal is not None and value > benchmark.goal
        missed += late
        goal = "" if benchmark.goal is None else f"   goal {benchmark.goal:>7,g}   {'MISSED' if late else 'met'}"
        print(f"{benchmark.what:<44} {value:>9,.6g} {benchmark.unit:<3}{goal}", flush=True)
    if missed:
        print(f"{missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
