"""The two scripts of Ray Tune on digits: two lines apart, and both come to a good network. And a storm over Tune."""

from __future__ import annotations

import difflib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

import pytest
from source_tree import ROOT

FOLDER = ROOT / "examples" / "ray"
NAMES = ("plain", "elastic")
TRIALS = 4
EPOCHS = 9


@pytest.fixture(scope="module")
def printed() -> Callable[[str], str]:
    """What each script prints, on a cluster of its own that Ray starts for it."""

    @functools.cache
    def printed(name: str) -> str:
        # Short, since Ray's sockets stand in it; and Ray keeps its token and its results in the home folder.
        home = tempfile.mkdtemp(prefix="rb", dir="/tmp")
        ray = {"RAY_ADDRESS": "local", "RAY_TMPDIR": home, "RAY_USAGE_STATS_ENABLED": "0"}
        done = subprocess.run(
            [sys.executable, str(FOLDER / f"{name}.py"), str(TRIALS)],
            env={**os.environ, **ray, "HOME": home, "RB_HOME": home, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        shutil.rmtree(home, ignore_errors=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return printed


def difference() -> list[str]:
    plain, elastic = ((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines() for name in NAMES)
    return [line for line in difflib.ndiff(plain, elastic) if line[0] in "+-"]


def test_two_lines_are_changed_and_one_import_is_added():
    added = [line for line in difference() if line.startswith("+") and line != "+ import rb_ray"]
    removed = [line for line in difference() if line.startswith("-")]
    assert (len(added), len(removed)) == (2, 2)


def test_the_readme_shows_the_changed_lines():
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```diff\n(.*?)```", readme, flags=re.DOTALL)
    assert [line.split() for line in shown.splitlines()] == [line.split() for line in difference()]


@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", "elastic"])
def test_it_finds_a_good_network(printed, name):
    assert float(re.findall(r"^accuracy (\S+)", printed(name), flags=re.MULTILINE)[-1]) > 0.95


@pytest.mark.long
def test_the_scheduler_trains_one_network_to_the_end_on_all_slots_that_there_are(printed):
    (epochs, slots) = re.findall(r"^(\d+) epochs in all, .* on (\d+) slots", printed("elastic"), flags=re.MULTILINE)[-1]
    assert int(epochs) == TRIALS - 1 + EPOCHS
    assert int(slots) == min(2, os.cpu_count() or 1)


@pytest.mark.long
def test_in_a_small_storm_every_trial_is_accounted_for():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "storm.py"), "--trials", "9", "--restores", "1", "--kills", "1"],
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
