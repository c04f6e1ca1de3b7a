"""Fidelity: two tiny real runs through the whole of it, its arithmetic, and its coverage on a few rehearsals."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from source_tree import ROOT

from rb_core.events import RunEnded, RunEnding, StageEnded, TrialPaused, TrialReported, TrialStarted
from rb_core.hardware import Latency
from rb_core.profile import ScalingProfile

sys.path.insert(0, str(ROOT / "examples" / "evaluation"))

from fidelity.__main__ import main
from fidelity.bands import Band, Coverage, rank_of
from fidelity.cases import LAST_OWN, REPETITIONS, Case, case_of, cases, quick_cases
from fidelity.measured import Run
from fidelity.parts import parts_of
from fidelity.rehearsals import PROBLEMS, Rehearsed, covered, rehearsed
from fidelity.study import measure, write_pages
from fidelity.tables import of_runs
from fidelity.workloads import WORKLOADS
from table import read_csv, write_csv

TINY = [case_of("relaxation/tiny/0"), case_of("relaxation/tiny-late/0")]
AT = {"utc": "2026-12-03T00:00:00+00:00"}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def made(tmp_path_factory, own_home) -> Path:
    """Two real runs, 40 rehearsals, and all that is written of them."""
    out = tmp_path_factory.mktemp("fidelity")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fidelity.cases.PROFILING_S", 5.0)
        measure(out, TINY)
    every: list[Rehearsed] = []
    rows = []
    for true_cv in (0.0, 0.2):
        for name in list(PROBLEMS)[:2]:
            own = list(rehearsed(name, true_cv, 10))
            every += own
            rows += [covered(name, own, run_cv=run_cv) for run_cv in dict.fromkeys((0.0, true_cv))]
    write_csv(out / "rehearsals.csv", every)
    write_csv(out / "covered.csv", rows)
    write_pages(out, quick=True)
    return out


def test_real_runs_are_held_against_what_was_forecast_before_them(made):
    rows = read_csv(made / "runs.csv", Run)
    assert [row.name for row in rows] == [case.name for case in TINY]
    assert {row.profile for row in rows} == {"relaxation/0"}
    assert rows[1].age_s > rows[0].jct_s
    assert rows[0].seed != rows[1].seed
    for row in rows:
        assert 0 < row.jct_p10_s <= row.jct_p50_s <= row.jct_p90_s
        assert row.jct_inside is (row.jct_p10_s <= row.jct_s <= row.jct_p90_s)
        assert row.cost_inside is (row.cost_p10_usd <= row.cost_usd <= row.cost_p90_usd)
        # One or two nodes at a tenth of a cent a second, for no longer than the run.
        assert 0.0 < row.cost_usd < 0.002 * row.jct_s + 1e-4
        assert row.run_cv > 0
        assert row.iteration_ratio > 0
        assert row.command.endswith(f"-m fidelity {row.name}")


def test_pages_and_chart_follow_from_the_files(made):
    page = (made / "runs.md").read_text(encoding="utf-8")
    assert page == of_runs(read_csv(made / "runs.csv", Run), page.splitlines()[-1])
    assert "| all | " in page
    assert "relaxation/tiny-late/0" in page
    assert "| nothing | nothing | " in (made / "rehearsals.md").read_text(encoding="utf-8")
    assert "<svg" in (made / "fidelity.svg").read_text(encoding="utf-8")


def test_coverage_has_its_exact_binomial_interval():
    # Clopper and Pearson's interval of 8 in 10, from their tables.
    coverage = Coverage.counted(8, 10)
    assert (coverage.low, coverage.high) == pytest.approx((0.4439, 0.9748), abs=1e-4)
    assert str(coverage) == "8 of 10: 80 % (44 to 97)"
    assert Coverage.counted(10, 10).high == 1.0


def test_bands_hold_their_own_ends_and_ranks_are_shares():
    band = Band.of(np.arange(101.0))
    assert (band.p10, band.p50, band.p90) == (10.0, 50.0, 90.0)
    assert [band.holds(value) for value in (9.9, 10.0, 90.0, 90.1)] == [False, True, True, False]
    assert rank_of(2.0, np.array([1.0, 2.0, 2.0, 3.0])) == 0.5


def test_where_a_run_s_time_went_is_read_from_its_log():
    started = {"chain": 0, "stage": 0, "nodes": ("n",), "slots": 1, "from_iteration": 0}
    log = [
        TrialStarted(t_s=10.0, trial=0, **started, **AT),
        # 0.7 s of start and warm-up, iterations of 2 s, 0.3 s of save.
        *(TrialReported(t_s=12.7 + 2 * n, trial=0, iterations=n + 1, score=0.0, **AT) for n in range(4)),
        TrialPaused(t_s=19.0, trial=0, stage=0, iterations=4, **AT),
        StageEnded(t_s=19.01, chain=0, stage=0, survivors=(0,), stopped=(), **AT),
        TrialStarted(t_s=19.05, trial=0, **{**started, "stage": 1}, **AT),
        # A single iteration tells nothing of how long one takes.
        TrialReported(t_s=30.0, trial=0, iterations=5, score=0.0, **AT),
        TrialPaused(t_s=31.0, trial=0, stage=1, iterations=5, **AT),
        RunEnded(t_s=31.0, ending=RunEnding.DONE, **AT),
    ]
    parts = parts_of(log, ScalingProfile(iteration_s={1: Latency(mean=1.6)}))
    assert parts.iteration_ratio == pytest.approx(2.0 / 1.6)
    assert parts.around_s == pytest.approx(1.0)
    assert parts.barrier_s == pytest.approx(0.05)


def test_rehearsals_lie_in_bands_that_know_how_far_off_the_profile_is():
    name = "one stage of 10 in turns"
    true, off = (list(rehearsed(name, true_cv, 60)) for true_cv in (0.0, 0.2))
    assert {run.true_factor for run in true} == {1.0}
    assert 0.68 * 60 <= covered(name, true, run_cv=0.0).jct_inside <= 0.92 * 60
    assert covered(name, off, run_cv=0.0).jct_inside < 0.5 * 60
    assert 0.68 * 60 <= covered(name, off, run_cv=0.2).jct_inside <= 0.92 * 60
    assert off[:3] == list(rehearsed(name, 0.2, 3))


def test_the_whole_study_is_large_enough_and_of_all_kinds():
    whole, quick = cases(), quick_cases()
    assert len(whole) >= 50
    assert len(quick) == 12
    assert len({case.seed for case in whole}) == len(whole)
    for some in (whole, quick):
        assert {case.workload for case in some} == set(WORKLOADS)
        assert {case.own_profile for case in some} == {True, False}
        assert any(case.of_workload.launcher == "ddp" and 2 in case.of_shape.widths for case in some)
        assert any(case.of_shape.init_s > 0 for case in some)
        groups = [case.group for case in some]
        assert groups == sorted(groups, key=groups.index)
    for case in whole:
        case.of_shape.plan.check_fits(case.of_shape.experiment)
        assert case.of_shape.widths <= set(case.of_workload.slots)
        assert case_of(case.name) == case


def test_a_profile_of_its_own_is_of_its_own_configurations():
    own = Case(workload="perceptron", shape="one-stage", repetition=LAST_OWN)
    shared = Case(workload="perceptron", shape="one-stage", repetition=0)
    assert own.profiled == own.tuning
    assert shared.profiled.seed != shared.seed
    assert shared.profiled == dataclasses.replace(
        Case(workload="perceptron", shape="halving-2", repetition=0).profiled, cloud=shared.profiled.cloud
    )
    assert REPETITIONS > LAST_OWN


def test_an_unknown_run_is_told_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fidelity", "relaxation/round/0"])
    assert main() == 2
    told = capsys.readouterr().err
    assert "no run 'relaxation/round/0'" in told
    assert "halving-2" in told


def test_a_row_of_rehearsals_can_be_repeated_alone(monkeypatch, capsys):
    (row,) = [covered(name, list(rehearsed(name, 0.1, 4)), run_cv=0.1) for name in list(PROBLEMS)[-1:]]
    monkeypatch.setattr(sys, "argv", shlex.split(row.command.partition("-m ")[2]))
    assert main() == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line)
    assert told["jct_p90_s"] == str(row.jct_p90_s)
    assert told["cost_inside"] == str(row.cost_inside)
