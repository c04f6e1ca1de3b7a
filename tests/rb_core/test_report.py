from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from rb_core.hardware import Cloud, InstanceType, Latency, PriceDate
from rb_core.ledger import Items, Ledger, StageCost
from rb_core.measurement import BETWEEN_RUNS_CV
from rb_core.plan import AllocationPlan, Objective, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.report import (
    Table,
    aged,
    bill_table,
    comparison_table,
    duration,
    kept,
    limit_line,
    missed,
    money,
    outcome_table,
    plan_table,
    profile_table,
    seconds,
    summary,
    trials_table,
)
from rb_core.simulate import Estimate, StageEstimate
from rb_core.spec import ExperimentSpec
from rb_core.state import RunState, StageState, TrialPhase, TrialState

SAMPLES = np.linspace(0.0, 100.0, 101)


def problem(**objective: float) -> Problem:
    return Problem(
        experiment=ExperimentSpec.from_stages([(4, 2), (1, 6)]),
        profile=ScalingProfile(iteration_s={1: Latency(mean=3.0)}),
        cloud=Cloud(instance_types=(InstanceType(name="box", slots=2, usd_per_hour=3.6),)),
        objective=Objective(**objective) if objective else None,
    )


PLAN = AllocationPlan(
    chains=((StageAllocation(instance_type="box", nodes=2, slots_per_trial=1),
             StageAllocation(instance_type="box", nodes=1, slots_per_trial=2)),)
)  # fmt: skip


def estimate() -> Estimate:
    first = StageEstimate(
        chain=0, stage=0, start_s=SAMPLES * 0, end_s=SAMPLES, cost_usd=SAMPLES / 100, idle_fraction=SAMPLES * 0 + 0.25
    )
    second = StageEstimate(
        chain=0, stage=1, start_s=SAMPLES, end_s=SAMPLES + 10, cost_usd=SAMPLES * 0 + 2, idle_fraction=SAMPLES * 0
    )
    return Estimate(jct_s=SAMPLES + 10, cost_usd=SAMPLES / 100 + 2, stages=(first, second))


def run_state(mode: str = "max") -> RunState:
    trials = {
        number: TrialState(trial=number, chain=0, config={"lr": 0.123456, "kind": "a"}, phase=phase, scores=scores)
        for number, (phase, scores) in enumerate(
            [
                (TrialPhase.STOPPED, {2: 0.5}),
                (TrialPhase.FINISHED, {2: 0.7, 8: 0.9}),
                (TrialPhase.FAILED, {}),
                (TrialPhase.STOPPED, {2: float("nan")}),
            ]
        )
    }
    stages = [
        StageState(chain=0, stage=0, lane=0, trials=(0, 1, 2, 3), instance_type="box", nodes=2, slots_per_trial=1,
                   start_s=0.0, end_s=55.0),
        StageState(chain=0, stage=1, lane=0, trials=(1,), instance_type="box", nodes=1, slots_per_trial=2,
                   start_s=55.0),
    ]  # fmt: skip
    return RunState(run="r", metric="accuracy", mode=mode, stage_counts=(2,), t_s=60.0, trials=trials, stages=stages)


def test_a_table_as_text_is_aligned():
    table = Table(title="T", columns=("a", "long"), rows=(("first", "1"), ("x", "22")))
    assert table.text() == "T\na      long\nfirst     1\nx        22"
    words = Table(title="T", columns=("a", "long"), rows=(("first", "1"), ("x", "22")), words=("long",))
    assert words.text() == "T\na      long\nfirst  1\nx      22"


def test_summary_holds_mean_std_and_the_agreed_quantiles():
    assert summary(SAMPLES) == pytest.approx(
        {"mean": 50.0, "std": np.std(SAMPLES), "p05": 5.0, "p10": 10.0, "p50": 50.0, "p90": 90.0, "p95": 95.0}
    )


