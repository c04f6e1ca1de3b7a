"""Equal dollars: ASHA against schedules made by hand, bills by the bill, limits kept, and comparisons that add up."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from source_tree import ROOT

from rb_core.billing import bill
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.spec import ExperimentSpec

sys.path.insert(0, str(ROOT / "examples" / "evaluation"))

from curves.fetch import SCAN_BENCH
from curves.profiling import profiled
from curves.recordings import Pool, Recording
from dollars.asha import VARIANTS, Promoting, Stopping
from dollars.choices import Choice, chosen, of_way
from dollars.contest import contest
from dollars.engine import largest, on_fixed, planned
from dollars.fixed import rungs_of, tuned
from dollars.purse import Purse, affordable_s, cluster_usd, in_hand
from dollars.rows import NODES, OURS, SHA, Case, Row, worked_out
from dollars.tables import written
from table import read_csv, write_csv

PROMOTING, STOPPING = VARIANTS
SCORES = (0.1, 0.3, 0.2, 0.4)
"""After the first of two iterations; after the second each is 1 higher, so that the finished ones win."""


def pool_of(scores=SCORES, *, seconds=None, init_s=0.0, most=2) -> Pool:
    box = InstanceType(name="box", slots=2, usd_per_hour=3600.0)
    return Pool(
        name="small",
        source=SCAN_BENCH,
        mode="max",
        recordings=tuple(
            Recording(
                name=str(number), scores=(score, score + 1), tests=(score, score + 0.9),
                seconds={1: (took, took), 2: (took / 2, took / 2)},
            )
            for number, (score, took) in enumerate(zip(scores, seconds or (10.0,) * len(scores), strict=True))
        ),
        rungs=(1, 2),
        eta=2,
        experiment=lambda n: ExperimentSpec.successive_halving(n=n, r=1, R=2, eta=2),
        cloud=Cloud(
            instance_types=(box,), max_nodes=most, init_s=Latency(mean=init_s), billing=Billing(minimum_s=0.0)
        ),
        start_s=Latency(mean=2.0),
        save_s=Latency(mean=1.0),
        sync_s=0.0,
    )  # fmt: skip


def test_promoting_takes_the_best_half_of_a_rung_from_the_top_down():
    asha = Promoting(5, 3, 2, "max")
    assert [asha.offer() for _ in range(2)] == [(0, 0, False), (1, 0, False)]
    asha.reached(0, 0, 0.5)
    assert asha.offer() == (2, 0, False)
    asha.reached(1, 0, 0.7)
    assert asha.offer() == (1, 1, False)
    asha.reached(2, 0, 0.9)
    # One of three: the best, which waits.
    assert asha.offer() == (2, 1, False)
    asha.reached(1, 1, 0.8)
    asha.reached(2, 1, 0.6)
    # The upper rung goes first, and its best has the better score there.
    assert asha.offer() == (1, 2, False)
    assert asha.offer() == (3, 0, False)


def test_promoting_leaves_no_place_idle_when_nothing_is_left_to_begin():
    asha = Promoting(2, 2, 2, "min")
    asha.offer(), asha.offer()
    asha.reached(0, 0, math.nan)
    assert asha.offer() is None
    asha.reached(1, 0, 3.0)
    assert asha.offer() == (1, 1, False)
    assert asha.offer() is None


def test_stopping_compares_with_those_that_came_before():
    asha = Stopping(9, 2, 2, "min")
    assert asha.reached(0, 0, 5.0) == (0, 1, True)
    assert asha.reached(1, 0, 6.0) is None
    # The median of 5 and 6 is 5.5.
    assert asha.reached(2, 0, 5.5) == (2, 1, True)
    assert asha.reached(3, 0, math.nan) is None
    assert asha.reached(4, 0, 5.6) is None
    assert asha.reached(0, 1, 4.0) is None
    assert asha.offer() == (0, 0, False)


def run(pool: Pool, variant: str, *, usd: float, deadline_s: float, nodes=1, width=1, eta=2):
    purse = Purse(budget_usd=usd, deadline_s=deadline_s)
    return tuned(pool, pool.recordings, purse, variant=variant, eta=eta, nodes=nodes, width=width, seed=0)


def test_a_promoting_schedule_by_hand():
    """Two places: 0 and 1 reach the rung at 12 and are saved by 13, when 1 is promoted and 2 begins; both end at 25."""
    pool = pool_of((0.1, 0.3, 0.2))
    bought = run(pool, PROMOTING, usd=26.0, deadline_s=100.0)
    assert (bought.score, bought.test, bought.trials, bought.finished) == (1.3, 1.2, 3, 1)
    assert bought.cost_usd == pytest.approx(26.0, abs=2e-3)
    # Two seconds less, and 1 has not been trained to its end.
    assert run(pool, PROMOTING, usd=24.0, deadline_s=100.0).score == 0.3
    # With time to spare all three are trained, the last ones because nothing else is left, and the node is given back:
    # 2 and 0 go on at 26, and reach the end at 38.
    whole = run(pool, PROMOTING, usd=100.0, deadline_s=100.0)
    assert (whole.finished, whole.ended_s, whole.cost_usd) == (3, 39.0, 39.0)


def test_a_stopping_schedule_by_hand():
    """One trial at a time: 0 goes on without a start, ends at 22, 1 begins at 23, and is first stopped or goes on."""
    bought = run(pool_of(), STOPPING, usd=1000.0, deadline_s=1000.0, width=2)
    # 5 s an iteration: 0 until 12, saved by 13; 1 begins, is better, and ends at 25; 2 is at the median of 0 and 1,
    # and ends at 38; 3 ends at 51, is better, and is saved by 52.
    assert (bought.finished, bought.trials, bought.score, bought.ended_s) == (4, 4, 1.4, 52.0)
    worse = run(pool_of((0.4, 0.3, 0.2, 0.1)), STOPPING, usd=1000.0, deadline_s=1000.0, width=2)
    # 0 until 12 and saved by 13; the others are stopped after one iteration: 7 s and a save each.
    assert (worse.finished, worse.trials, worse.score, worse.ended_s) == (1, 4, 1.4, 13.0 + 3 * 8.0)


def test_a_cluster_that_comes_too_late_trains_nothing_and_costs_its_bill():
    bought = run(pool_of(init_s=50.0), PROMOTING, usd=1000.0, deadline_s=40.0, nodes=2)
    assert math.isnan(bought.score)
    assert (bought.trials, bought.cost_usd) == (0, 80.0)


@pytest.mark.parametrize(("granularity_s", "minimum_s"), [(1.0, 60.0), (3600.0, 0.0)])
def test_money_is_spent_to_the_last_second_and_never_beyond(granularity_s, minimum_s):
    cloud = Cloud(
        instance_types=(InstanceType(name="box", slots=1, usd_per_hour=36.0),),
        billing=Billing(granularity_s=granularity_s, minimum_s=minimum_s),
    )
    running_s, purse = [5.0, 9.0], Purse(budget_usd=75.0, deadline_s=1e6)
    until_s = affordable_s(cloud, running_s, purse)
    told = bill(cloud.billing, usd_per_s=0.01, running_s=running_s, released_s=until_s).sum()
    assert cluster_usd(cloud, running_s, until_s) == pytest.approx(told)
    assert told <= 75.0 < cluster_usd(cloud, running_s, until_s + 1.0)
    assert affordable_s(cloud, running_s, Purse(budget_usd=75.0, deadline_s=50.0)) == 50.0


def test_rungs_of_a_larger_eta():
    pool = pool_of()
    assert rungs_of(pool, 2) == (1, 2)
    assert rungs_of(pool, 4) == (1, 2)
    with pytest.raises(ValueError, match="power of 2, got 3"):
        rungs_of(pool, 3)


def test_the_best_by_validation_is_in_hand_even_if_it_is_not_the_newest():
    pool = pool_of()
    falling = Recording(name="f", scores=(0.9, 0.2), tests=(0.7, 0.1), seconds={1: (1.0, 1.0)})
    bought = in_hand(pool, [falling], [(0, 1), (0, 2)], trials=1, cost_usd=1.0, ended_s=2.0)
    assert (bought.score, bought.test, bought.finished) == (0.9, 0.7, 1)


@pytest.mark.parametrize("answer", [0, 1, 5, 10])
def test_the_largest_that_fits(answer):
    assert largest(lambda number: number <= answer, 10) == answer


def test_halving_on_a_fixed_cluster_is_as_large_as_fits_and_keeps_its_limits():
    """On one node with two places four trials take two rounds of 13 s and the two best another: 39 s."""
    pool = pool_of()
    profile = profiled(pool, pool.recordings)
    asked = {"nodes": 1, "width": 1, "seed": 0}
    wide = on_fixed(pool, pool.recordings, profile, Purse(budget_usd=100.0, deadline_s=100.0), **asked)
    assert (wide.trials, wide.finished, wide.score) == (4, 2, 1.4)
    assert wide.cost_usd == pytest.approx(39.0)
    tight = on_fixed(pool, pool.recordings, profile, Purse(budget_usd=30.0, deadline_s=100.0), **asked)
    assert tight.trials < 4
    assert tight.cost_usd <= 30.0
    assert on_fixed(pool, pool.recordings, profile, Purse(budget_usd=5.0, deadline_s=100.0), **asked) is None


def test_a_run_that_is_slower_than_its_profile_stops_at_its_money():
    pool = pool_of(seconds=(10.0, 10.0, 200.0, 200.0))
    profile = profiled(pool, pool.recordings[:2])
    purse = Purse(budget_usd=60.0, deadline_s=1000.0)
    bought = planned(pool, pool.recordings, profile, purse, profiling_s=3.0, seed=0)
    assert bought.cost_usd <= 60.0
    assert bought.score >= 0.3


def test_nothing_is_bought_where_profiling_takes_it_all():
    pool = pool_of()
    profile = profiled(pool, pool.recordings)
    purse = Purse(budget_usd=60.0, deadline_s=1000.0)
    assert planned(pool, pool.recordings, profile, purse, profiling_s=60.0, seed=0) is None


def test_comparisons():
    one = contest([0.0, 0.1, 0.2, math.inf, math.inf], [0.1, 0.1, 0.1, 0.0, math.inf])
    assert (one.wins, one.losses, one.ties) == (1, 2, 2)
    assert one.p == pytest.approx(1.0)
    assert one.difference == pytest.approx(0.0)
    assert -0.1 <= one.low <= one.high <= 0.1
    assert contest([0.0] * 10, [0.1] * 10).p == pytest.approx(2 / 2**10)


def test_rows_and_page(tmp_path):
    case = Case(pool=pool_of(most=8), purse=Purse(budget_usd=60.0, deadline_s=60.0), profiling_s=1.0)
    rows = [row for seed in range(2) for row in worked_out(case, seed)]
    assert len(rows) == 2 * (1 + len(NODES) * 2 * (1 + 2 * 2))
    assert all(row.cost_usd <= 60.0 + 1e-6 and row.ended_s <= 60.0 + 1.0 for row in rows)
    kept, choices = chosen(rows)
    assert len(kept) == 2 * (1 + 3)
    for way in (SHA, *VARIANTS):
        medians = {
            (c.nodes, c.width, c.eta): c.median for c in choices if c.way == way
        }  # fmt: skip
        (best,) = [c for c in choices if c.way == way and c.in_hindsight]
        assert best.median == min(medians.values())
        assert np.median([row.regret for row in of_way(kept, way)]) == pytest.approx(best.median)
    write_csv(tmp_path / "dollars.csv", kept)
    write_csv(tmp_path / "choices.csv", choices)
    again = read_csv(tmp_path / "dollars.csv", Row), read_csv(tmp_path / "choices.csv", Choice)
    page = written(*again, "Made by hand.", [str(SCAN_BENCH)])
    assert "| small | 60 usd | 0.0166667 h | 2 | " in page
    assert f"small, against {SHA} in hindsight, 1 settings" in page
    assert {row.way for row in kept} == {OURS, SHA, *VARIANTS}
