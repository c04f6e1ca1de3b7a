from dataclasses import replace

import pytest
from engine_world import World, plan, problem

from rb_core import events
from rb_core.hardware import Billing, BillingMode, InstanceType
from rb_core.ledger import cost_usd, ledger, released_usd
from rb_core.state import RunState, fold

CLOUD = problem().cloud
RENTED = problem(dataset_gib=0.5).cloud
"""3.6 usd an hour is 0.001 usd a second; a minute at least."""


def state(*told):
    start = events.RunStarted(
        t_s=0.0,
        utc="",
        run="r",
        problem={},
        plan={"stages": [{}, {}]},
        metric="m",
        mode="max",
        seed=0,
        target="",
        environment={},
    )
    stage = {"chain": 0, "trials": (), "instance_type": "a", "nodes": 1, "slots_per_trial": 1}
    made = [start, events.StageStarted(t_s=0.0, utc="", stage=0, **stage)]
    for t_s, kind, values in told:
        values = {**stage, **values} if kind is events.StageStarted else values
        made.append(kind(t_s=t_s, utc="", **values))
    return fold(made)


def requested(t_s, node="n0"):
    row = {"node": node, "chain": 0, "stage": 0, "instance_type": "a", "slots": 2, "usd_per_hour": 3.6}
    return (t_s, events.NodeRequested, row)


def runs(t_s, node="n0"):
    return (t_s, events.NodeRunning, {"node": node, "since_s": t_s})


def released(t_s, node="n0"):
    return (t_s, events.NodeReleased, {"node": node, "reason": ""})


def test_a_run_without_nodes_costs_nothing():
    assert cost_usd(RunState(), CLOUD) == 0.0
    assert ledger(state(), CLOUD, 10.0).stages[0].cost_usd == 0.0


def test_a_node_costs_from_running_until_it_is_given_back():
    told = state(requested(0), runs(30))
    assert cost_usd(told, CLOUD, 130.0) == pytest.approx(0.1)
    assert cost_usd(told, CLOUD, 130.2) == pytest.approx(0.101)
    gone = state(requested(0), runs(30), released(230))
    assert cost_usd(gone, CLOUD, 9999.0) == pytest.approx(0.2)


def test_a_node_costs_its_minimum_and_its_data():
    assert cost_usd(state(requested(0), runs(30)), RENTED, 40.0) == pytest.approx(0.06 + 0.5)


def test_a_request_that_never_ran_is_free_unless_it_is_a_commitment():
    waiting = state(requested(0))
    assert cost_usd(waiting, RENTED, 10.0) == 0.0
    assert cost_usd(waiting, RENTED, 10.0, committed=True) == pytest.approx(0.06 + 0.5)
    cancelled = state(requested(0), released(20))
    assert cost_usd(cancelled, RENTED, 30.0, committed=True) == 0.0


def test_settled_is_what_was_given_back_or_lost_in_the_lane():
    lost = (90.0, events.NodeLost, {"node": "n1", "reason": "reclaimed", "until_s": 80.0})
    told = state(*(requested(0, name) for name in ("n0", "n1", "n2")), runs(0), runs(0, "n1"), runs(0, "n2"), lost)
    assert released_usd(told, RENTED, lane=0) == pytest.approx(0.08 + 0.5)
    assert released_usd(told, RENTED, lane=1) == 0.0
    assert released_usd(state(), RENTED, lane=0) == 0.0
    gone = state(requested(0), runs(0), released(100))
    assert released_usd(gone, RENTED, lane=0) == pytest.approx(cost_usd(gone, RENTED))


def test_by_function_training_is_settled_as_it_ends():
    created = (0.0, events.TrialCreated, {"trial": 0, "chain": 0, "config": {}})
    start = {"trial": 0, "chain": 0, "stage": 0, "nodes": ("n0",), "slots": 1, "from_iteration": 0}
    paused = (150.0, events.TrialPaused, {"trial": 0, "stage": 0, "iterations": 1})
    told = state(created, requested(0), runs(0), (50.0, events.TrialStarted, start), paused)
    by_function = problem(billing=Billing(mode=BillingMode.PER_FUNCTION)).cloud
    assert released_usd(told, by_function, lane=0) == pytest.approx(100 * 0.001 / 2)
    assert released_usd(told, CLOUD, lane=0) == 0.0


def test_a_node_that_ran_unheard_is_billed_since_it_did():
    late = (200.0, events.NodeRunning, {"node": "n0", "since_s": 30.0})
    assert cost_usd(state(requested(0), late), CLOUD, 230.0) == pytest.approx(0.2)


def test_rounding_and_minimum_fall_to_the_stage_that_ends_with_the_release():
    barrier = (40.0, events.StageStarted, {"stage": 1})
    told = state(requested(0), requested(0, "n1"), runs(0), runs(10, "n1"), barrier, released(40, "n1"))
    first, second = ledger(told, RENTED, 100.0).stages
    assert first.cost_usd == pytest.approx(0.04 + 0.03 + 0.03 + 2 * 0.5)
    assert second.cost_usd == pytest.approx(0.06)
    assert first.cost_usd + second.cost_usd == pytest.approx(cost_usd(told, RENTED, 100.0))


def test_what_trains_now_counts_up_to_now():
    started = (50.0, events.TrialStarted, {"trial": 0, "nodes": ("n0",), "slots": 1})
    started[2].update(chain=0, stage=0, from_iteration=0)
    created = (0.0, events.TrialCreated, {"trial": 0, "chain": 0, "config": {}})
    told = state(created, requested(0), runs(0), started)
    assert ledger(told, CLOUD, 100.0).stages[0].idle_fraction == pytest.approx(1 - 50 / 200)
    by_function = problem(billing=Billing(mode=BillingMode.PER_FUNCTION)).cloud
    assert cost_usd(told, by_function, 100.0) == pytest.approx(50 * 0.001 / 2)


