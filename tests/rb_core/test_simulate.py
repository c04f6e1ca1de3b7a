import dataclasses

import numpy as np
import pytest
from model_reference import (
    choices,
    plan_of,
    play,
    random_plan,
    random_problem,
    worked_problem,
)

from rb_core.errors import InvalidInput
from rb_core.hardware import Billing, BillingMode, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, ChainOrder, Policies, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.simulate import Estimate, simulate
from rb_core.spec import ExperimentSpec


def once(problem, plan):
    return simulate(problem, plan, samples=1, rng=np.random.default_rng(0))


def test_the_worked_example_with_held_nodes():
    estimate = once(worked_problem(), plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4)))
    assert estimate.jct_s.tolist() == [500.0]
    assert estimate.cost_usd[0] == pytest.approx(0.94, abs=1e-12)
    rows = [(float(s.start_s[0]), float(s.end_s[0])) for s in estimate.stages]
    assert rows == [(0, 200), (200, 330), (330, 500)]
    assert [float(s.cost_usd[0]) for s in estimate.stages] == pytest.approx([0.34, 0.26, 0.34])
    # Slot-seconds: 4*106 of 4*170, 2*126*2 of 4*130, 166*4 of 4*170.
    idle = [1 - 424 / 680, 1 - 504 / 520, 1 - 664 / 680]
    assert [float(s.idle_fraction[0]) for s in estimate.stages] == pytest.approx(idle)


def test_the_worked_example_with_a_released_node():
    estimate = once(worked_problem(), plan_of(("a", 2, 1), ("a", 1, 2), ("a", 1, 2)))
    assert estimate.jct_s.tolist() == [706.0]
    assert estimate.cost_usd[0] == pytest.approx(0.846, abs=1e-12)
    assert [float(s.end_s[0]) for s in estimate.stages] == [200, 456, 706]
    assert [float(s.cost_usd[0]) for s in estimate.stages] == pytest.approx([0.34, 0.256, 0.25])


def several_chains(rng, noise):
    problem = random_problem(rng, stages=4, nodes=5, trials=10, noise=noise)
    chains = list(problem.experiment.chains)
    for _ in range(int(rng.integers(3))):
        chains += random_problem(rng, trials=6).experiment.chains
    return dataclasses.replace(problem, experiment=ExperimentSpec(chains=tuple(chains)))


@pytest.mark.parametrize("early_release", [False, True])
@pytest.mark.parametrize("noise", [False, True])
def test_every_sample_is_what_the_definitions_say(noise, early_release):
    compared = 0
    for seed in range(300):
        rng = np.random.default_rng([seed, noise])
        problem = several_chains(rng, noise)
        order = ChainOrder.PARALLEL if rng.random() < 0.4 else ChainOrder.SEQUENTIAL
        plan = random_plan(rng, problem, order)
        if plan is None:
            continue
        room = dataclasses.replace(problem.cloud, max_nodes=3 * problem.cloud.max_nodes)
        problem = dataclasses.replace(problem, cloud=room, policies=Policies(early_release=early_release))
        estimate = simulate(problem, plan, samples=3, rng=np.random.default_rng(seed))
        usual = simulate(
            dataclasses.replace(problem, policies=Policies()), plan, samples=3, rng=np.random.default_rng(seed)
        )
        assert np.array_equal(estimate.jct_s, usual.jct_s), seed
        for sample, (jct_s, cost_usd, shares) in enumerate(play(problem, plan, 3, np.random.default_rng(seed))):
            assert estimate.jct_s[sample] == pytest.approx(jct_s), seed
            assert estimate.cost_usd[sample] == pytest.approx(cost_usd), seed
            for stage, share in zip(estimate.stages, shares, strict=True):
                assert stage.start_s[sample] == pytest.approx(share.start_s), seed
                assert stage.end_s[sample] == pytest.approx(share.end_s), seed
                assert stage.cost_usd[sample] == pytest.approx(share.cost_usd, abs=1e-9), seed
                if problem.cloud.billing.mode is BillingMode.PER_INSTANCE and share.billed_slot_s:
                    idle = 1 - share.trained_slot_s / share.billed_slot_s
                    assert stage.idle_fraction[sample] == pytest.approx(idle, abs=1e-9), seed
        compared += 1
    assert compared > 250


def lone(launch_s, init_s, iterations, *, data=0.0, minimum_s=60.0):
    """One trial of 1 s an iteration and a type of 1 slot at 1 usd/s; stages of so many iterations."""
    return Problem(
        experiment=ExperimentSpec.from_stages([(1, n) for n in iterations]),
        profile=ScalingProfile(iteration_s={1: Latency(mean=1.0)}),
        cloud=Cloud(
            instance_types=(InstanceType(name="a", slots=1, usd_per_hour=3600.0),),
            launch_s=Latency(mean=launch_s),
            init_s=Latency(mean=init_s),
            billing=Billing(minimum_s=minimum_s),
            dataset_gib=data,
            transfer_usd_per_gib=1.0,
        ),
    )


