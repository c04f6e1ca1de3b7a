"""What a plan is worth when what it was made from is wrong: a small part, which must come out as it does anywhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from evaluation_part import RESULTS, lines_of, measured

ERRORS = "{'iterations': (0.5, 2.0), 'price': (1.5,), 'start': (0.3,)}"
MEASURE = "from sensitivity.measuring import measure; "
MEASURE += f"measure(Path(sys.argv[1]), ['SHA(32,1,50,3)'], [3.0], {ERRORS}, seeds=1, quick=True)"


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("sensitivity")
    measured(MEASURE, str(out))
    return out


@pytest.fixture(scope="module")
def rows(part) -> dict[tuple[str, str, str], dict[str, str]]:
    lines = lines_of(part / "sensitivity.csv")
    return {(line["wrong"], line["factor"], line["runner"]): line for line in lines}


def test_who_knows_the_truth_is_in_time_and_the_measure(rows):
    informed = [line for (_, _, runner), line in rows.items() if runner == "informed"]
    assert len(informed) == 4
    assert {line["late"] for line in informed} == {"0"}
    assert {line["against_informed"] for line in informed} == {"1"}
    assert len({line["cost_usd"] for line in informed}) == 1


def test_too_optimistic_a_profile_is_late_unless_it_is_planned_anew(rows):
    kept, replanned = (rows["iterations", "0.5", runner] for runner in ("kept", "replanned"))
    assert (kept["late"], replanned["late"]) == ("1", "0")
    assert float(kept["latest"]) > 1.5
    assert float(replanned["changes"]) >= 1
    assert float(rows["start", "0.3", "kept"]["latest"]) > float(rows["start", "0.3", "informed"]["latest"])


def test_too_pessimistic_a_profile_pays_more(rows):
    kept, replanned = (float(rows["iterations", "2", runner]["against_informed"]) for runner in ("kept", "replanned"))
    assert kept > replanned > 1


def test_what_is_paid_are_the_true_prices(rows):
    """Nothing in the run can show that a price is wrong: both runs are the same, and cost the same."""
    kept, replanned = (rows["price", "1.5", runner] for runner in ("kept", "replanned"))
    assert kept["cost_usd"] == replanned["cost_usd"]
    assert float(kept["against_informed"]) >= 1


def test_page_and_chart_follow_from_the_figures(part, tmp_path):
    shutil.copy(part / "sensitivity.csv", tmp_path)
    measured("from sensitivity.measuring import write_page; write_page(Path(sys.argv[1]), quick=True)", str(tmp_path))
    for name in ("sensitivity.md", "sensitivity.svg"):
        assert (tmp_path / name).read_bytes() == (part / name).read_bytes()


def test_the_committed_page_follows_from_the_committed_figures(tmp_path):
    for figures in RESULTS.glob("sensitivity/sensitivity.csv"):
        shutil.copy(figures, tmp_path)
        code = "from sensitivity.measuring import write_page; write_page(Path(sys.argv[1]), quick=False)"
        measured(code, str(tmp_path))
        page = figures.with_suffix(".md").read_text(encoding="utf-8")
        assert (tmp_path / "sensitivity.md").read_text(encoding="utf-8") == page


GROWING = """
from sensitivity.cases import Case
from rb_core.sim.rehearsal import rehearse_once
case = Case(experiment="Hyperband(81,3)", deadline_factor=3.0, wrong="noise", factor=0.5)
assert rehearse_once(case.believed, case.plan("exact"), seed=11, truth=case.true, replan=True).finished
"""


def test_a_chain_that_grows_leaves_others_the_nodes_on_which_their_trials_still_run():
    """One has fewer nodes in its new plan than it can give back before its barrier; another waited for them."""
    measured(GROWING)
