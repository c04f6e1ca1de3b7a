"""How long an Optuna objective waits for its process: from `Study.ask` in the parent to the objective's first line.

    python examples/benchmarks/optuna_start.py [process|ddp] [trials]

Trials run one after the other on one slot, with the fork-server warm: `study.ask` comes right before the order to start
the process. Prints one line of JSON; times in milliseconds.
"""

import json
import os
import statistics
import sys
import tempfile
import time

import optuna
from rb_optuna import RubberBandExecutor

from rb_core.hardware import Billing, Cloud, InstanceType


def objective(trial: optuna.Trial) -> float:
    """How long ago the study was asked for this trial, in milliseconds."""
    return (time.time() - trial.datetime_start.timestamp()) * 1e3


def measure(launcher: str, trials: int) -> dict:
    """Start so many trials, and one before."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(storage=optuna.storages.InMemoryStorage())
    slot = InstanceType(name="slot", slots=1, usd_per_hour=0.0)
    cloud = Cloud(instance_types=(slot,), max_nodes=1, billing=Billing(minimum_s=0))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RB_HOME"] = folder
        executor = RubberBandExecutor(study, max_resource=trials + 1, launcher=launcher, cloud=cloud)
        executor.optimize(objective, n_trials=trials + 1)
    first_ms, *taken_ms = (trial.value for trial in study.trials)
    return {
        "benchmark": "optuna_start",
        "launcher": launcher,
        "trials": trials,
        "first_ms": round(first_ms, 1),
        "ms": {"min": round(min(taken_ms), 1), "median": round(statistics.median(taken_ms), 1)},
    }


if __name__ == "__main__":
    launcher, trials = (*sys.argv[1:], *("process", "20")[len(sys.argv) - 1 :])
    print(json.dumps(measure(launcher, int(trials))))
