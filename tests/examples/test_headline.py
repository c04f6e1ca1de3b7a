"""The committed table: a part of it is worked out anew, and all of it keeps what the model promises."""

from __future__ import annotations

import csv
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from source_tree import ROOT

EVALUATION = ROOT / "examples" / "evaluation"
RESULTS = EVALUATION / "results"
PLANNERS = ("static-1", "static", "static-beside", "naive", "greedy", "exact")
CASE = ("experiment", "cloud", "workload", "deadline_factor")
PART = ("SHA(32,1,50,3)", "p3.8xlarge")


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def work_out(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EVALUATION), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("evaluation")
    done = work_out("--experiment", PART[0], "--cloud", PART[1], "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out


def test_a_part_comes_out_as_committed(part):
    committed = [line for line in lines_of(RESULTS / "table.csv") if (line["experiment"], line["cloud"]) == PART]
    anew = lines_of(part / "table.csv")
    assert len(anew) == len(committed) == 4 * 6
    for line, known in zip(anew, committed, strict=True):
        assert [line[key] for key in CASE] == [known[key] for key in CASE]
        for name in PLANNERS:
            # Of several plans at one price the time may differ.
            assert bool(line[f"{name}_usd"]) == bool(known[f"{name}_usd"])
            if known[f"{name}_usd"]:
                assert float(line[f"{name}_usd"]) == pytest.approx(float(known[f"{name}_usd"]), abs=2e-4)
        assert float(line["deadline_s"]) == pytest.approx(float(known["deadline_s"]), abs=0.11)
        assert float(line["lower_bound_usd"]) == pytest.approx(float(known["lower_bound_usd"]), abs=2e-4)


def test_the_parts_of_the_summary_are_in_the_whole(part):
    rows = [line for line in (part / "summary.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 6
    assert set(rows) <= set((RESULTS / "summary.md").read_text(encoding="utf-8").splitlines())


def test_the_committed_table_is_whole():
    lines = lines_of(RESULTS / "table.csv")
    assert len({tuple(line[key] for key in CASE) for line in lines}) == len(lines) == 3 * 3 * 4 * 6


def test_no_planner_is_late_cheaper_than_exact_or_below_the_bound():
    for line in lines_of(RESULTS / "table.csv"):
        exact, bound = float(line["exact_usd"]), float(line["lower_bound_usd"])
        assert bound <= exact
        for name in PLANNERS:
            if line[f"{name}_usd"]:
                assert float(line[f"{name}_s"]) <= float(line["deadline_s"]) + 0.11
                assert exact <= float(line[f"{name}_usd"]) + 2e-4


def test_more_time_never_costs_more():
    lines = lines_of(RESULTS / "table.csv")
    for before, after in pairwise(lines):
        if [before[key] for key in CASE[:3]] == [after[key] for key in CASE[:3]]:
            assert float(after["exact_usd"]) <= float(before["exact_usd"]) + 2e-4


def test_the_whole_is_not_replaced_by_a_part():
    done = work_out("--cloud", "g5")
    assert done.returncode == 2
    assert "--out" in done.stderr


def test_twice_gives_the_same_files(part, tmp_path):
    again = work_out("--experiment", PART[0], "--cloud", PART[1], "--out", str(tmp_path))
    assert again.returncode == 0, again.stderr
    names = {path.name for path in part.iterdir()}
    assert {"table.csv", "table.md", "summary.md"} <= names
    for name in names:
        assert (tmp_path / name).read_bytes() == (part / name).read_bytes()
