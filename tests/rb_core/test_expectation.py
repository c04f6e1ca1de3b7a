import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_reference import plan_of, play, random_plan, random_problem, worked_problem

from rb_core.billing import billed_s
from rb_core.errors import InvalidInput
from rb_core.expectation import ExpectedModel, expected, expected_billed_s, makespan_s, places_of
from rb_core.hardware import Billing, Latency
from rb_core.plan import AllocationPlan, ChainOrder
from rb_core.simulate import simulate
from rb_core.spec import ExperimentSpec


def test_the_worked_example_to_the_digit():
    model = ExpectedModel(worked_problem())
    assert model.evaluate(plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))) == pytest.approx((500, 0.94), abs=1e-12)
    assert model.evaluate(plan_of(("a", 2, 1), ("a", 1, 2), ("a", 1, 2))) == pytest.approx((706, 0.846), abs=1e-12)


def test_without_noise_the_model_is_the_definition():
    compared = 0
    for seed in range(400):
        rng = np.random.default_rng([seed, 3])
        problem = random_problem(rng, stages=4, nodes=5, trials=12)
        more = random_problem(rng, stages=2, trials=5).experiment.chains
        problem = dataclasses.replace(problem, experiment=ExperimentSpec(chains=(*problem.experiment.chains, *more)))
        order = rng.choice(list(ChainOrder))
        plan = random_plan(rng, problem, order)
        if plan is None:
            continue
        room = dataclasses.replace(problem.cloud, max_nodes=2 * problem.cloud.max_nodes)
        problem = dataclasses.replace(problem, cloud=room)
        ((jct_s, cost_usd, _),) = play(problem, plan, 1, np.random.default_rng(0))
        assert ExpectedModel(problem).evaluate(plan) == pytest.approx((jct_s, cost_usd), abs=1e-9), seed
        assert expected(problem, plan) == pytest.approx((jct_s, cost_usd), abs=1e-9), seed
        compared += 1
    assert compared > 300


def noisy_plans(count):
    for seed in itertools.count():
        rng = np.random.default_rng([seed, 5])
        problem = random_problem(rng, stages=4, nodes=6, trials=16, noise=True)
        plan = random_plan(rng, problem)
        if plan is None or not problem.noisy:
            continue
        count -= 1
        if count < 0:
            return
        yield seed, problem, plan


def test_with_noise_the_reported_expectation_is_the_mean_of_many_samples():
    for seed, problem, plan in noisy_plans(40):
        estimate = simulate(problem, plan, samples=20_000, rng=np.random.default_rng(1))
        jct_s, cost_usd = expected(problem, plan)
        # Two per cent, or four standard errors of the expectation's own 2,000 samples where a few hours decide.
        for value, samples in ((jct_s, estimate.jct_s), (cost_usd, estimate.cost_usd)):
            allowed = max(0.02 * samples.mean(), 4 * samples.std() / math.sqrt(2000))
            assert abs(value - samples.mean()) <= allowed + 1e-9, seed


def test_with_noise_the_planners_model_is_mostly_within_two_per_cent():
    off = []
    for _, problem, plan in noisy_plans(120):
        estimate = simulate(problem, plan, samples=5000, rng=np.random.default_rng(1))
        jct_s, cost_usd = ExpectedModel(problem).evaluate(plan)
        off.append((abs(jct_s / estimate.jct_s.mean() - 1), abs(cost_usd / estimate.cost_usd.mean() - 1)))
    # The rest are lives near the minimum, and requests that a noisy barrier may or may not cancel.
    assert np.all(np.median(off, axis=0) < 0.01)
    assert np.all(np.mean(np.array(off) < 0.02, axis=0) > 0.85)


def test_with_a_little_noise_the_model_stays_close_to_the_simulation():
    problem = worked_problem()
    problem = dataclasses.replace(
        problem,
        profile=dataclasses.replace(
            problem.profile,
            trial_cv=0.2,
            iteration_s={w: Latency(mean=at.mean, std=0.05 * at.mean) for w, at in problem.profile.iteration_s.items()},
        ),
        cloud=dataclasses.replace(problem.cloud, init_s=Latency(mean=60, std=10)),
    )
    model = ExpectedModel(problem)
    for nodes in itertools.product((1, 2, 4), repeat=3):
        plan = plan_of(*(("a", m, 1 if m == 1 else 2) for m in nodes))
        estimate = simulate(problem, plan, samples=20_000, rng=np.random.default_rng(1))
        means = (estimate.jct_s.mean(), estimate.cost_usd.mean())
        assert model.evaluate(plan) == pytest.approx(means, rel=0.02), nodes