def test_a_request_that_is_cancelled_before_it_runs_is_free():
    problem = lone(100, 10, [200, 50, 100], data=7)
    # A second node is asked for at 310 and dropped at 360, before it would run at 410.
    estimate = once(problem, plan_of(("a", 1, 1), ("a", 2, 1), ("a", 1, 1)))
    assert estimate.jct_s[0] == 460
    assert estimate.cost_usd[0] == pytest.approx(360 + 7)


def test_a_node_that_begins_to_run_as_it_is_released_pays_the_minimum_and_its_data_once():
    problem = lone(50, 10, [200, 50, 100], data=7)
    estimate = once(problem, plan_of(("a", 1, 1), ("a", 2, 1), ("a", 1, 1)))
    assert estimate.cost_usd[0] == pytest.approx((410 - 50) + 7 + 60 + 7)
    assert [float(s.cost_usd[0]) for s in estimate.stages] == pytest.approx([217, 50 + 67, 100])


def test_a_node_that_begins_to_run_exactly_at_a_barrier_downloads_once():
    problem = lone(50, 10, [200, 50, 100], data=7)
    estimate = once(problem, plan_of(("a", 1, 1), ("a", 2, 1), ("a", 2, 1)))
    assert [float(s.cost_usd[0]) for s in estimate.stages] == pytest.approx([217, 50 + 7, 200])
    assert estimate.cost_usd[0] == pytest.approx((410 - 50) + (410 - 310) + 14)


def test_a_node_still_starting_at_a_barrier_is_not_usable_for_free():
    problem = lone(100, 50, [10, 10, 10])
    # Width 1 needs one node; the second one of stage 1 (asked for at 160) is usable at 310 only.
    estimate = once(problem, plan_of(("a", 1, 1), ("a", 2, 1), ("a", 2, 1)))
    assert [float(s.end_s[0]) for s in estimate.stages] == [160, 170, 180]
    spanning = dataclasses.replace(
        problem, profile=dataclasses.replace(problem.profile, iteration_s={1: Latency(mean=1.0), 2: Latency(mean=1.0)})
    )
    estimate = once(spanning, plan_of(("a", 1, 1), ("a", 2, 1), ("a", 2, 2)))
    assert [float(s.end_s[0]) for s in estimate.stages] == [160, 170, 320]


def test_a_freed_slot_takes_a_second_trial_before_a_late_node_is_usable():
    problem = lone(0, 100, [10])
    problem = dataclasses.replace(problem, experiment=ExperimentSpec.from_stages([(2, 10), (2, 10)]))
    estimate = once(problem, plan_of(("a", 1, 1), ("a", 2, 1)))
    assert [float(s.end_s[0]) for s in estimate.stages] == [120, 140]


def test_price_zero_costs_nothing():
    problem = lone(30, 60, [10])
    free = InstanceType(name="a", slots=1, usd_per_hour=0.0)
    problem = dataclasses.replace(problem, cloud=dataclasses.replace(problem.cloud, instance_types=(free,)))
    estimate = once(problem, plan_of(("a", 1, 1)))
    assert (estimate.jct_s[0], estimate.cost_usd[0]) == (100, 0)


def noisy_problem():
    problem = worked_problem()
    return dataclasses.replace(
        problem,
        profile=dataclasses.replace(problem.profile, trial_cv=0.3, start_s=Latency(mean=5, std=2)),
        cloud=dataclasses.replace(problem.cloud, init_s=Latency(mean=60, std=20)),
    )


def test_equal_generators_give_equal_samples():
    plan = plan_of(("a", 2, 1), ("a", 1, 2), ("a", 2, 4))
    one, two, other = (
        simulate(noisy_problem(), plan, samples=50, rng=np.random.default_rng(seed)) for seed in (3, 3, 4)
    )
    assert np.array_equal(one.jct_s, two.jct_s)
    assert np.array_equal(one.cost_usd, two.cost_usd)
    assert not np.array_equal(one.jct_s, other.jct_s)


def test_a_slow_trial_stays_slow_and_survivors_are_the_first():
    problem = noisy_problem()
    problem = dataclasses.replace(
        problem,
        profile=ScalingProfile(iteration_s={1: Latency(mean=10.0)}, trial_cv=0.5),
        cloud=dataclasses.replace(problem.cloud, init_s=Latency(mean=60)),
        experiment=ExperimentSpec.from_stages([(1, 10), (1, 20)]),
    )
    first, second = simulate(
        problem, plan_of(("a", 1, 1), ("a", 1, 1)), samples=200, rng=np.random.default_rng(0)
    ).stages
    assert (second.end_s - second.start_s) == pytest.approx(2 * (first.end_s - 90))


