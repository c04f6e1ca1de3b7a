"""Planning on nodes that are taken away: every plan there is, the planners, and what explains a plan."""

import dataclasses
import itertools

import numpy as np
import pytest
from model_reference import choices, plan_of, random_problem, undominated, worked_problem

from rb_core.expectation import ExpectedModel, expected
from rb_core.explain import explain
from rb_core.hardware import Market, MarketPolicy
from rb_core.interruption import interruption_of, stage_trial_s
from rb_core.markets import changeover_s, on_demand, with_way_off_s
from rb_core.placement import Placement
from rb_core.plan import AllocationPlan, Objective, StageAllocation
from rb_core.planners.candidate import stages_in_order
from rb_core.planners.exact import Exact
from rb_core.planners.greedy import Greedy
from rb_core.planners.search import Search, StageTables, undominated_plans
from rb_core.planners.static import Static
from rb_core.promise import promise
from rb_core.simulate import simulate


def on_spot(problem, rate, *, policy=MarketPolicy.SPOT, every_s=30.0, **changes):
    kinds = tuple(
        dataclasses.replace(
            kind, market=Market.SPOT, interruptions_per_hour=rate, on_demand_usd_per_hour=3 * kind.usd_per_hour
        )
        for kind in problem.cloud.instance_types
    )
    cloud = dataclasses.replace(problem.cloud, instance_types=kinds, market=policy)
    return dataclasses.replace(problem, cloud=cloud, checkpoint_every_s=every_s, **changes)


def every_plan(model):
    """(jct_s, cost_usd) of all plans by the model, chains one after another."""
    problem = model.problem
    options = [
        StageAllocation(instance_type=kind.name, nodes=nodes, slots_per_trial=width)
        for kind, nodes, width in choices(problem)
    ]
    for allocations in itertools.product(options, repeat=len(stages_in_order(problem))):
        left = iter(allocations)
        chains = tuple(tuple(next(left) for _ in chain) for chain in problem.experiment.chains)
        yield model.evaluate(AllocationPlan(chains=chains))


@pytest.mark.parametrize("number", range(40))
def test_the_front_is_that_of_all_plans(number):
    rng = np.random.default_rng([number, 7])
    problem = on_spot(random_problem(rng, stages=2, nodes=3), float(rng.choice((0.5, 6.0, 60.0))))
    model = ExpectedModel(problem)
    wanted = undominated(list(every_plan(model)))
    found = [(plan.jct_s, plan.cost_usd) for plan in undominated_plans(Search(StageTables(model)).run())]
    assert len(found) == len(wanted)
    for got, best in zip(found, wanted, strict=True):
        assert got == pytest.approx(best, rel=1e-6, abs=1e-6)


def long_problem(rate, **changes):
    """The worked example with iterations of minutes, so that nodes are lost in it."""
    problem = worked_problem()
    slower = {
        w: dataclasses.replace(latency, mean=30 * latency.mean) for w, latency in problem.profile.iteration_s.items()
    }
    profile = dataclasses.replace(problem.profile, iteration_s=slower)
    return on_spot(dataclasses.replace(problem, profile=profile), rate, every_s=600.0, **changes)


@pytest.mark.parametrize("rate", [0.1, 0.6, 1.3])
def test_the_model_is_close_to_whole_jobs(rate):
    problem = long_problem(rate)
    for plan in (plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4)), plan_of(("a", 2, 1), ("a", 1, 1), ("a", 1, 2))):
        jct_s, cost_usd = ExpectedModel(problem).evaluate(plan)
        sampled_s, sampled_usd = expected(problem, plan)
        assert (jct_s, cost_usd) == (pytest.approx(sampled_s, rel=0.03), pytest.approx(sampled_usd, rel=0.03))


def test_planners_allow_for_what_is_lost():
    calm, rough = long_problem(0.0), long_problem(1.3)
    plan = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))
    assert expected(rough, plan)[0] > 1.1 * expected(calm, plan)[0]
    deadline = Objective(deadline_s=1.05 * expected(rough, plan)[0])
    costs = {}
    for problem in (calm, rough):
        asked = dataclasses.replace(problem, objective=deadline)
        for planner in (Exact(), Greedy(), Static()):
            chosen = planner.plan(asked, np.random.default_rng(0))
            jct_s, costs[planner.name, problem is rough] = expected(asked, chosen)
            assert jct_s <= deadline.deadline_s * (1 + 1e-9)
    assert costs["exact", True] > costs["exact", False]
    assert costs["exact", True] <= min(costs["greedy", True], costs["static", True]) * (1 + 1e-9)


