"""The committed comparison of samplers: a small part is made anew, and its table follows from its figures."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

SAMPLING = ROOT / "examples" / "optuna" / "sampling"
RESULTS = SAMPLING / "results"
SAMPLERS = ["RandomSampler", "TPESampler", "RubberBandSampler", "the same without random_fraction"]
BRACKETS = [f"after_{k}" for k in range(1, 7)]


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def measure(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SAMPLING), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("sampling")
    done = measure("--lag", "slight", "--seeds", "2", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def committed() -> list[dict[str, str]]:
    return lines_of(RESULTS / "losses.csv")


def test_part_has_every_run(part):
    runs = [(line["sampler"], line["seed"]) for line in lines_of(part / "losses.csv")]
    assert runs == [(sampler, seed) for sampler in SAMPLERS for seed in "01"]
    table = (part / "samplers.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| slight |") for line in table) == len(SAMPLERS) + 3 * 3


def test_random_search_is_as_committed(part, committed):
    """It is the one sampler that suggests the same in every version of Optuna."""

    def of(lines):
        return [line for line in lines if line["sampler"] == "RandomSampler"]

    expected = [line for line in of(committed) if line["lag"] == "slight" and line["seed"] in "01"]
    assert len(expected) == 2
    for made, kept in zip(of(lines_of(part / "losses.csv")), expected, strict=True):
        assert [float(made[k]) for k in BRACKETS] == pytest.approx([float(kept[k]) for k in BRACKETS], abs=2e-5)


def test_a_part_does_not_replace_the_whole():
    before = (RESULTS / "losses.csv").read_bytes()
    done = measure("--seeds", "1")
    assert done.returncode == 2
    assert "give --out" in done.stderr
    assert (RESULTS / "losses.csv").read_bytes() == before


def test_committed_table_follows_from_the_committed_losses(committed, tmp_path):
    assert len(committed) == 3 * len(SAMPLERS) * 50
    code = "import sys; from pathlib import Path; from tables import read_csv, write_table; "
    code += "write_table(read_csv(Path(sys.argv[1])), Path(sys.argv[2]))"
    made = tmp_path / "samplers.md"
    subprocess.run([sys.executable, "-c", code, str(RESULTS / "losses.csv"), str(made)], cwd=SAMPLING, check=True)
    assert made.read_text(encoding="utf-8") == (RESULTS / "samplers.md").read_text(encoding="utf-8")


def test_what_is_said_of_it_holds(committed):
    """After six brackets its losses are lower on average than both others', however much early rungs mislead."""
    for lag in ("slight", "middling", "strong"):
        mean = {
            sampler: sum(
                float(line["after_6"]) for line in committed if (line["lag"], line["sampler"]) == (lag, sampler)
            )
            for sampler in SAMPLERS
        }
        assert mean["RubberBandSampler"] < min(mean["RandomSampler"], mean["TPESampler"])
