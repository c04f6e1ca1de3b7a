"""What is expected to be lost with nodes that are taken away: by hand, by sampling, and to the first order."""

import dataclasses
import math

import numpy as np
import pytest
from model_reference import worked_problem

from rb_core.draws import Draws
from rb_core.errors import InvalidInput
from rb_core.hardware import Market
from rb_core.interruption import Gaps, Interruption, interruption_of, stage_trial_s
from rb_core.placement import Placement
from rb_core.plan import Problem


def losing(rate_per_s=1e-3, checkpoint_s=100.0, restart_s=20.0, wait_s=50.0, abreast=1):
    return Interruption(
        rate_per_s=rate_per_s, checkpoint_s=checkpoint_s, restart_s=restart_s, wait_s=wait_s, abreast=abreast
    )


def sampled(interruption, work_s, save_s, *, trials=1, samples=40_000, seed=0):
    gaps = Gaps(np.random.default_rng(seed), trials, samples, interruption.abreast)
    column = (np.full((1, 1), seconds) for seconds in (interruption.restart_s, work_s, save_s))
    return interruption.sampled(*column, gaps)


def test_a_single_leg_by_hand():
    # 30 s of work, 20 s of start, 10 s of save, once in 100 s: (e^0.6 - 1) (100 + 50).
    lost = losing(rate_per_s=0.01)
    assert lost.trial_s(30.0, 10.0) == pytest.approx((math.exp(0.6) - 1) * 150)
    assert lost.busy_s(30.0, 10.0) == pytest.approx((math.exp(0.6) - 1) * 100)


def test_legs_from_checkpoint_to_checkpoint_by_hand():
    # 250 s of work are legs of 100, 100 and 50 s, the first with the start and the last with 10 s of save.
    lost = losing(rate_per_s=0.01)
    legs = (math.exp(1.2) - 1) + math.exp(0.2) * (math.exp(1.0) - 1) + math.exp(0.2) * (math.exp(0.6) - 1)
    assert lost.trial_s(250.0, 10.0) == pytest.approx(legs * 150)
    # A checkpoint that falls on the end is the end: two legs of 100 s.
    legs = (math.exp(1.2) - 1) + math.exp(0.2) * (math.exp(1.1) - 1)
    assert lost.trial_s(200.0, 10.0) == pytest.approx(legs * 150)


def test_to_the_first_order_it_is_half_an_interval_and_start_and_wait():
    rare = losing(rate_per_s=1e-7)
    extra_s = rare.trial_s(1000.0, 0.0) - 1020.0
    # Interrupted in its 1,000 s of work, and in its 20 s of start, of which half is lost.
    assert extra_s == pytest.approx(1e-7 * (1000 * (50 + 20 + 50) + 20 * (10 + 50)), rel=1e-3)


@pytest.mark.parametrize("rate_per_s", [2e-4, 2e-3, 1e-2])
@pytest.mark.parametrize("work_s", [40.0, 250.0, 1000.0])
def test_samples_have_the_expected_mean(rate_per_s, work_s):
    lost = losing(rate_per_s=rate_per_s)
    lasting_s, busy_s = sampled(lost, work_s, 10.0)
    for values, wanted in ((lasting_s, lost.trial_s(work_s, 10.0)), (busy_s, lost.busy_s(work_s, 10.0))):
        error = float(values.std()) / math.sqrt(values.size)
        assert float(values.mean()) == pytest.approx(wanted, abs=4 * error)
    assert (lasting_s >= busy_s).all()
    assert busy_s.min() >= 20 + work_s + 10 - 1e-9


@pytest.mark.parametrize("together", [1, 4, 32])
def test_the_last_of_several_is_late_by_the_most_losses(together):
    lost = losing(rate_per_s=2e-4, wait_s=180.0)
    lasting_s, _ = sampled(lost, 3600.0, 1.0, trials=together, samples=4000)
    last_s, variance = lost.last_s(3600.0, 1.0, together)
    assert float(lasting_s.max(axis=0).mean()) == pytest.approx(last_s, rel=0.02)
    assert float(lasting_s.max(axis=0).std()) == pytest.approx(math.sqrt(variance), rel=0.4)


def test_trials_of_one_node_are_interrupted_together():
    lost = losing(rate_per_s=2e-3, abreast=2)
    lasting_s, _ = sampled(lost, 300.0, 1.0, trials=5, samples=50)
    assert (lasting_s[0] == lasting_s[1]).all()
    assert (lasting_s[2] == lasting_s[3]).all()
    assert (lasting_s[1] != lasting_s[2]).any()
    assert (lasting_s[3] != lasting_s[4]).any()
    assert lost.last_s(300.0, 1.0, 4) == losing(rate_per_s=2e-3).last_s(300.0, 1.0, 2)


def spot_problem(rate, **changes):
    problem = worked_problem()
    kind = dataclasses.replace(problem.cloud.instance_types[0], market=Market.SPOT, interruptions_per_hour=rate)
    return dataclasses.replace(problem, cloud=dataclasses.replace(problem.cloud, instance_types=(kind,)), **changes)


def test_a_trial_on_several_nodes_is_interrupted_as_often_as_all_of_them():
    problem = spot_problem(3.6, checkpoint_every_s=25.0)
    kind = problem.cloud.instance_types[0]
    on_one = interruption_of(problem, Placement(trials=2, slots_per_trial=1, node_slots=2, nodes=1), kind)
    on_two = interruption_of(problem, Placement(trials=1, slots_per_trial=4, node_slots=2, nodes=2), kind)
    assert (on_one.rate_per_s, on_one.abreast) == (pytest.approx(0.001), 2)
    assert (on_two.rate_per_s, on_two.abreast) == (pytest.approx(0.002), 1)
    # Iterations take 10 s and 4 s: the first that ends at or after 25 s is the third, and the seventh.
    assert (on_one.checkpoint_s, on_two.checkpoint_s) == (30.0, 28.0)
    assert (on_one.restart_s, on_one.wait_s) == (5.0, 90.0)


def test_where_trials_queue_only_the_last_round_counts_with_its_last():
    problem = spot_problem(3.6, checkpoint_every_s=1000.0)
    kind = problem.cloud.instance_types[0]
    queue = Placement(trials=4, slots_per_trial=2, node_slots=2, nodes=2)
    trial_s, _ = stage_trial_s(problem, 10, queue, kind)
    lost = interruption_of(problem, queue, kind)
    assert 2 * trial_s == pytest.approx(lost.trial_s(60.0, 1.0) + lost.last_s(60.0, 1.0, 2)[0])


def test_where_nothing_is_taken_away_nothing_is_lost():
    problem = worked_problem()
    placement = Placement(trials=4, slots_per_trial=1, node_slots=2, nodes=2)
    kind = problem.cloud.instance_types[0]
    assert interruption_of(problem, placement, kind) is None
    assert stage_trial_s(problem, 10, placement, kind) == (106.0, 0.0)
    # Nor do other random numbers change.
    plain, spot = (Draws(p, 3, np.random.default_rng(1)) for p in (problem, spot_problem(1.0)))
    assert (plain.noise(0, 0) == spot.noise(0, 0)).all()


def test_without_checkpoints_spot_is_refused():
    with pytest.raises(InvalidInput, match="saves nothing begins anew") as caught:
        spot_problem(0.1, checkpoint_every_s=math.inf)
    assert caught.value.key == "checkpoint_every_s"
    assert isinstance(spot_problem(0.0, checkpoint_every_s=math.inf), Problem)
    with pytest.raises(InvalidInput, match="checkpoint_every_s"):
        spot_problem(0.1, checkpoint_every_s=0.0)
