"""The one command of the evaluation: studies are timed, recorded and swapped in; committed pages can be traced."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from evaluation_part import EVALUATION, RESULTS
from source_tree import ROOT

STUDY = """
from pathlib import Path
from origin import made_by
TITLE, SEEDS = "A small study", "seed 7"
def run(out: Path, *, quick: bool) -> None:
    (out / "small.csv").write_text("a\\n1\\n")
    (out / "small.md").write_text(made_by("small", quick=quick, seeds="seed 7"))
    {then}
"""
CARRY_OUT = """
import sys
from pathlib import Path
import frame
sys.path.append(sys.argv[1])
frame.STUDIES = ("headline", "small")
sys.exit(not frame.carry_out("small", Path(sys.argv[2]), quick=True))
"""
PAGES = sorted(RESULTS.glob("*/*.md"))


def carried_out(folder: Path, then: str) -> subprocess.CompletedProcess[str]:
    (folder / "small.py").write_text(STUDY.format(then=then), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-c", CARRY_OUT, str(folder), str(folder / "results")],
        cwd=EVALUATION,
        capture_output=True,
        text=True,
        check=False,
    )


def evaluate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EVALUATION), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_a_study_is_recorded_and_stands_in_the_index(tmp_path):
    done = carried_out(tmp_path, "pass")
    assert done.returncode == 0, done.stderr
    results = tmp_path / "results"
    record = json.loads((results / "small" / "run.json").read_text(encoding="utf-8"))
    assert record["command"] == "./dev evaluate --only small --quick"
    assert record["seeds"] == "seed 7"
    assert record["seconds"] >= 0
    assert record["machine"]["cores"] >= 1
    assert record["machine"]["packages"].keys() >= {"rubberband-tune", "numpy", "scipy"}
    index = (results / "README.md").read_text(encoding="utf-8")
    for word in (record["command"], record["date"], record["machine"]["cpu"], "seed 7", "(small/small.csv)"):
        assert word in index
    assert sorted(path.name for path in results.iterdir()) == ["README.md", "small"]


@pytest.mark.parametrize("then", ["raise RuntimeError('broken')", "raise SystemExit(3)"])
def test_a_study_that_fails_leaves_the_results_of_before(tmp_path, then):
    assert carried_out(tmp_path, "pass").returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()}
    done = carried_out(tmp_path, f"(out / 'small.csv').write_text('2'); {then}")
    assert done.returncode != 0
    assert {path: path.read_bytes() for path in before} == before


def test_the_others_go_on_when_one_fails(tmp_path):
    """A folder cannot be made where a file is: so every study fails, and each is tried and named."""
    (tmp_path / "file").touch()
    done = evaluate("--quick", "--only", "sampling", "replanning", "--out", str(tmp_path / "file"))
    assert done.returncode == 1
    assert "failed: replanning, sampling; again: ./dev evaluate --only replanning sampling" in done.stderr


def test_a_quick_run_does_not_replace_the_whole():
    done = evaluate("--quick", "--out", str(RESULTS))
    assert done.returncode == 2
    assert "--quick must not replace the whole results" in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_committed_page_names_its_command_and_its_seeds(page):
    text = page.read_text(encoding="utf-8")
    assert f"`./dev evaluate --only {page.parent.name}`" in text
    assert "seed" in text


def test_every_record_is_of_its_folder_and_of_a_whole_run():
    studies = {module.parent.name for module in EVALUATION.glob("*/__init__.py")}
    assert {page.parent.name for page in PAGES} == studies
    for study in studies:
        record = json.loads((RESULTS / study / "run.json").read_text(encoding="utf-8"))
        assert record["command"] == f"./dev evaluate --only {study}"
        assert f"`{record['command']}`" in (RESULTS / "README.md").read_text(encoding="utf-8")
