"""The sample plugin, really installed, and used by nothing but its entry point."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "examples" / "sample_plugin"

PROBLEM = {
    "experiment": {"stages": [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 20}]},
    "profile": {"iteration_s": {"1": 10, "2": 6, "4": 4}},
    "cloud": {"catalog": "cluster", "region": "basement", "instance_types": ["quad"], "max_nodes": 1},
    "objective": {"deadline_s": "1h"},
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Folder into which pip installed the sample plugin, built without network from a copy of it."""
    folder = tmp_path_factory.mktemp("sample")
    source = shutil.copytree(SAMPLE, folder / "source")
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--no-build-isolation", "--no-index", "--target", folder / "site", source,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture
def rb_tune(installed):
    def rb_tune(*arguments: object, **env: str):
        return subprocess.run(
            [sys.executable, "-m", "rb_plugins", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(installed), **env},
        )

    return rb_tune


def test_it_is_listed_with_its_package_and_names(rb_tune):
    listed = json.loads(rb_tune("plugins", "--json").stdout)
    (sample,) = [plugin for plugin in listed["plugins"] if plugin["name"] == "sample"]
    assert sample["distribution"] == "rubberband-sample-plugin 0.1.0"
    assert sample["problem"] is None
    assert sample["hooks"] == [
        "rubberband_event", "rubberband_register_planners", "rubberband_register_price_books"
    ]  # fmt: skip
    assert listed["planners"]["widest"] == listed["price_books"]["cluster"] == "sample"


def test_its_planner_plans_with_its_prices(rb_tune, tmp_path):
    problem = tmp_path / "problem.json"
    problem.write_text(json.dumps(PROBLEM))
    done = rb_tune("plan", problem, "--planner", "widest", "--json")
    plan = json.loads(done.stdout)
    assert plan["planner"] == "widest"
    assert [stage["slots_per_trial"] for stage in plan["stages"]] == [4, 4]
    # (4 trials * 10 + 20) iterations of 4 s on one node of 2 usd/h
    assert plan["expected"] == pytest.approx({"jct_s": 240.0, "cost_usd": 240 * 2 / 3600})


def test_its_observer_is_told_of_the_stages_of_a_run(rb_tune, experiment, tmp_path):
    done = rb_tune("run", experiment, SAMPLE_STAGES=str(tmp_path / "stages.txt"))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "stages.txt").read_text().splitlines()
    assert [line.split(" after ")[0] for line in lines] == ["stage 0 ended", "stage 1 ended"]


def test_it_can_be_blocked(rb_tune):
    done = rb_tune("catalog", "cluster", RB_BLOCK_PLUGINS="sample")
    assert done.returncode == 2
    assert "must be the name of a catalogue (aws, ec2)" in done.stderr
    assert "blocked by RB_BLOCK_PLUGINS" in rb_tune("plugins", RB_BLOCK_PLUGINS="sample").stdout
