"""The digits run, killed with SIGKILL at three moments and resumed; `./dev kills` does it at ten, at full size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).parents[2] / "examples" / "digits" / "kills.py"

LATENCIES = {
    "iteration_s": {"1": {"mean": 0.31, "std": 0.01}, "2": {"mean": 0.186, "std": 0.01}},
    "start_s": {"mean": 0.07, "std": 0.02},
    "save_s": {"mean": 0.03, "std": 0.01},
    "sync_s": 0.02,
}


def killed(folder: Path, moments: int) -> dict:
    """What the kills at so many moments came to."""
    (folder / "profile.json").write_text(json.dumps(LATENCIES))
    done = subprocess.run(
        [sys.executable, KILLS, "--moments", str(moments), "--small", "--profile", folder / "profile.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [moment["problems"] for moment in told["moments"]] == [[]] * moments
    assert {moment["winner"] for moment in told["moments"]} == {told["winner"]}
    assert {moment["stages"] for moment in told["moments"]} == {told["stages"]} == {3}
    return told


@pytest.mark.timeout(900)
def test_killed_once_it_has_the_same_winner_and_leaves_no_process(tmp_path):
    (moment,) = killed(tmp_path, 1)["moments"]
    assert moment["scores_before"] > 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_at_three_moments_it_has_the_same_winner_each_time(tmp_path):
    told = killed(tmp_path, 3)
    assert [moment["stage"] for moment in told["moments"]] == sorted(moment["stage"] for moment in told["moments"])
    assert told["moments"][0]["stage"] < told["moments"][-1]["stage"]
    assert all(moment["scores_before"] > 0 for moment in told["moments"])
