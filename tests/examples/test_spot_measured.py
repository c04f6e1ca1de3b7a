"""The committed measurement of spot: a small part is made anew, and all of it keeps what it is there to show."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

SPOT = ROOT / "examples" / "spot"
RESULTS = SPOT / "results"
LEAST_SEEDS = 1000
PART = ["--experiment", "SHA(64,4,508,2)", "--rate", "0.1", "--seeds", "3"]


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> list[dict[str, str]]:
    out = tmp_path_factory.mktemp("spot")
    done = subprocess.run(
        [sys.executable, str(SPOT), *PART, "--out", str(out)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "times cheaper" in (out / "spot.md").read_text(encoding="utf-8")
    return lines_of(out / "spot.csv")


@pytest.fixture(scope="module")
def committed() -> list[dict[str, str]]:
    return lines_of(RESULTS / "spot.csv")


def test_a_part_made_anew_is_as_the_whole(part, committed):
    assert [row["policy"] for row in part] == ["on_demand", "spot", "spot_then_on_demand"]
    for row in part:
        whole = next(
            line for line in committed
            if all(line[key] == row[key] for key in ("experiment", "policy", "rate"))
        )  # fmt: skip
        assert (row["deadline_s"], row["static_usd"]) == (whole["deadline_s"], whole["static_usd"])
        if row["seeds"] == whole["seeds"]:
            assert row == whole
        else:
            assert float(row["cost_usd"]) == pytest.approx(float(whole["cost_usd"]), rel=0.15)
            assert float(row["missed"]) <= 1 / 3


def test_the_whole_is_over_all_rates_and_policies(committed):
    for row in committed:
        assert int(row["seeds"]) >= (1 if row["policy"] == "on_demand" else LEAST_SEEDS)
    of_long = [row for row in committed if row["experiment"] == "SHA(64,4,508,2)" and row["policy"] != "on_demand"]
    assert {(float(row["rate"]), row["policy"]) for row in of_long} == {
        (rate, policy) for rate in (0.1, 0.6, 1.3) for policy in ("spot", "spot_then_on_demand")
    }


def test_with_a_fall_back_it_is_four_times_cheaper_and_in_time(committed):
    backed = [
        row for row in committed
        if row["experiment"] == "SHA(64,4,508,2)" and row["policy"] == "spot_then_on_demand" and float(row["rate"]) < 1
    ]  # fmt: skip
    assert len(backed) == 2
    for row in backed:
        assert float(row["cheaper"]) >= 4.0
        assert float(row["missed"]) <= 0.01


def test_usage_errors_write_nothing():
    done = subprocess.run(
        [sys.executable, str(SPOT), "--seeds", "1"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "a part of the measurement must not replace the whole" in done.stderr
