"""The committed measurement of spot: a small part is made anew, and all of it keeps what it is there to show."""

from __future__ import annotations

import shutil

import pytest
from evaluation_part import RESULTS, lines_of, measured

COMMITTED = RESULTS / "spot"
LEAST_SEEDS = 1000
MEASURE = "from spot.measuring import measure; "
MEASURE += "measure(Path(sys.argv[1]), ['SHA(64,4,508,2)'], [0.1], seeds=3, quick=True)"


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> list[dict[str, str]]:
    out = tmp_path_factory.mktemp("spot")
    measured(MEASURE, str(out))
    assert "times cheaper" in (out / "spot.md").read_text(encoding="utf-8")
    return lines_of(out / "spot.csv")


@pytest.fixture(scope="module")
def committed() -> list[dict[str, str]]:
    return lines_of(COMMITTED / "spot.csv")


def test_a_part_made_anew_is_as_the_whole(part, committed):
    assert [row["policy"] for row in part] == ["on_demand", "spot", "spot_then_on_demand"]
    for row in part:
        whole = next(
            line for line in committed
            if all(line[key] == row[key] for key in ("experiment", "policy", "rate", "unannounced"))
        )  # fmt: skip
        for key in ("deadline_s", "static_usd"):
            assert float(row[key]) == pytest.approx(float(whole[key]), rel=1e-5)
        if row["seeds"] == whole["seeds"]:
            for key in row.keys() - {"experiment", "policy"}:
                assert float(row[key]) == pytest.approx(float(whole[key]), rel=1e-4, abs=1e-4)
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
        and float(row["unannounced"]) == 0
    ]  # fmt: skip
    assert len(backed) == 2
    for row in backed:
        assert float(row["cheaper"]) >= 4.0
        assert float(row["missed"]) <= 0.01


def test_the_committed_page_follows_from_the_committed_figures(tmp_path):
    shutil.copy(COMMITTED / "spot.csv", tmp_path)
    measured("from spot.measuring import write_page; write_page(Path(sys.argv[1]), quick=False)", str(tmp_path))
    assert (tmp_path / "spot.md").read_text(encoding="utf-8") == (COMMITTED / "spot.md").read_text(encoding="utf-8")