def test_the_same_problem_always_has_the_same_expectation():
    _, problem, plan = next(noisy_plans(1))
    assert ExpectedModel(problem).evaluate(plan) == ExpectedModel(problem).evaluate(plan)
    assert expected(problem, plan) == expected(problem, plan)


def test_a_plan_that_does_not_fit_is_refused():
    with pytest.raises(InvalidInput, match="stages"):
        ExpectedModel(worked_problem()).evaluate(AllocationPlan(chains=((),)))


@settings(max_examples=200, deadline=None)
@given(
    trials=st.integers(1, 40),
    trial_s=st.integers(1, 200).map(lambda n: n / 4),
    ready=st.lists(st.tuples(st.integers(0, 400).map(lambda n: n / 4), st.integers(1, 5)), min_size=1, max_size=5).map(
        sorted
    ),
)
def test_equal_trials_end_as_list_scheduling_ends_them(trials, trial_s, ready):
    places = sorted(at for at, count in ready for _ in range(count))
    for _ in range(trials):
        places[0] += trial_s
        last = places[0]
        places.sort()
    assert makespan_s(trials, trial_s, ready) == pytest.approx(max(last, 0))


def test_a_million_trials_take_no_time_to_count():
    assert makespan_s(10**6, 1.0, [(0.0, 3), (1e9, 5)]) == pytest.approx(333_334)
    assert makespan_s(10**6, 1.0, [(0.0, 1), (0.5, 1)]) == pytest.approx(500_000.5)


@pytest.mark.parametrize("width", [1, 2, 4, 6])
def test_places_are_those_of_the_nodes(width):
    nodes = [(0.0, 2), (5.0, 3), (9.0, 1)]
    group, per_node = max(1, width // 2), max(1, 2 // width)
    places = [at for at, count in places_of(nodes, group, per_node) for _ in range(count)]
    ready = [at for at, count in nodes for _ in range(count)]
    if width <= 2:
        assert places == [at for at in ready for _ in range(2 // width)]
    else:
        assert places == ready[group - 1 :: group]


@pytest.mark.parametrize("granularity_s", [1.0, 60.0, 3600.0])
@pytest.mark.parametrize("minimum_s", [0.0, 60.0, 600.0])
@pytest.mark.parametrize("mean_s", [5.0, 55.0, 500.0, 3500.0])
@pytest.mark.parametrize("std_s", [0.0, 2.0, 40.0, 300.0])
def test_the_expected_bill_of_a_normal_life_is_the_mean_of_many(granularity_s, minimum_s, mean_s, std_s):
    rule = Billing(granularity_s=granularity_s, minimum_s=minimum_s)
    lives = mean_s + std_s * np.random.default_rng(0).standard_normal(200_000)
    bills = np.where(lives >= 0, billed_s(rule, np.maximum(lives, 0.0)), 0.0)
    error_s = 4 * bills.std() / math.sqrt(len(bills))
    # Rounding is taken as half a granule once lives spread over one.
    half_s = 0.05 * granularity_s if std_s >= granularity_s else 0.0
    assert expected_billed_s(rule, mean_s, std_s) == pytest.approx(bills.mean(), abs=error_s + half_s + 1e-6)


def test_long_queues_are_worked_out_to_a_thousandth():
    problem = worked_problem()
    problem = dataclasses.replace(
        problem,
        experiment=ExperimentSpec.from_stages([(600, 3)]),
        profile=dataclasses.replace(problem.profile, trial_cv=0.4),
        cloud=dataclasses.replace(problem.cloud, max_nodes=4, init_s=Latency(mean=60, std=15)),
    )
    for nodes in (1, 2, 4):
        plan = plan_of(("a", nodes, 1))
        jct_s, _ = ExpectedModel(problem).evaluate(plan)
        estimate = simulate(problem, plan, samples=2000, rng=np.random.default_rng(1))
        error_s = 4 * estimate.jct_s.std() / math.sqrt(256)
        assert abs(jct_s - estimate.jct_s.mean()) < 0.001 * jct_s + error_s


def test_more_varying_trials_than_can_be_planned_are_refused():
    problem = dataclasses.replace(worked_problem(), experiment=ExperimentSpec.from_stages([(9_999, 1), (2, 1)]))
    ExpectedModel(problem)
    noisy = dataclasses.replace(problem, profile=dataclasses.replace(problem.profile, trial_cv=0.1))
    with pytest.raises(InvalidInput, match="experiment: must have at most 10000 trials in all stages"):
        ExpectedModel(noisy)
