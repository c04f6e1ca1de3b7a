import dataclasses

import numpy as np
import pytest
from model_reference import plan_of, random_plan, random_problem, worked_problem

from rb_core.explain import Parts, explain, without_spread
from rb_core.hardware import Billing, BillingMode
from rb_core.plan import ChainOrder, Policies
from rb_core.planners.objective import lower_bound_usd
from rb_core.simulate import simulate
from rb_core.spec import ExperimentSpec


def test_the_worked_example_with_held_nodes_by_hand():
    told = explain(worked_problem(), plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4)))
    # Stage 0: 90 s until usable, 1 wave of 6 + 100, barrier 4. Stages 1 and 2: 6 + 120 and 6 + 160.
    assert [stage.time_s for stage in told.stages] == [
        Parts(node_starts=90, trial_starts=6, training=100, barriers=4),
        Parts(trial_starts=6, training=120, barriers=4),
        Parts(trial_starts=6, training=160, barriers=4),
    ]
    assert told.time_s.total == pytest.approx(500)
    # Two nodes at 0.001 usd/s: init 60 s, barriers 3 x 4 s, starts and saves 3 x 6 s on all slots, no slot ever idle.
    assert dataclasses.asdict(told.cost_usd) == pytest.approx(
        {"training": 0.76, "trial_starts": 0.036, "node_starts": 0.12, "idle": 0, "barriers": 0.024, "rounding": 0,
         "data": 0, "variation": 0, "early_release": 0, "interruptions": 0}, abs=1e-12
    )  # fmt: skip
    # One slot costs 0.0005 usd/s: 4*10 + 2*20 + 40 iterations of 10 s on it.
    assert told.lower_bound_usd == pytest.approx(0.6)
    assert told.scaling_usd == pytest.approx(0.16)


def test_the_worked_example_with_a_queue_and_a_release_by_hand():
    told = explain(worked_problem(), plan_of(("a", 2, 1), ("a", 1, 2), ("a", 1, 2)))
    assert told.stages[1].time_s == Parts(trial_starts=12, training=240, barriers=4)
    assert told.time_s.total == pytest.approx(706)
    assert told.cost_usd.total == pytest.approx(0.846)


def test_idle_rounding_minimum_and_data_by_hand():
    problem = worked_problem()
    cloud = dataclasses.replace(
        problem.cloud,
        billing=Billing(granularity_s=100, minimum_s=300),
        dataset_gib=2.0,
        transfer_usd_per_gib=0.05,
    )
    told = explain(dataclasses.replace(problem, cloud=cloud), plan_of(("a", 2, 1), ("a", 2, 2), ("a", 1, 1)))
    # One node is given back at 330 after 300 s. Stage 2 holds one slot of two for 5 + 400 + 1 s until 740, when the
    # other node has lived 710 s and is billed 800.
    first, second, third = (stage.cost_usd for stage in told.stages)
    assert (first.data, second.data, third.data) == pytest.approx((0.2, 0, 0))
    assert (first.rounding, second.rounding, third.rounding) == pytest.approx((0, 0, 0.09))
    assert third.idle == pytest.approx(0.203)
    assert told.cost_usd.total == pytest.approx(0.3 + 0.8 + 0.2)


def test_per_function_pays_for_trials_alone():
    problem = worked_problem()
    cloud = dataclasses.replace(problem.cloud, billing=Billing(mode=BillingMode.PER_FUNCTION))
    told = explain(dataclasses.replace(problem, cloud=cloud), plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4)))
    assert dataclasses.asdict(told.cost_usd) == pytest.approx(
        dataclasses.asdict(Parts(training=0.76, trial_starts=0.036)), abs=1e-12
    )


@pytest.mark.parametrize("order", ChainOrder)
def test_the_parts_of_every_stage_add_up_to_what_is_simulated(order):
    compared = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, stages=4, nodes=5, trials=10, noise=False)
        chains = problem.experiment.chains + (random_problem(rng, trials=6).experiment.chains if seed % 3 else ())
        problem = dataclasses.replace(problem, experiment=ExperimentSpec(chains=chains))
        plan = random_plan(rng, problem, order)
        if plan is None:
            continue
        room = dataclasses.replace(problem.cloud, max_nodes=3 * problem.cloud.max_nodes)
        problem = dataclasses.replace(problem, cloud=room)
        compared += 1
        told = explain(problem, plan)
        estimate = simulate(problem, plan, samples=1, rng=np.random.default_rng(0))
        assert told.time_s.total == pytest.approx(estimate.jct_s[0])
        assert told.cost_usd.total == pytest.approx(estimate.cost_usd[0])
        assert told.time_s.variation == pytest.approx(0, abs=1e-6)
        assert told.cost_usd.variation == pytest.approx(0, abs=1e-6)
        for stage, part in zip(told.stages, estimate.stages, strict=True):
            assert (stage.chain, stage.stage) == (part.chain, part.stage)
            assert stage.time_s.total == pytest.approx(part.end_s[0] - part.start_s[0]), seed
            assert stage.cost_usd.total == pytest.approx(part.cost_usd[0], abs=1e-9), seed
            for parts in (stage.time_s, stage.cost_usd):
                assert min(dataclasses.astuple(parts)) > -1e-6, (seed, parts)
        assert told.scaling_usd >= -1e-9
        assert told.lower_bound_usd == lower_bound_usd(problem)
    assert compared > 100


def test_what_spread_adds_is_a_part_of_its_own():
    problem = worked_problem()
    noisy = dataclasses.replace(problem, profile=dataclasses.replace(problem.profile, trial_cv=0.3))
    plan = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))
    told = explain(noisy, plan)
    # The slowest of four and of two trials takes longer than their mean.
    assert told.time_s.variation > 10
    assert told.cost_usd.variation > 0
    quiet = explain(problem, plan)
    assert dataclasses.replace(told.cost_usd, variation=0) == dataclasses.replace(quiet.cost_usd, variation=0)
    assert without_spread(noisy) == problem


def test_what_early_release_saves_is_a_part_of_its_own():
    problem = worked_problem()
    plan = plan_of(("a", 2, 1), ("a", 1, 2), ("a", 1, 2))
    plain = explain(problem, plan)
    told = explain(dataclasses.replace(problem, policies=Policies(early_release=True)), plan)
    # One node before the barrier of 4 s after the first stage, the other before the one after the last.
    assert told.cost_usd.early_release == pytest.approx(-0.008)
    assert told.time_s.early_release == 0
    assert dataclasses.replace(told.cost_usd, early_release=0) == plain.cost_usd
    assert told.cost_usd.total == pytest.approx(0.838)
    assert told.time_s == plain.time_s
