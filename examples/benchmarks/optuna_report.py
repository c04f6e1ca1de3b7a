"""How long a report of an Optuna objective takes that runs in a process of its own, with a study in memory.

    python examples/benchmarks/optuna_report.py [reports] [repeats]

A round trip is `report` and `should_prune` in the objective, until the objective has the answer to a question that it
puts behind them: by then the report is in the study. Prints one line of JSON; times in milliseconds.
"""

import json
import os
import statistics
import sys
import tempfile
import time

import optuna
from rb_optuna import RubberBandExecutor


def objective(trial: optuna.Trial) -> float:
    """Report below the only rung, and be answered each time; the duration of one round in milliseconds."""
    reports = trial.suggest_int("reports", 1, 1_000_000)
    began = time.perf_counter()
    for step in range(reports):
        trial.report(0.5, step)
        if trial.should_prune():
            raise optuna.TrialPruned
        trial.set_user_attr("answered", step)
    return (time.perf_counter() - began) / reports * 1e3


def measure(reports: int, repeats: int) -> dict:
    """Run the objective so many times, one after the other."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize", storage=optuna.storages.InMemoryStorage())
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RB_HOME"] = folder
        executor = RubberBandExecutor(study, max_resource=reports + 1, launcher="process")
        for _ in range(repeats):
            study.enqueue_trial({"reports": reports})
            executor.optimize(objective, n_trials=1)
    taken_ms = [trial.value for trial in study.trials]
    assert all(len(trial.intermediate_values) == reports for trial in study.trials)
    return {
        "benchmark": "optuna_report",
        "reports": reports,
        "repeats": repeats,
        "round_trip_ms": {"min": round(min(taken_ms), 3), "median": round(statistics.median(taken_ms), 3)},
    }


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    print(json.dumps(measure(*(numbers + [500, 3][len(numbers) :]))))
