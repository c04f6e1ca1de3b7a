"""The engine on spot in the simulated cloud, under both policies: whole runs, with every invariant checked."""

import dataclasses
import re

import numpy as np
import pytest
from engine_world import problem

from rb_core.errors import InvalidInput
from rb_core.events import NodeRequested, RunResumed, Warned
from rb_core.hardware import Market, MarketPolicy
from rb_core.markets import changeover_s
from rb_core.plan import AllocationPlan, Objective, StageAllocation
from rb_core.sim.curves import SyntheticCurves
from rb_core.sim.faults import Faults, Spot
from rb_core.sim.invariants import violations
from rb_core.sim.trouble import trouble
from rb_core.sim.world import World

PLAN = AllocationPlan(
    chains=(tuple(StageAllocation(instance_type="a", nodes=n, slots_per_trial=w) for n, w in ((2, 1), (2, 2), (2, 4))),)
)
ALONE_S = 90 + 4 * 3 + 3 * 6 + 30 * (100 + 120 + 160)
"""What the plan takes when nothing is lost."""


def on_spot(policy, *, rate=0.5, slack=1.2, price=3.6):
    """The worked example with ten times the iterations, each three times as long, and some slack."""
    asked = problem([[(4, 100), (2, 200), (1, 400)]], widths={1: 30.0, 2: 18.0, 4: 12.0})
    kind = dataclasses.replace(
        asked.cloud.instance_types[0], usd_per_hour=1.2, market=Market.SPOT, interruptions_per_hour=rate,
        on_demand_usd_per_hour=price,
    )  # fmt: skip
    cloud = dataclasses.replace(asked.cloud, instance_types=(kind,), market=policy)
    return dataclasses.replace(asked, cloud=cloud, objective=Objective(deadline_s=slack * ALONE_S))


def run(asked, seed, *, faults=None, replan=False, **options):
    """The evidence of a run in which nothing is amiss."""
    curves = SyntheticCurves(asked.experiment.trials, np.random.default_rng(seed))
    world = World(asked, PLAN, seed=seed, faults=faults or Faults(), curves=curves, replan=replan, **options)
    evidence = world.run()
    assert violations(evidence) == []
    assert evidence.error is None
    assert evidence.owned == ()
    return evidence


def bought(evidence):
    return [event.market for event in evidence.events if isinstance(event, NodeRequested)]


@pytest.mark.parametrize("replan", [False, True])
def test_alone_on_spot_nothing_is_bought_on_demand(replan):
    reclaimed = 0
    for seed in range(6):
        evidence = run(on_spot(MarketPolicy.SPOT, rate=1.0), seed, replan=replan)
        assert set(bought(evidence)) == {"spot"}
        reclaimed += sum(node.leaving for node in evidence.state.nodes.values())
    assert reclaimed > 5


@pytest.mark.parametrize("replan", [False, True])
def test_on_demand_comes_only_once_the_slack_is_used_up(replan):
    asked = on_spot(MarketPolicy.SPOT_THEN_ON_DEMAND, rate=1.0, slack=1.05)
    told = re.compile(r"(\d+) s are left, the rest would take (\d+) s on spot and (\d+) s on demand: .* on demand from")
    changed = late = 0
    for seed in range(12):
        evidence = run(asked, seed, replan=replan)
        late += evidence.state.jct_s > asked.objective.deadline_s
        markets = bought(evidence)
        warnings = [event for event in evidence.events if isinstance(event, Warned) and told.match(event.text)]
        assert bool(warnings) == ("on_demand" in markets)
        if warnings:
            changed += 1
            left_s, _, on_demand_s = map(float, told.match(warnings[0].text).groups())
            assert left_s <= on_demand_s + changeover_s(asked) + 2.0
            first = next(e for e in evidence.events if isinstance(e, NodeRequested) and e.market == "on_demand")
            assert first.t_s >= warnings[0].t_s
    assert 2 < changed < 12
    assert late == 0


