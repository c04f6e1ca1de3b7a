"""The story that a log tells: times, money and ends agree with the log, the state and the ledger."""

import numpy as np
import pytest
from page_cases import log, plan, problem, story

from rb_core.events import (
    NodeLost,
    NodeReady,
    NodeRequested,
    NodeRunning,
    Replanned,
    RunEnded,
    RunEnding,
    RunResumed,
    StageEnded,
    TrialFailed,
    TrialLeft,
    TrialStarted,
    Warned,
)
from rb_core.ledger import ledger
from rb_core.report import duration, money
from rb_core.simulate import simulate
from rb_core.state import fold
from rb_plugins.page.comparing import side
from rb_plugins.page.marks import gathered
from rb_plugins.page.money import money_table
from rb_plugins.page.notes import notes
from rb_plugins.page.scale import Axis
from rb_plugins.page.spending import forecast_band
from rb_plugins.page.story import Doing, End, Note, Sort


def test_a_node_launches_starts_and_is_then_idle_or_busy_until_it_is_given_back():
    told, history = story(16), log(16)
    at = {
        kind: {e.node: e.t_s for e in history if isinstance(e, kind)}
        for kind in (NodeRequested, NodeRunning, NodeReady)
    }
    for node in told.nodes:
        launching, starting = node.spans[:2]
        assert (launching.doing, launching.start_s) == (Doing.LAUNCHING, at[NodeRequested][node.name])
        assert (starting.doing, starting.end_s) == (Doing.STARTING, at[NodeReady][node.name])
        assert node.end is End.RELEASED
        assert sum((s.end_s - s.start_s) * s.share for s in node.spans) == pytest.approx(node.end_s - launching.start_s)


@pytest.mark.parametrize("faulty", [False, True])
def test_spans_of_a_trial_follow_each_other_without_a_gap_and_begin_where_the_log_says(faulty):
    told, history = story(16, faulty=faulty), log(16, faulty=faulty)
    starts = {(f"trial {e.trial}", e.t_s) for e in history if isinstance(e, TrialStarted)}
    drawn = set()
    for trial in told.trials:
        for before, after in zip(trial.spans, trial.spans[1:], strict=False):
            assert after.start_s == pytest.approx(before.end_s)
        drawn |= {(trial.name, span.start_s) for span in trial.spans if span.doing is Doing.STARTING}
    assert drawn == {(name, at_s) for name, at_s in starts}


def test_ends_and_barriers_are_those_of_the_log():
    told, history = story(16), log(16)
    ends = [e for e in history if isinstance(e, StageEnded)]
    assert [stage.end_s for stage in told.stages] == [e.t_s for e in ends]
    over = {row.name: (row.end, row.end_s) for row in told.trials}
    for event in ends:
        for trial in event.stopped:
            assert over[f"trial {trial}"] == (End.STOPPED, event.t_s)
    assert [row.name for row in told.trials if row.end is End.FINISHED] == [f"trial {t}" for t in ends[-1].survivors]
    assert told.trials[0].end is End.FINISHED


@pytest.mark.parametrize("faulty", [False, True])
def test_money_is_the_ledgers_at_the_end_and_its_parts_sum_to_it(faulty):
    told = story(16, faulty=faulty)
    bill = ledger(fold(log(16, faulty=faulty)), problem(16).cloud)
    assert told.spent[-1].usd == pytest.approx(bill.cost_usd)
    assert all(a.usd <= b.usd + 1e-9 for a, b in zip(told.spent, told.spent[1:], strict=False))
    assert sum(share.usd for share in told.shares) == pytest.approx(bill.cost_usd)
    assert all(share.usd >= 0 for share in told.shares)


def test_the_band_ends_at_the_percentiles_of_the_forecast():
    estimate = simulate(problem(16), plan(16), samples=200, rng=np.random.default_rng(0))
    last = forecast_band(estimate, end_s=10 * float(estimate.jct_s.max()))[-1]
    assert (last.low, last.middle, last.high) == pytest.approx(np.quantile(estimate.cost_usd, [0.05, 0.5, 0.95]))


def test_every_fault_of_the_log_is_told():
    told, history = story(16, faulty=True), log(16, faulty=True)
    kinds = [note.kind for note in told.notes]
    lost = sum(isinstance(e, NodeLost) for e in history)
    failed = sum(isinstance(e, TrialFailed) for e in history)
    assert lost + failed > 0
    assert kinds.count("node lost") + kinds.count("node reclaimed") == lost
    assert kinds.count("trial failed") == failed
    assert story(16).notes == ()


def test_every_sort_of_change_is_told_with_its_reason():
    at = {"t_s": 12.0, "utc": ""}
    figures = {"jct_s": 60.0, "cost_usd": 1.0, "before_jct_s": 90.0, "before_cost_usd": 2.0}
    told = notes(
        [
            Replanned(**at, chain=0, stage=1, plan={}, reason="iterations take longer", **figures),
            Warned(**at, text="prices are old"),
            RunEnded(**at, ending=RunEnding.INTERRUPTED, reason="stopped by its user"),
            RunResumed(**at, problem={}, environment={}, clock="", clock_s=0.0),
            TrialLeft(**at, trial=3, stage=1, cause="has no more to run"),
            RunEnded(**at, ending=RunEnding.DONE),
        ],
        began_s=2.0,
    )
    assert [note.sort for note in told] == [Sort.CHANGE, Sort.WARNING, Sort.BREAK, Sort.RESUMED, Sort.FAULT]
    assert {note.t_s for note in told} == {10.0}
    assert "iterations take longer" in told[0].reason
    assert duration(60.0) in told[0].reason
    assert [note.reason for note in told[1:3]] == ["prices are old", "stopped by its user"]


def test_a_value_is_beside_the_forecast_outside_of_its_fifth_to_ninety_fifth_percentile():
    values = np.linspace(0.0, 100.0, 1001)
    assert [side(value, values) for value in (4.9, 5.1, 50.0, 94.9, 95.1)] == ["below", "", "", "", "above"]
    assert side(7.0, np.full(9, 7.0)) == ""


def test_notes_are_gathered_from_the_first_of_each_group_on():
    axis = Axis(low=0.0, high=100.0)
    told = [Note(t_s=t_s, sort=Sort.FAULT, kind="", subject="", reason="") for t_s in (0.0, 9.0, 10.0, 19.9, 60.0)]
    assert gathered(told, axis, 10) == [[0, 1], [2, 3], [4]]


def test_the_table_of_money_says_both_at_every_time_up_to_the_end():
    told = money_table(story(16))
    assert len(told.rows) == 11
    assert all(all(row[:4]) for row in told.rows)
    paid = [row[4] for row in told.rows if row[4]]
    assert len(paid) >= 10
    assert told.rows[0][4] == money(0.0)