def test_by_function_only_training_is_billed():
    wanted = problem(billing=Billing(mode=BillingMode.PER_FUNCTION), dataset_gib=0.25)
    world = World()
    run = world.run(wanted, plan([(2, 1), (1, 2), (1, 2)]))
    book = ledger(run, wanted.cloud)
    trained_node_s = [4 * 106 / 2, 2 * 126, 246]
    assert [stage.cost_usd for stage in book.stages] == pytest.approx(
        [trained_node_s[0] * 0.001 + 0.5, trained_node_s[1] * 0.001, trained_node_s[2] * 0.001]
    )
    assert book.cost_usd == pytest.approx(sum(trained_node_s) * 0.001 + 0.5)
    assert [stage.idle_fraction for stage in book.stages] == [0.0, 0.0, 0.0]


def test_idle_time_is_what_nothing_trains_in():
    world = World()
    run = world.run(problem(), plan([(2, 1), (2, 2), (2, 4)]))
    held_slot_s = [170 * 4, 130 * 4, 170 * 4]
    trained_slot_s = [4 * 106, 2 * 2 * 126, 4 * 166]
    assert [stage.idle_fraction for stage in ledger(run, CLOUD).stages] == pytest.approx(
        [1 - trained / held for trained, held in zip(trained_slot_s, held_slot_s, strict=True)]
    )


FURNISHED = replace(
    CLOUD,
    dataset_gib=1.0,
    transfer_usd_per_gib=0.5,
    instance_types=(
        InstanceType(name="a", slots=2, usd_per_hour=3.6, disk_usd_per_hour=0.36, address_usd_per_hour=0.036),
    ),
    billing=Billing(),
)
"""A tenth of the price is for the disk, and a hundredth for the address."""


def bought(t_s, node, market="on_demand", usd_per_hour=3.6):
    _, kind, row = requested(t_s, node)
    return (t_s, kind, {**row, "market": market, "usd_per_hour": usd_per_hour})


def reclaimed(t_s, node):
    return (t_s, events.NodeLost, {"node": node, "reason": "spot", "until_s": t_s, "reclaimed": True})


def test_a_bill_is_itemised_and_its_items_add_up():
    told = state(
        *(bought(0, name) for name in ("day", "brief")),
        *(bought(0, name, "spot") for name in ("kept", "taken", "late")),
        *(runs(0, name) for name in ("day", "brief", "kept", "taken", "late")),
        released(10.5, "brief"),
        reclaimed(3000, "taken"),
        reclaimed(4000, "late"),
        released(5000, "day"),
        released(5000, "kept"),
    )
    bill = ledger(told, FURNISHED)
    node = 0.001 - 0.0001 - 0.00001
    assert bill.items.on_demand_usd == pytest.approx((5000 + 10.5) * node)
    assert bill.items.spot_usd == pytest.approx((5000 + 4000) * node)
    everyone_s = 5000 + 10.5 + 5000 + 3000 + 4000
    assert bill.items.disk_usd == pytest.approx(everyone_s * 0.0001)
    assert bill.items.address_usd == pytest.approx(everyone_s * 0.00001)
    assert bill.items.data_usd == pytest.approx(5 * 0.5)
    assert bill.items.rounding_usd == pytest.approx(49.5 * 0.001)
    assert sum(bill.items.table().values()) == pytest.approx(bill.cost_usd, rel=1e-12)
    assert sum(stage.cost_usd for stage in bill.stages) == pytest.approx(bill.cost_usd, rel=1e-12)
    assert cost_usd(told, FURNISHED) == bill.cost_usd


def test_on_demand_nothing_is_free_because_it_was_lost():
    told = state(bought(0, "n0"), runs(0), reclaimed(100, "n0"))
    assert ledger(told, FURNISHED).items.on_demand_usd == pytest.approx(100 * 0.00089)


def test_no_stage_keeps_the_cost_of_a_node_that_turned_out_to_be_free():
    told = state(
        bought(0, "n0", "spot"),
        runs(0),
        (1000, events.StageEnded, {"chain": 0, "stage": 0, "survivors": (), "stopped": ()}),
        (1000, events.StageStarted, {"stage": 1}),
        reclaimed(1500, "n0"),
    )
    before, after = ledger(told, FURNISHED).stages
    assert before.cost_usd == pytest.approx(1000 * 0.00011 + 0.5)
    assert after.cost_usd == pytest.approx(500 * 0.00011)


def test_a_node_costs_what_its_zone_costs():
    running = (0, events.NodeRunning, {"node": "n0", "since_s": 0, "zone": "z", "usd_per_hour": 7.2})
    told = state(bought(0, "n0", "spot"), running, released(100))
    assert ledger(told, FURNISHED).items.spot_usd == pytest.approx(100 * (0.002 - 0.00011))


def test_by_function_the_items_are_of_what_trained():
    created = (0.0, events.TrialCreated, {"trial": 0, "chain": 0, "config": {}})
    start = {"trial": 0, "chain": 0, "stage": 0, "nodes": ("n0",), "slots": 2, "from_iteration": 0}
    told = state(bought(0, "n0"), runs(0), created, (0.0, events.TrialStarted, start))
    bill = ledger(told, replace(FURNISHED, billing=Billing(mode=BillingMode.PER_FUNCTION)), 100.0)
    assert bill.items.on_demand_usd == pytest.approx(100 * 0.00089)
    assert sum(bill.items.table().values()) == pytest.approx(bill.cost_usd) == pytest.approx(100 * 0.001 + 0.5)
