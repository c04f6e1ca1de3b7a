"""A small tuning run without torch, and a home for its directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_run import EXPERIMENT, TRAIN


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