@pytest.mark.parametrize(
    ("time_s", "words"),
    [(0, "0.0 s"), (8.44, "8.4 s"), (99.94, "99.9 s"), (99.96, "1 min 40 s"), (725, "12 min 05 s"),
     (5999.6, "1 h 40 min"), (11230, "3 h 07 min")],
)  # fmt: skip
def test_durations(time_s, words):
    assert duration(time_s) == words


@pytest.mark.parametrize(
    ("usd", "words"),
    [(0, "0.00 usd"), (12.4, "12.40 usd"), (1.2345, "1.234 usd"), (0.0312, "0.0312 usd"), (0.00031, "0.000310 usd")],
)
def test_money_is_never_rounded_to_nothing(usd, words):
    assert money(usd) == words


def test_short_times_keep_three_digits():
    assert seconds(0.03124) == "0.0312 s"
    assert seconds(0) == "0 s"
    assert seconds(3600) == "60 min 00 s"


def test_plan_table_gives_the_spread_of_every_stage_and_of_all():
    table = plan_table(problem(), PLAN, estimate())
    assert table.rows == (
        ("0", "4 x 2", "2 box", "1", "5.0 s .. 95.0 s", "0.0500 usd .. 0.9500 usd", "25%"),
        ("1", "1 x 6", "1 box", "2", "10.0 s", "2.000 usd", "0%"),
        ("all", "", "", "", "15.0 s .. 1 min 45 s", "2.050 usd .. 2.950 usd", ""),
    )


def test_comparison_leaves_out_itself_and_says_what_misses():
    baselines = {"greedy": (100.0, 2.0), "static": (90.0, 4.0), "naive": None, "static-1": (100.0, 2.0)}
    rows = {row[0]: row[1:] for row in comparison_table("greedy", (100.0, 2.0), baselines, 1.0).rows}
    assert rows == {
        "this plan (greedy)": ("1 min 40 s", "2.000 usd", ""),
        "static": ("90.0 s", "4.000 usd", "-50.0%"),
        "naive": ("misses the objective", "", ""),
        "static-1": ("1 min 40 s", "2.000 usd", "the same"),
        "lower bound": ("", "1.000 usd", "+100.0%"),
    }


def test_profile_table_gives_speeds_against_the_fewest_slots():
    profile = ScalingProfile(iteration_s={2: Latency(mean=2.0, std=0.1), 1: Latency(mean=3.0)}, trial_cv=0.05)
    table = profile_table(profile)
    assert table.rows == (("1", "3 s", "0 s", "1.00x"), ("2", "2 s", "0.1 s", "1.50x"))
    assert table.title.endswith("speed differs by 5.0% between configurations and by 0.0% between runs")


def test_profile_table_says_what_of_the_spread_between_runs_was_assumed():
    profile = ScalingProfile(iteration_s={1: Latency(mean=3.0)}, run_cv=0.13)
    assert profile_table(profile).title.endswith(" and by 13.0% between runs")
    measured = profile_table(profile, measured=True).title
    assert measured.endswith(" and by 13.0% (5.0% assumed, 12.0% measured) between runs")
    assert BETWEEN_RUNS_CV == 0.05


def test_outcome_table_puts_actual_beside_predicted_and_marks_what_has_not_ended():
    costs = tuple(
        StageCost(chain=0, stage=k, start_s=0.0, end_s=None, cost_usd=usd, idle_fraction=0.0)
        for k, usd in enumerate((0.6, 0.1))
    )
    table = outcome_table(estimate(), run_state(), Ledger(cost_usd=0.7, stages=costs))
    assert table.rows[0] == ("0", "4", "2 box", "1", "50.0 s", "55.0 s", "0.5000 usd", "0.6000 usd")
    assert table.rows[1][5] == "5.0 s (not ended)"
    assert table.rows[2][-2:] == ("2.500 usd (2.050 usd .. 2.950 usd)", "0.7000 usd")
    assert table.rows[2][5] == "60.0 s (not ended)"


