"""The committed table: a part of it is worked out anew, and all of it keeps what the model promises."""

from __future__ import annotations

import shutil
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from evaluation_part import RESULTS, lines_of, measured

COMMITTED = RESULTS / "headline"
PLANNERS = {"static-1", "static", "static-beside", "naive", "greedy", "exact"}
CASE = ("experiment", "cloud", "workload", "deadline_factor")
PART = ("SHA(32,1,50,3)", "p3.8xlarge")
PAGES = ("table.md", "summary.md", "policies.md")
WORK_OUT = "from headline.working import work_out; "
WORK_OUT += "work_out(Path(sys.argv[3]), [sys.argv[1]], [sys.argv[2]], quick=False)"


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("headline")
    measured(WORK_OUT, *PART, str(out))
    return out


def of_part(lines):
    return [line for line in lines if (line["experiment"], line["cloud"]) == PART]


def near(text: str):
    """What may come out on another machine, of several plans at one price."""
    return pytest.approx(float(text), rel=2e-5, abs=2e-4)


def test_a_part_comes_out_as_committed(part):
    committed, anew = of_part(lines_of(COMMITTED / "table.csv")), lines_of(part / "table.csv")
    assert len(anew) == len(committed) == 4 * 6 * len(PLANNERS)
    for line, known in zip(anew, committed, strict=True):
        assert [line[key] for key in (*CASE, "planner")] == [known[key] for key in (*CASE, "planner")]
        assert bool(line["cost_usd"]) == bool(known["cost_usd"])
        if known["cost_usd"]:
            assert float(line["cost_usd"]) == near(known["cost_usd"])
        assert float(line["deadline_s"]) == pytest.approx(float(known["deadline_s"]), abs=0.11)
        assert float(line["lower_bound_usd"]) == near(known["lower_bound_usd"])


def test_a_part_of_the_policies_comes_out_as_committed(part):
    committed, anew = of_part(lines_of(COMMITTED / "policies.csv")), lines_of(part / "policies.csv")
    assert len(anew) == len(committed) == 4 * 6
    for line, known in zip(anew, committed, strict=True):
        assert [line[key] for key in CASE] == [known[key] for key in CASE]
        for key in line.keys() - set(CASE):
            assert float(line[key]) == pytest.approx(float(known[key]), rel=1e-4, abs=2e-5), key


def test_the_parts_of_the_pages_are_in_the_whole(part):
    for page, rows in (("summary.md", 6), ("policies.md", 6)):
        lines = (part / page).read_text(encoding="utf-8").splitlines()
        panels = [line for line in lines if line.startswith(f"| {PART[1]} |")]
        assert len(panels) == rows
        assert set(panels) <= set((COMMITTED / page).read_text(encoding="utf-8").splitlines())


def test_the_committed_pages_follow_from_the_committed_figures(tmp_path):
    for name in ("table.csv", "policies.csv"):
        shutil.copy(COMMITTED / name, tmp_path)
    code = "from headline.working import write_policies_page, write_table_pages; out = Path(sys.argv[1]); "
    measured(code + "write_table_pages(out, quick=False); write_policies_page(out, quick=False)", str(tmp_path))
    for page in PAGES:
        assert (tmp_path / page).read_text(encoding="utf-8") == (COMMITTED / page).read_text(encoding="utf-8")


def rows_of(lines):
    """By case and deadline, the lines by their planners."""
    rows = defaultdict(dict)
    for line in lines:
        rows[tuple(line[key] for key in CASE)][line["planner"]] = line
    return rows


def test_the_committed_figures_are_whole():
    rows = rows_of(lines_of(COMMITTED / "table.csv"))
    assert len(rows) == 3 * 3 * 4 * 6
    assert all(set(row) == PLANNERS for row in rows.values())
    policies = {tuple(line[key] for key in CASE): line for line in lines_of(COMMITTED / "policies.csv")}
    assert list(policies) == list(rows)
    for case, line in policies.items():
        exact = rows[case]["exact"]
        assert float(line["usd"]) == pytest.approx(float(exact["cost_usd"]), rel=2e-5)
        # Within a bracket the plan in words separates stages by ">".
        assert (line["grows"] == "0") or ">" in exact["plan"]


def test_no_planner_is_late_cheaper_than_exact_or_below_the_bound():
    for row in rows_of(lines_of(COMMITTED / "table.csv")).values():
        exact_usd, bound_usd = float(row["exact"]["cost_usd"]), float(row["exact"]["lower_bound_usd"])
        assert bound_usd <= exact_usd
        for line in row.values():
            if line["cost_usd"]:
                assert float(line["jct_s"]) <= float(line["deadline_s"]) + 0.11
                assert exact_usd <= float(line["cost_usd"]) + 2e-4


def test_more_time_never_costs_more():
    exact = [line for line in lines_of(COMMITTED / "table.csv") if line["planner"] == "exact"]
    for before, after in pairwise(exact):
        if [before[key] for key in CASE[:3]] == [after[key] for key in CASE[:3]]:
            assert float(after["cost_usd"]) <= float(before["cost_usd"]) + 2e-4


def test_early_release_always_saves():
    for line in lines_of(COMMITTED / "policies.csv"):
        assert float(line["early"]) > 0
        assert float(line["noisy_early"]) > float(line["noisy_early_95"]) >= 0
