"""The two Optuna scripts on digits: at most three lines apart, and both come to a good network."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys

import pytest
from source_tree import ROOT

FOLDER = ROOT / "examples" / "optuna"
NAMES = ("plain", "elastic")


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> dict[str, tuple[str, str]]:
    """What each script prints on standard output and on standard error; both run at the same time."""
    running = {}
    for name in NAMES:
        environment = {**os.environ, "RB_HOME": str(tmp_path_factory.mktemp(name)), "OMP_NUM_THREADS": "1"}
        running[name] = subprocess.Popen(
            [sys.executable, str(FOLDER / f"{name}.py")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    told = {name: process.communicate() for name, process in running.items()}
    assert {name: process.returncode for name, process in running.items()} == dict.fromkeys(NAMES, 0), told
    return told


def difference() -> list[str]:
    plain, elastic = ((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines() for name in NAMES)
    return [line for line in difflib.ndiff(plain, elastic) if line[0] in "+-"]


def test_at_most_three_lines_are_changed():
    lines = difference()
    print(*lines, sep="\n")
    assert 0 < sum(line.startswith("+") for line in lines) <= 3
    assert 0 < sum(line.startswith("-") for line in lines) <= 3


def test_the_readme_shows_the_changed_lines():
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```diff\n(.*?)```", readme, flags=re.DOTALL)
    assert [line.split() for line in shown.splitlines()] == [line.split() for line in difference()]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_it_finds_a_good_network(printed, name):
    out, _ = printed[name]
    assert float(out.split()[0]) > 0.95


def trials(log: str, outcome: str) -> int:
    return len(re.findall(rf"Trial \d+ {outcome}", log))


@pytest.mark.long
def test_the_executor_trains_one_network_to_the_end(printed):
    _, log = printed["elastic"]
    assert (trials(log, "pruned"), trials(log, "finished")) == (26, 1)
    assert "SuccessiveHalvingPruner is not consulted" in log
    assert "fewer slots than trials" not in log


@pytest.mark.long
def test_optuna_alone_trains_more_of_them_to_the_end(printed):
    _, log = printed["plain"]
    assert trials(log, "pruned") + trials(log, "finished") == 27
    assert trials(log, "finished") > 1
