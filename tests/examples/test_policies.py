"""The committed figures of the policies: a part is worked out anew, and all of it is as the policies promise."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

EVALUATION = ROOT / "examples" / "evaluation"
RESULTS = EVALUATION / "results"
CASE = ("experiment", "cloud", "workload", "deadline_factor")
PART = ("SHA(32,1,50,3)", "p3.8xlarge")


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def work_out(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EVALUATION / "policies.py"), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_part_comes_out_as_committed(tmp_path):
    done = work_out("--experiment", PART[0], "--cloud", PART[1], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    committed = [line for line in lines_of(RESULTS / "policies.csv") if (line["experiment"], line["cloud"]) == PART]
    anew = lines_of(tmp_path / "policies.csv")
    assert len(anew) == len(committed) == 4 * 6
    for line, known in zip(anew, committed, strict=True):
        assert [line[key] for key in CASE] == [known[key] for key in CASE]
        for key in line.keys() - set(CASE):
            assert float(line[key]) == pytest.approx(float(known[key]), rel=1e-4, abs=2e-5), key
    pages = [(folder / "policies.md").read_text(encoding="utf-8").splitlines() for folder in (tmp_path, RESULTS)]
    panels = [line for line in pages[0] if line.startswith(f"| {PART[1]} |")]
    assert len(panels) == 6
    assert set(panels) <= set(pages[1])


def test_the_committed_figures_are_whole():
    lines, table = lines_of(RESULTS / "policies.csv"), lines_of(RESULTS / "table.csv")
    assert [[line[key] for key in CASE] for line in lines] == [[line[key] for key in CASE] for line in table]
    for line, known in zip(lines, table, strict=True):
        assert float(line["usd"]) == pytest.approx(float(known["exact_usd"]), rel=2e-5)
        # Within a bracket the plan in words separates stages by ">".
        assert (line["grows"] == "0") or ">" in known["exact_plan"]


def test_early_release_always_saves():
    for line in lines_of(RESULTS / "policies.csv"):
        assert float(line["early"]) > 0
        assert float(line["noisy_early"]) > float(line["noisy_early_95"]) >= 0


def test_the_whole_is_not_replaced_by_a_part():
    done = work_out("--cloud", "g5")
    assert done.returncode == 2
    assert "--out" in done.stderr