def test_a_deadline_that_alone_on_spot_is_missed_is_kept_with_a_fall_back():
    late = {}
    for policy in (MarketPolicy.SPOT, MarketPolicy.SPOT_THEN_ON_DEMAND):
        asked = on_spot(policy, rate=1.0, slack=1.05)
        ends = [run(asked, seed).state.jct_s for seed in range(12)]
        late[policy] = sum(end > asked.objective.deadline_s for end in ends)
    assert late[MarketPolicy.SPOT] > 3
    assert late[MarketPolicy.SPOT_THEN_ON_DEMAND] <= 1


def test_trials_move_to_nodes_on_demand_and_lose_nothing_but_their_start():
    evidence = run(on_spot(MarketPolicy.SPOT_THEN_ON_DEMAND, rate=1e-6, slack=1.0), 0)
    nodes = evidence.state.nodes
    assert [node.market for node in nodes.values()] == ["spot"] * 2 + ["on_demand"] * 2
    # The two take over as soon as they are usable; the trials save after the iteration that they are in.
    assert all(node.leaving for node in list(nodes.values())[:2])
    assert evidence.state.jct_s < ALONE_S + 30 + 2 * 6


def test_spot_that_has_no_capacity_is_asked_again_until_the_deadline_needs_nodes():
    drought = Faults(spot=Spot(droughts_per_hour=3600.0, drought_s=1e9))
    loose, tight = (on_spot(MarketPolicy.SPOT_THEN_ON_DEMAND, rate=0.1, slack=slack) for slack in (1.5, 1.1))
    first = {}
    for name, asked in (("loose", loose), ("tight", tight)):
        evidence = run(asked, 1, faults=drought)
        assert evidence.state.jct_s <= asked.objective.deadline_s
        requests = [event for event in evidence.events if isinstance(event, NodeRequested)]
        assert requests[0].market == "spot"
        first[name] = next(event.t_s for event in requests if event.market == "on_demand")
    # With time to spare spot is asked for as long as that lasts.
    assert first["loose"] > first["tight"] + 0.15 * ALONE_S


def test_a_run_that_is_killed_goes_on_in_the_market_that_it_was_in():
    asked = on_spot(MarketPolicy.SPOT_THEN_ON_DEMAND, rate=1.0, slack=1.05)
    resumed = 0
    for seed in range(12):
        evidence = run(asked, seed, faults=Faults(driver_kill_per_run=3.0))
        market = "spot"
        for event in evidence.events:
            if isinstance(event, RunResumed) and market == "on_demand":
                resumed += 1
            elif isinstance(event, Warned) and "bought spot from now on" in event.text:
                market = "spot"
            elif isinstance(event, NodeRequested):
                # What was decided and not yet done when it was killed is decided again.
                assert (market, event.market) != ("on_demand", "spot")
                market = event.market
    assert resumed > 2


def test_a_price_on_demand_is_needed_for_it():
    asked = on_spot(MarketPolicy.SPOT_THEN_ON_DEMAND, price=None)
    curves = SyntheticCurves(4, np.random.default_rng(0))
    error = World(asked, PLAN, seed=0, faults=Faults(), curves=curves).run().error
    assert isinstance(error, InvalidInput)
    assert error.key == "on_demand_usd_per_hour"


@pytest.mark.parametrize("block", range(4))
def test_random_runs_on_spot_break_no_invariant(block):
    runs = [trouble(number, spot=True).rehearse() for number in range(20 * block, 20 * block + 20)]
    assert all(run.leaked_nodes == run.lost_trials == 0 for run in runs)


def test_random_runs_on_spot_that_are_planned_anew_break_no_invariant():
    runs = [trouble(number, spot=True, replan=True).rehearse() for number in range(8)]
    assert all(run.leaked_nodes == run.lost_trials == 0 for run in runs)
