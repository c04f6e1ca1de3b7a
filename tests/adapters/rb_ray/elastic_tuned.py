"""An experiment of Tune's on nodes of this machine that come and go: for tests, and a program for those that kill it.

As a program: ``elastic_tuned.py FOLDER begin|restore``, with two trials. It prints one JSON object.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import ray
from ray import tune
from raynodes import pid_with
from rb_ray.nodes.cluster import RayCluster
from rb_ray.scheduling.scheduler import RubberBandScheduler

import rb_core.providers.local
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.profile import ScalingProfile

PROFILE = ScalingProfile(iteration_s={1: Latency(mean=0.3)}, start_s=Latency(mean=2.0), save_s=Latency(mean=0.5))
CLOUD = Cloud(
    instance_types=(InstanceType(name="box", slots=1, usd_per_hour=1.0),),
    max_nodes=4,
    init_s=Latency(mean=4.0),
    billing=Billing(minimum_s=0.0),
)
NAME = "elastic"


def trains(config):
    """Count, keep the count, and leave a line of each iteration that was run."""
    done, checkpoint = 0, tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            done = int(Path(folder, "done").read_text())
    while True:
        time.sleep(0.3)
        done += 1
        with open(config["notes"], "a") as notes:
            notes.write(f"{config['x']} {done}\n")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "done").write_text(str(done))
            tune.report({"score": config["x"] * done}, checkpoint=tune.Checkpoint.from_directory(folder))


class Eyes(tune.Callback):
    """Sees, at every result, which nodes there are in Ray's table.

    Attributes:
        nodes: how many there were at each result, by how many iterations it tells of.
        kill_at: at the first result of so many iterations a node is killed, and the trial that runs on it.
        killed: name of that node.
    """

    def __init__(self, kill_at=None):
        self.nodes = {}
        self.kill_at = kill_at
        self.killed = ""

    def on_trial_result(self, iteration, trials, trial, result, **info):
        rows = rented()
        self.nodes.setdefault(result["training_iteration"], []).append(len(rows))
        if result["training_iteration"] == self.kill_at and not self.killed:
            (self.killed, row), *_ = rows.items()
            for pid in (pid_with(f"raylet_socket_name={re.escape(row['RayletSocketName'])}"), result["pid"]):
                os.kill(pid, signal.SIGKILL)


def rented():
    """The rented nodes that are alive in Ray's eyes: what its table says of them by their names."""
    found = {}
    for row in ray.nodes():
        names = [resource.split(":")[2] for resource in row["Resources"] if resource.count(":") == 2]
        if row["Alive"] and names:
            found[names[0]] = row
    return found


def tuner(folder, *callbacks, trials=4):
    """Of four trials all run to iteration 2, 2 to 4 and 1 to 8. In time only with a node for each."""
    scheduler = RubberBandScheduler(
        deadline="1.1x", max_t=8, grace_period=2, reduction_factor=2, nodes=CLOUD, profile=PROFILE
    )
    return tune.Tuner(
        tune.with_resources(trains, {"CPU": 1}),
        param_space={"x": tune.grid_search(list(range(1, trials + 1))), "notes": str(folder / "notes")},
        tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=scheduler),
        run_config=tune.RunConfig(
            name=NAME,
            storage_path=str(folder / "storage"),
            callbacks=list(callbacks),
            failure_config=tune.FailureConfig(max_failures=2),
            verbose=0,
        ),
    )


def told(results, eyes):
    """What came of it."""
    return {
        "iterations": {result.config["x"]: result.metrics["training_iteration"] for result in results},
        "errors": len(results.errors),
        "nodes": eyes.nodes,
        "left": list(rented()),
    }


def main(folder, what):
    rb_core.providers.local.devices = lambda: ("",) * 4
    eyes = Eyes()
    with RayCluster():
        restored = what == "restore"
        made = tune.Tuner.restore(str(folder / "storage" / NAME), trains) if restored else tuner(folder, eyes, trials=2)
        print(json.dumps(told(made.fit(), eyes)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
