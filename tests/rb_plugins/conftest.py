"""A small tuning run without torch, and a home for its directory."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.fixture
def experiment(tmp_path, monkeypatch) -> Path:
    """An experiment file whose profile is known, in a folder of its own; runs go into `tmp_path / "home"`."""
    monkeypatch.setenv("RB_HOME", str(tmp_path / "home"))
    (tmp_path / "train_small.py").write_text(TRAIN)
    path = tmp_path / "small.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture
def altered(experiment):
    """Change the experiment file: a function that takes what is to be replaced, and by what."""

    def altered(old: str, new: str) -> Path:
        text = experiment.read_text()
        assert old in text
        experiment.write_text(text.replace(old, new))
        return experiment

    return altered
