"""An experiment whose driver is killed again and again, and which `Tuner.restore` takes up each time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from killed_driver import POINTS
from ladder import steps
from rb_ray import _compat
from rb_ray.nodes.bootstrap import token_env

HERE = Path(__file__).parent


def test_a_driver_killed_at_every_phase_repeats_no_rung_and_revives_no_loser(tmp_path, four_slots):
    environment = {
        **os.environ,
        **token_env(_compat.token()),
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        "PYTHONWARNINGS": "ignore",
    }
    sittings = []
    for point in [*POINTS, ""]:
        before = len(steps(tmp_path / "log"))
        driver = subprocess.run(
            [sys.executable, str(HERE / "killed_driver.py"), four_slots.address, str(tmp_path), point],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert driver.returncode == (-signal.SIGKILL if point else 0), driver.stderr[-3000:]
        sittings.append(steps(tmp_path / "log")[before:])
    reporting, noted, training, rest = sittings
    assert {(step.x, step.step) for step in reporting + noted} == {(x, step) for x in (1, 2, 3, 4) for step in (1, 2)}
    # From here on each step is done once, but for those of the second stage that the last kill undid.
    assert {(step.x, step.step) for step in training} < {(x, step) for x in (3, 4) for step in (3, 4)}
    assert sorted((step.x, step.step) for step in rest if step.stage == 1) == [(3, 3), (3, 4), (4, 3), (4, 4)]
    assert [(step.x, step.step) for step in rest if step.stage == 2] == [(4, step) for step in (5, 6, 7, 8)]
    assert [{step.slots for step in sitting} for sitting in sittings] == [{1}, {1}, {2}, {2, 4}]
    newest = max((tmp_path / "storage" / "climb").glob("experiment_state-*.json"))
    states = [json.loads(state)["status"] for state, _ in json.loads(newest.read_text())["trial_data"]]
    assert states == ["TERMINATED"] * 4
