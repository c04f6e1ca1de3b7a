"""The committed comparison of samplers: a small part is made anew, and its table follows from its figures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from evaluation_part import RESULTS, lines_of, measured

COMMITTED = RESULTS / "sampling"
SAMPLERS = ["RandomSampler", "TPESampler", "RubberBandSampler", "the same without random_fraction"]
BRACKETS = ["1", "2", "3", "4", "5", "6"]
MEASURE = "from sampling.measuring import measure; measure(Path(sys.argv[1]), ['slight'], seeds=2, quick=True)"


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("sampling")
    measured(MEASURE, str(out))
    return out


@pytest.fixture(scope="module")
def committed() -> list[dict[str, str]]:
    return lines_of(COMMITTED / "losses.csv")


def test_part_has_every_run(part):
    runs = [(line["sampler"], line["seed"], line["bracket"]) for line in lines_of(part / "losses.csv")]
    assert runs == [(sampler, seed, bracket) for sampler in SAMPLERS for seed in "01" for bracket in BRACKETS]
    table = (part / "samplers.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| slight |") for line in table) == len(SAMPLERS) + 3 * 3


def test_random_search_is_as_committed(part, committed):
    """It is the one sampler that suggests the same in every version of Optuna."""

    def of(lines):
        return [line for line in lines if line["sampler"] == "RandomSampler"]

    expected = [line for line in of(committed) if line["lag"] == "slight" and line["seed"] in "01"]
    assert len(expected) == 2 * len(BRACKETS)
    for made, kept in zip(of(lines_of(part / "losses.csv")), expected, strict=True):
        assert float(made["loss"]) == pytest.approx(float(kept["loss"]), abs=2e-5)


def test_committed_table_follows_from_the_committed_losses(committed, tmp_path):
    assert len(committed) == 3 * len(SAMPLERS) * 50 * len(BRACKETS)
    shutil.copy(COMMITTED / "losses.csv", tmp_path)
    measured("from sampling.measuring import write_page; write_page(Path(sys.argv[1]), quick=False)", str(tmp_path))
    page = "samplers.md"
    assert (tmp_path / page).read_text(encoding="utf-8") == (COMMITTED / page).read_text(encoding="utf-8")


def test_what_is_said_of_it_holds(committed):
    """After six brackets its losses are lower on average than both others', however much early rungs mislead."""
    for lag in ("slight", "middling", "strong"):
        mean = {
            sampler: sum(
                float(line["loss"])
                for line in committed
                if (line["lag"], line["sampler"], line["bracket"]) == (lag, sampler, "6")
            )
            for sampler in SAMPLERS
        }
        assert mean["RubberBandSampler"] < min(mean["RandomSampler"], mean["TPESampler"])
