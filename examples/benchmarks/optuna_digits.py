"""Successive halving of 27 networks on digits: examples/optuna by Optuna on all cores, and by its elastic executor.

    python examples/benchmarks/optuna_digits.py [seeds]

Both get the same 27 configurations, drawn by a seeded RandomSampler and enqueued, since Optuna with several jobs seeds
its samplers anew. `plain.py` is run with ``n_jobs`` = cores and its SuccessiveHalvingPruner, `elastic.py` by the line
that it differs in, imports and the warm-up of processes included; both with one thread for each job's arithmetic. How
many epochs Optuna trains depends on the draw and on which trial reports first, so several seeds are taken together.
Every measurement is a process of its own, in turns. Prints one line of JSON; times in seconds.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution

EXAMPLES = Path(__file__).parent.parent / "optuna"
TRIALS = 27
WAYS = ("plain", "elastic")
SPACE = {
    "width": CategoricalDistribution([16, 32, 48]),
    "lr": FloatDistribution(1e-3, 0.5, log=True),
    "momentum": FloatDistribution(0.5, 0.99),
}
"""That of both examples."""


def run(way: str, seed: int) -> dict:
    """Optimize once, in this process."""
    sys.path.insert(0, str(EXAMPLES))
    import elastic
    import plain
    import rb_optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    drawn = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
    )
    for _ in range(TRIALS):
        study.enqueue_trial(drawn.ask(SPACE).params)
    began = time.perf_counter()
    if way == "plain":
        study.optimize(plain.objective, n_trials=TRIALS, n_jobs=len(os.sched_getaffinity(0)))
    else:
        rb_optuna.RubberBandExecutor(study, max_resource=27).optimize(elastic.objective, n_trials=TRIALS)
    return {
        "s": time.perf_counter() - began,
        "cpu_s": sum(os.times()[:4]),
        "epochs": sum(len(trial.intermediate_values) for trial in study.trials),
        "best": study.best_value,
    }


def measure(seeds: int) -> dict:
    """Each way once for each of so many seeds, in turns."""
    results: dict[str, list[dict]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RB_HOME": folder}
        for seed in range(seeds):
            for way in WAYS:
                command = [sys.executable, __file__, way, str(seed)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
                results[way].append(json.loads(done.stdout))
    figures = {
        way: {figure: [round(each[figure], 3) for each in found] for figure in found[0]}
        for way, found in results.items()
    }
    return {
        "benchmark": "optuna_digits",
        "seeds": seeds,
        **figures,
        "ratio": round(sum(figures["elastic"]["s"]) / sum(figures["plain"]["s"]), 3),
    }


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WAYS:
        print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
    else:
        print(json.dumps(measure(*(map(int, sys.argv[1:] or ["4"])))))
