"""How long `rb-tune plan` takes for noisy SHA(64, 4, 508, 2) with a confidence, imports aside.

    python examples/benchmarks/command.py [samples] [confidence]

A worked example is planned first, which imports everything. The noise is 5 % of every latency and `trial_cv` 0.2; the
deadline is 1.5 times the time of the fastest plan. Prints one line of JSON.
"""

import contextlib
import dataclasses
import io
import json
import sys
import tempfile
import time
from pathlib import Path

import problems

from rb_core.plan import Objective, Problem
from rb_core.spec import ExperimentSpec
from rb_plugins.cli import main
from rb_plugins.config.problem import problem_table


def taken_ms(problem: Problem, samples: int) -> tuple[float, dict]:
    """Run the command in this process: milliseconds and its answer."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.json"
        file.write_text(json.dumps(problem_table(problem)), encoding="utf-8")
        began = time.perf_counter()
        with contextlib.redirect_stdout(printed):
            main(["plan", str(file), "--samples", str(samples), "--json"], standalone_mode=False)
        return (time.perf_counter() - began) * 1e3, json.loads(printed.getvalue())


def measure(samples: int, confidence: float) -> dict:
    """Plan once for the imports, and once."""
    objective = Objective(deadline_factor=1.5, confidence=confidence)
    job = dataclasses.replace(problems.sha(), objective=objective)
    first_ms, _ = taken_ms(dataclasses.replace(job, experiment=ExperimentSpec.from_stages([(2, 1), (1, 1)])), samples)
    ms, answer = taken_ms(job, samples)
    return {
        "benchmark": "command",
        "samples": samples,
        "confidence": confidence,
        "with_imports_ms": round(first_ms, 1),
        "ms": round(ms, 1),
        "expected": answer["expected"],
    }


if __name__ == "__main__":
    samples, confidence = (*sys.argv[1:], *("1000", "0.95")[len(sys.argv) - 1 :])
    print(json.dumps(measure(int(samples), float(confidence))))
