"""A small storm over Ray Tune: errors, a node and the driver killed, and still every trial is accounted for."""

import os
import subprocess
import sys
from pathlib import Path

STORM = Path(__file__).parents[2] / "examples" / "ray" / "storm.py"


def test_every_trial_is_accounted_for():
    done = subprocess.run(
        [sys.executable, str(STORM), "--trials", "9", "--restores", "1", "--kills", "1"],
        env={key: value for key, value in os.environ.items() if not key.startswith("RAY_")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "WRONG" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("9 trials, 0 of them failed for good; ")
    for what in ("1 nodes killed", "1 drivers killed"):
        assert what in done.stdout