def test_outcome_table_counts_what_has_not_ended_up_to_now():
    state = run_state()
    costs = tuple(
        StageCost(chain=0, stage=k, start_s=0.0, end_s=None, cost_usd=0.1, idle_fraction=0.0) for k in range(2)
    )
    table = outcome_table(estimate(), state, Ledger(cost_usd=0.2, stages=costs), state.t_s + 30.0)
    assert [row[5] for row in table.rows] == ["55.0 s", "35.0 s (not ended)", "90.0 s (not ended)"]


@pytest.mark.parametrize(("mode", "order"), [("max", ["1", "0", "3", "2"]), ("min", ["0", "1", "3", "2"])])
def test_trials_table_puts_the_best_first_and_the_failed_last(mode, order):
    table = trials_table(run_state(mode))
    assert [row[0] for row in table.rows] == order
    assert table.rows[0][4] == "lr=0.1235, kind=a"
    assert trials_table(run_state(mode), most=2).title == "Trials (the best 2 of 4)"


def test_what_was_missed_is_said_with_how_much():
    assert missed(problem(), 1e9, 1e9) == ""
    assert missed(problem(deadline_s=100), 100, 1e9) == ""
    assert missed(problem(deadline_s=100), 125, 0) == "the deadline of 1 min 40 s was missed by 25.0 s (25%)"
    assert missed(problem(budget_usd=2), 0, 3) == "the budget of 2.000 usd was exceeded by 1.000 usd (50%)"


def test_what_was_kept_is_said_with_how_much_was_left():
    assert kept(problem(), 0, 0) == kept(problem(deadline_s=100), 125, 0) == kept(problem(budget_usd=2), 0, 3) == ""
    assert kept(problem(deadline_s=100), 75, 1e9) == "the deadline of 1 min 40 s was kept, with 25.0 s (25%) to spare"
    assert kept(problem(budget_usd=2), 1e9, 1) == "the budget of 2.000 usd was kept, with 1.000 usd (50%) to spare"


@pytest.mark.parametrize(
    ("objective", "factor", "line"),
    [
        ({"deadline_s": 45}, None, "deadline: 45.0 s; this plan is expected to end 5.0 s before it"),
        ({"deadline_s": 39}, None, "deadline: 39.0 s; this plan is expected to end 1.0 s after it"),
        (
            {"deadline_s": 13650}, 1.5,
            "deadline: 3 h 48 min (13650 s), 1.5 times the fastest plan's 2 h 32 min; "
            "this plan is expected to end 3 h 47 min before it",
        ),
        ({"budget_usd": 5}, None, "budget: 5.000 usd; this plan is expected to cost 2.000 usd less"),
        ({"budget_usd": 2.5}, None, "budget: 2.500 usd; this plan is expected to cost 0.5000 usd more"),
    ],
)  # fmt: skip
def test_the_limit_of_a_plan_is_said_in_a_line(objective, factor, line):
    assert limit_line(Objective(**objective), (40.0, 3.0), factor=factor) == line


def test_a_bill_shows_what_cost_something_and_where_its_prices_came_from():
    bill = Ledger(cost_usd=4.0, stages=(), items=Items(spot_usd=3.0, disk_usd=0.75, rounding_usd=0.25))
    lines = bill_table(bill, PriceDate(book="aws", dated="2026-12-02")).text().splitlines()
    assert lines[0] == "Bill (prices of 2026-12-02, price book aws)"
    assert [line.split()[-3:] for line in lines[2:5]] == [
        ["3.000", "usd", "75.0%"], ["0.7500", "usd", "18.8%"], ["0.2500", "usd", "6.2%"]
    ]  # fmt: skip
    assert [line.split("  ")[0] for line in lines[2:]] == ["nodes on spot", "disks", "rounding and minimum", "all"]
    assert bill_table(bill, None).title == "Bill"


def test_prices_are_old_after_180_days():
    prices = PriceDate(book="ec2", dated="2026-01-01")
    assert aged(prices, date(2026, 6, 30)) == ""
    warning = aged(prices, date(2026, 7, 1))
    assert "'ec2' are of 2026-01-01, 181 days ago" in warning
    assert 'catalog = "aws"' in warning