def test_plans_of_many_samples_still_meet_the_same_trials():
    # So many trials that the samples are worked on in parts; the parts must not depend on the plan.
    problem = Problem(
        experiment=ExperimentSpec.from_stages([(400, 1)]),
        profile=ScalingProfile(iteration_s={1: Latency(mean=10.0)}, trial_cv=0.5),
        cloud=Cloud(instance_types=(InstanceType(name="a", slots=1, usd_per_hour=1.0),), max_nodes=1000),
    )
    some, all_at_once, more = (
        simulate(problem, plan_of(("a", nodes, 1)), samples=3000, rng=np.random.default_rng(5))
        for nodes in (100, 400, 1000)
    )
    assert np.array_equal(all_at_once.jct_s, more.jct_s)
    assert len(np.unique(all_at_once.jct_s)) == 3000
    assert np.all(some.jct_s >= all_at_once.jct_s)


def test_meets_is_on_the_mean_or_with_a_probability():
    estimate = Estimate(jct_s=np.array([1.0, 2.0, 3.0, 10.0]), cost_usd=np.array([5.0, 5.0, 5.0, 5.0]), stages=())
    assert estimate.meets(deadline_s=4.0)
    assert not estimate.meets(deadline_s=3.99)
    assert estimate.meets(deadline_s=3.0, confidence=0.75)
    assert not estimate.meets(deadline_s=2.99, confidence=0.75)
    assert estimate.meets(budget_usd=5.0, confidence=0.999)
    assert not estimate.meets(deadline_s=4.0, budget_usd=4.99)


@pytest.mark.parametrize("samples", [0, -1, 1.5])
def test_samples_must_be_a_positive_integer(samples):
    with pytest.raises(InvalidInput, match="samples"):
        simulate(worked_problem(), plan_of(*[("a", 1, 1)] * 3), samples=samples, rng=np.random.default_rng(0))


def test_a_million_trials_of_a_billion_iterations_are_followed():
    problem = Problem(
        experiment=ExperimentSpec.from_stages([(10**6, 10**9)]),
        profile=ScalingProfile(iteration_s={1: Latency(mean=1.0)}),
        cloud=Cloud(instance_types=(InstanceType(name="a", slots=1000, usd_per_hour=1.0),), max_nodes=1000),
    )
    estimate = once(problem, plan_of(("a", 1000, 1)))
    assert estimate.jct_s[0] == pytest.approx(1e9)
    assert estimate.cost_usd[0] == pytest.approx(1000 * 1e9 / 3600)


def test_chains_side_by_side_cost_what_each_costs_alone():
    problem = worked_problem()
    both = dataclasses.replace(
        problem, experiment=ExperimentSpec(chains=(problem.experiment.chains[0], problem.experiment.chains[0][1:]))
    )
    kind, nodes, width = choices(problem)[0]
    one = StageAllocation(instance_type=kind.name, nodes=nodes, slots_per_trial=width)
    plan = AllocationPlan(chains=((one,) * 3, (one,) * 2), order=ChainOrder.PARALLEL)
    together = once(both, plan)
    alone = [
        once(
            dataclasses.replace(problem, experiment=ExperimentSpec(chains=(chain,))),
            AllocationPlan(chains=(allocation,)),
        )
        for chain, allocation in zip(both.experiment.chains, plan.chains, strict=True)
    ]
    assert together.jct_s[0] == max(a.jct_s[0] for a in alone)
    assert together.cost_usd[0] == pytest.approx(sum(a.cost_usd[0] for a in alone))


def test_without_noise_one_sample_stands_for_all():
    estimate = simulate(
        worked_problem(), plan_of(("a", 2, 1), ("a", 1, 2), ("a", 1, 2)), samples=5, rng=np.random.default_rng(0)
    )
    assert estimate.jct_s.tolist() == [706.0] * 5
    assert [stage.end_s.shape for stage in estimate.stages] == [(5,)] * 3


def test_more_varying_trials_than_can_be_drawn_are_refused():
    problem = dataclasses.replace(
        worked_problem(),
        experiment=ExperimentSpec.from_stages([(1_000_000, 1)]),
        profile=dataclasses.replace(worked_problem().profile, trial_cv=0.1),
    )
    with pytest.raises(InvalidInput, match="samples: must be at most 200 for 1000000 trials"):
        simulate(problem, plan_of(("a", 2, 1)), samples=201, rng=np.random.default_rng(0))


def test_a_million_equal_trials_take_no_longer_than_a_few():
    problem = dataclasses.replace(worked_problem(), experiment=ExperimentSpec.from_stages([(1_000_000, 1)]))
    estimate = simulate(problem, plan_of(("a", 2, 1)), samples=1000, rng=np.random.default_rng(0))
    assert estimate.jct_s[-1] == pytest.approx(90 + 250_000 * 16 + 4)
