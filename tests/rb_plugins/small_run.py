"""The files of a small tuning run without torch, whose profile is known."""

from __future__ import annotations

TRAIN = """
def train(config, trial):
    trial.load()
    for _ in trial.iterations():
        trial.report(config["lr"])
        if trial.save_due:
            with trial.save() as folder:
                (folder / "state").write_text("kept")


def broken(config, trial):
    raise ValueError("boom")
"""

EXPERIMENT = """
name = "small"
[train]
target = "train_small.py:train"
metric = "accuracy"
[space]
lr = {uniform = [0, 1]}
[experiment]
stages = [{trials = 3, iterations = 2}, {trials = 1, iterations = 2}]
[profile]
iteration_s = {1 = 0.02}
start_s = {mean = 0.2, std = 0.05}
[cloud]
instance_types = [{name = "core", slots = 1, usd_per_hour = 0.17}]
max_nodes = 1
billing = {minimum_s = 0}
[run]
launcher = "process"
[objective]
deadline_s = "10m"
"""