def test_without_interruptions_spot_is_nothing_but_a_price():
    problem = worked_problem()
    spot = on_spot(problem, 0.0)
    plan = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))
    assert not spot.noisy
    assert ExpectedModel(spot).evaluate(plan) == ExpectedModel(problem).evaluate(plan)
    samples = [simulate(p, plan, samples=3, rng=np.random.default_rng(1)) for p in (problem, spot)]
    assert (samples[0].jct_s == samples[1].jct_s).all()
    assert (samples[0].cost_usd == samples[1].cost_usd).all()


def test_what_is_lost_is_a_part_of_time_and_cost():
    problem = long_problem(1.3)
    plan = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))
    told, calm = explain(problem, plan), explain(long_problem(0.0), plan)
    jct_s, cost_usd = expected(problem, plan)
    assert told.time_s.total == pytest.approx(jct_s)
    assert told.cost_usd.total == pytest.approx(cost_usd)
    assert told.time_s.training == pytest.approx(calm.time_s.training)
    assert told.cost_usd.training == pytest.approx(calm.cost_usd.training)
    assert calm.time_s.interruptions == calm.cost_usd.interruptions == 0
    kind, profile = problem.cloud.instance_types[0], problem.profile
    lost_s = 0.0
    for stage, (width, rounds) in zip(problem.experiment.chains[0], ((1, 1), (2, 1), (4, 1)), strict=True):
        placement = Placement(trials=stage.trials, slots_per_trial=width, node_slots=2, nodes=2)
        bare_s = profile.trial_s(stage.iterations, slots=width, node_slots=2, speed=1.0)
        lost_s += rounds * (stage_trial_s(problem, stage.iterations, placement, kind)[0] - bare_s)
    assert told.time_s.interruptions == pytest.approx(lost_s)
    assert abs(told.time_s.variation) < 0.03 * jct_s


def test_a_node_to_spare_saves_the_wait():
    problem = long_problem(0.6)
    kind = problem.cloud.instance_types[0]
    full, spare = (
        interruption_of(problem, Placement(trials=4, slots_per_trial=1, node_slots=2, nodes=nodes), kind)
        for nodes in (2, 3)
    )
    assert (full.wait_s, spare.wait_s) == (90.0, 0.0)
    model = ExpectedModel(problem)
    tight = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))
    roomy = plan_of(("a", 3, 1), ("a", 3, 2), ("a", 3, 4))
    assert model.evaluate(roomy)[0] < model.evaluate(tight)[0]


def test_with_a_fall_back_the_way_off_spot_is_part_of_the_plan():
    alone, backed = long_problem(0.6), long_problem(0.6, policy=MarketPolicy.SPOT_THEN_ON_DEMAND)
    plan = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))
    deadline_s = with_way_off_s(backed, expected(backed, plan)[0])
    asked = dataclasses.replace(backed, objective=Objective(deadline_s=deadline_s, confidence=0.99))
    jct_s, cost_usd = expected(asked, Exact().plan(asked, np.random.default_rng(0)))
    assert with_way_off_s(backed, jct_s) <= deadline_s * (1 + 1e-9)
    # Alone on spot the same confidence takes a faster and dearer plan.
    unbacked = dataclasses.replace(alone, objective=asked.objective)
    faster_s, dearer_usd = expected(unbacked, Exact().plan(unbacked, np.random.default_rng(0)))
    assert faster_s < jct_s
    assert dearer_usd > cost_usd
    assert changeover_s(backed) == 90.0 + 5.0 + 1.0


def test_the_promise_counts_what_is_saved_on_demand():
    problem = long_problem(1.3, policy=MarketPolicy.SPOT_THEN_ON_DEMAND)
    plan = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))
    on_spot_s, _ = expected(problem, plan)
    samples = [simulate(p, plan, samples=500, rng=np.random.default_rng(3)) for p in (problem, on_demand(problem))]
    asked = dataclasses.replace(problem, objective=Objective(deadline_s=on_spot_s, confidence=0.9))
    alone, backed = promise(asked, samples[0]), promise(asked, *samples)
    assert 0.3 < alone.probability < 0.8
    assert backed.probability == 1.0
    # Where not even on demand it would be in time, nothing is saved.
    late = dataclasses.replace(problem, objective=Objective(deadline_s=samples[1].jct_s[0] + 95.0, confidence=0.9))
    assert promise(late, *samples).probability == promise(late, samples[0]).probability < 0.5
