"""The plugins for TensorBoard and MLflow, really installed, and read back by these tools' own readers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_run import EXPERIMENT, TRAIN
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rb_plugins.rundir import RunDirectory

EXAMPLES = Path(__file__).parents[2] / "examples"
READ_MLFLOW = """
import json, sys
from mlflow import MlflowClient

client = MlflowClient(tracking_uri=sys.argv[1])
experiment = client.get_experiment_by_name("rubberband").experiment_id
told = {}
for run in client.search_runs([experiment]):
    history = client.get_metric_history(run.info.run_id, "accuracy")
    told[run.data.tags["rubberband.trial"]] = {
        "status": run.info.status, "params": run.data.params, "scores": {m.step: m.value for m in history},
        "parent": run.data.tags.get("mlflow.parentRunId"), "id": run.info.run_id,
    }
print(json.dumps(told))
"""


@pytest.fixture
def observed(tmp_path):
    """Install one of the plugins and let it be told of a run: gives the run's answer, and its home."""

    def observed(name: str) -> tuple[dict, Path]:
        site, home = tmp_path / "site", tmp_path / "home"
        source = shutil.copytree(EXAMPLES / name, tmp_path / "source")
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--no-build-isolation", "--no-index", "--target", site, source,
        ]  # fmt: skip
        installed = subprocess.run(command, capture_output=True, text=True)
        assert installed.returncode == 0, installed.stderr
        (tmp_path / "train_small.py").write_text(TRAIN)
        (tmp_path / "small.toml").write_text(EXPERIMENT)
        done = subprocess.run(
            [sys.executable, "-m", "rb_plugins", "run", tmp_path / "small.toml", "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(site), "RB_HOME": str(home)},
        )
        assert done.returncode == 0, done.stderr
        assert "MLflow does not have" not in done.stderr
        answer = json.loads(done.stdout)
        assert answer["warnings"] == []
        return answer, home

    return observed


def scores(home: Path, trial: int) -> dict[int, float]:
    """What the log has."""
    (directory,) = RunDirectory.all(home)
    records = [json.loads(text) for text in directory.events.read_text().splitlines()]
    return {r["iterations"]: r["score"] for r in records if r["event"] == "TrialReported" and r["trial"] == trial}


def test_tensorboard_has_every_score_and_every_configuration(observed):
    answer, home = observed("tensorboard_plugin")
    folder = home / "tensorboard" / answer["run"]
    for trial in answer["trials"]:
        own = EventAccumulator(str(folder / f"trial-{trial['trial']:04d}")).Reload()
        assert {s.step: s.value for s in own.Scalars("accuracy")} == pytest.approx(scores(home, trial["trial"]))
        ended = EventAccumulator(str(folder / f"trial-{trial['trial']:04d}" / "configuration")).Reload()
        (last,) = ended.Scalars("best/accuracy")
        assert last.value == pytest.approx(trial["score"])
    assert [s.value for s in EventAccumulator(str(folder)).Reload().Scalars("nodes")] == [1.0, 0.0]


def test_mlflow_has_a_run_for_each_trial_below_one_for_the_run(observed):
    answer, home = observed("mlflow_plugin")
    read = subprocess.run(
        [sys.executable, "-c", READ_MLFLOW, f"sqlite:///{home / 'mlflow.db'}"], capture_output=True, text=True
    )
    assert read.returncode == 0, read.stderr
    runs = json.loads(read.stdout)
    assert set(runs) == {"all", "0", "1", "2"}
    assert (runs["all"]["status"], runs["all"]["parent"]) == ("FINISHED", None)
    for trial in answer["trials"]:
        kept = runs[str(trial["trial"])]
        assert (kept["status"], kept["parent"]) == ("FINISHED", runs["all"]["id"])
        assert kept["params"] == {"lr": str(trial["config"]["lr"])}
        assert {int(step): value for step, value in kept["scores"].items()} == scores(home, trial["trial"])
