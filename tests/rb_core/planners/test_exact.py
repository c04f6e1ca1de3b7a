"""The exact planner against every plan there is, followed in plain Python."""

import dataclasses

import numpy as np
import pytest
from definitions import greedy, naive, played, static
from model_reference import every_plan, hurried_problem, random_problem, undominated, worked_problem

from rb_core.errors import InvalidInput, NoFeasiblePlan
from rb_core.expectation import ExpectedModel, expected
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import Objective, Policies, Problem
from rb_core.planners.exact import Exact, front
from rb_core.planners.greedy import Greedy
from rb_core.planners.objective import Limit, lower_bound_usd, resolve
from rb_core.planners.search import Search, StageTables, undominated_plans
from rb_core.planners.static import Static
from rb_core.profile import ScalingProfile
from rb_core.simulate import simulate
from rb_core.spec import ExperimentSpec

CLOSE_S, CLOSE_USD = 1e-3, 1e-6


def asking(problem, **objective):
    return dataclasses.replace(problem, objective=Objective(**objective))


def in_a_row(model):
    """The front of the plans with all chains one after another."""
    return undominated_plans(Search(StageTables(model)).run())


def agrees(problem, note=None, front=front):
    """The front is that of all plans, and each of its plans takes and costs what is said of it."""
    plans = every_plan(problem)
    if not plans:
        with pytest.raises(NoFeasiblePlan, match="no trial fits"):
            front(ExpectedModel(problem))
        return False
    candidates = front(ExpectedModel(problem))
    wanted = undominated([plan[:2] for plan in plans])
    got = undominated([(candidate.jct_s, candidate.cost_usd) for candidate in candidates])
    assert len(got) == len(candidates), note
    assert [t for t, _ in got] == pytest.approx([t for t, _ in wanted], abs=CLOSE_S), note
    assert [usd for _, usd in got] == pytest.approx([usd for _, usd in wanted], abs=CLOSE_USD), note
    for candidate in candidates:
        said = (candidate.jct_s, candidate.cost_usd)
        assert said == pytest.approx(played(problem, candidate.plan(problem)), abs=CLOSE_USD), note
    return True


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (400, {"stages": 3, "nodes": 3, "kinds": 2, "trials": 8}),
        (200, {"stages": 3, "nodes": 4, "kinds": 1, "trials": 12}),
        (100, {"stages": 4, "nodes": 3, "kinds": 1, "trials": 6}),
        (60, {"stages": 2, "nodes": 5, "kinds": 2, "trials": 12}),
    ],
    ids=["two-types", "many-trials", "four-stages", "many-nodes"],
)
def test_the_front_is_that_of_all_plans(count, sizes):
    compared = sum(agrees(random_problem(np.random.default_rng([seed, count]), **sizes), seed) for seed in range(count))
    assert compared > count * 0.6


def test_the_front_is_that_of_all_plans_where_stages_are_shorter_than_starts():
    for seed in range(250):
        agrees(hurried_problem(np.random.default_rng(seed)), seed)


def test_a_slower_width_that_delays_a_request_can_be_the_cheaper_one():
    # A node asked for in the second stage sets the end of the third, so the third's own node may as well come later.
    slower = Problem(
        experiment=ExperimentSpec.from_stages([(5, 187), (5, 3), (5, 37)]),
        profile=ScalingProfile(iteration_s={1: Latency(mean=5.5), 2: Latency(mean=2.0)}),
        cloud=Cloud(
            instance_types=(InstanceType(name="a", slots=2, usd_per_hour=3.6),),
            max_nodes=3,
            init_s=Latency(mean=71.25),
            billing=Billing(granularity_s=0.25, minimum_s=0),
        ),
    )
    agrees(slower)


def test_nodes_of_a_type_are_never_given_back_and_asked_for_anew():
    # Launching is not billed, so a fresh node would be cheaper than one that idles; but held nodes are kept.
    problem = Problem(
        experiment=ExperimentSpec.from_stages([(6, 8), (5, 8), (4, 5)]),
        profile=ScalingProfile(iteration_s={2: Latency(mean=44.5)}, start_s=Latency(mean=14.25)),
        cloud=Cloud(
            instance_types=(InstanceType(name="a", slots=2, usd_per_hour=6.1),),
            max_nodes=2,
            launch_s=Latency(mean=63.75),
            init_s=Latency(mean=7.5),
            billing=Billing(granularity_s=60),
        ),
    )
    agrees(problem)


def test_a_type_on_which_no_trial_fits_is_passed_over():
    problem = worked_problem()
    small = InstanceType(name="small", slots=3, usd_per_hour=0.01)
    problem = dataclasses.replace(
        problem,
        profile=dataclasses.replace(problem.profile, iteration_s={4: Latency(mean=4.0)}),
        cloud=dataclasses.replace(problem.cloud, instance_types=(small, *problem.cloud.instance_types), max_nodes=2),
    )
    agrees(problem)


@pytest.mark.parametrize("limit", ["deadline_s", "budget_usd"])
def test_the_answer_is_the_best_of_all_plans(limit):
    for seed in range(60):
        rng = np.random.default_rng([seed, 7])
        problem = random_problem(rng, stages=2)
        plans = every_plan(problem)
        if not plans:
            continue
        some = plans[rng.integers(len(plans))]
        if limit == "deadline_s":
            deadline_s = some[0] * 1.0001
            got = played(problem, Exact().plan(asking(problem, deadline_s=deadline_s), rng))
            assert got[0] <= deadline_s, seed
            assert got[1] == pytest.approx(min(c for t, c, _ in plans if t <= deadline_s), abs=CLOSE_USD), seed
        elif some[1] > 0:
            budget_usd = some[1] * 1.0001
            got = played(problem, Exact().plan(asking(problem, budget_usd=budget_usd), rng))
            assert got[1] <= budget_usd, seed
            assert got[0] == pytest.approx(min(t for t, c, _ in plans if c <= budget_usd), abs=CLOSE_S), seed


def larger(seed):
    """Too large to try every plan of it."""
    rng = np.random.default_rng([seed, 11])
    while True:
        problem = random_problem(rng, stages=5, kinds=3, trials=40)
        cloud = dataclasses.replace(problem.cloud, max_nodes=int(rng.integers(4, 12)))
        problem = dataclasses.replace(problem, cloud=cloud)
        if static(problem):
            return problem


def test_on_larger_problems_it_is_never_above_greedy_nor_below_the_bound():
    for seed in range(60):
        problem = larger(seed)
        statics = static(problem)
        candidates = front(ExpectedModel(problem))
        assert min(c.cost_usd for c in candidates) >= lower_bound_usd(problem) - CLOSE_USD, seed
        for candidate in candidates:
            said = (candidate.jct_s, candidate.cost_usd)
            assert said == pytest.approx(played(problem, candidate.plan(problem)), abs=CLOSE_USD), seed
        for deadline_s in {min(s[0] for s in statics), statics[0][0], statics[-1][0] * 1.2}:
            exact = min(c.cost_usd for c in candidates if c.jct_s <= deadline_s + 1e-6)
            by_greedy = played(problem, Greedy().plan(asking(problem, deadline_s=deadline_s), np.random.default_rng(0)))
            by_static = min(usd for t, usd, _ in statics if t <= deadline_s + 1e-6)
            assert exact <= by_greedy[1] + CLOSE_USD, seed
            assert by_greedy[1] <= by_static + CLOSE_USD, seed
            assert all(exact <= usd + CLOSE_USD for t, usd, _ in naive(problem) if t <= deadline_s), seed


def test_more_time_never_costs_more_and_more_money_never_takes_longer():
    for seed in range(30):
        candidates = front(ExpectedModel(larger(seed)))
        times, bills = [c.jct_s for c in candidates], [c.cost_usd for c in candidates]
        assert times == sorted(times), seed
        assert bills == sorted(bills, reverse=True), seed
        assert len(set(times)) == len(times), seed


def test_the_order_of_instance_types_does_not_matter():
    for seed in range(20):
        problem = larger(seed)
        turned = dataclasses.replace(
            problem, cloud=dataclasses.replace(problem.cloud, instance_types=problem.cloud.instance_types[::-1])
        )
        there, back = ([(c.jct_s, c.cost_usd) for c in front(ExpectedModel(p))] for p in (problem, turned))
        assert np.array(undominated(there)) == pytest.approx(np.array(undominated(back)), abs=CLOSE_USD), seed


def test_chains_one_after_another_are_planned_as_one():
    for seed in range(40):
        rng = np.random.default_rng([seed, 13])
        problem = random_problem(rng, stages=1)
        more = random_problem(rng, stages=2, trials=5).experiment.chains
        experiment = ExperimentSpec(chains=(*problem.experiment.chains, *more))
        problem = dataclasses.replace(problem, experiment=experiment)
        if static(problem):
            agrees(problem, seed, front=in_a_row)


def test_out_of_reach_is_told_with_the_nearest():
    problem = worked_problem()
    plans = every_plan(problem)
    fastest_s, cheapest = min(p[0] for p in plans), min(p[1] for p in plans)
    with pytest.raises(NoFeasiblePlan) as caught:
        Exact().plan(asking(problem, deadline_s=fastest_s / 2), np.random.default_rng(0))
    assert caught.value.limit == "deadline_s"
    assert caught.value.nearest["jct_s"] == pytest.approx(fastest_s)
    with pytest.raises(NoFeasiblePlan) as caught:
        Exact().plan(asking(problem, budget_usd=cheapest / 2), np.random.default_rng(0))
    assert caught.value.limit == "budget_usd"
    assert caught.value.nearest["cost_usd"] == pytest.approx(cheapest)


def test_without_an_objective_nothing_is_planned():
    with pytest.raises(InvalidInput, match="objective"):
        Exact().plan(worked_problem(), np.random.default_rng(0))


def with_noise(problem, std=0.1):
    profile = problem.profile
    return dataclasses.replace(
        problem,
        profile=dataclasses.replace(
            profile,
            trial_cv=0.2,
            iteration_s={w: Latency(mean=at.mean, std=std * at.mean) for w, at in profile.iteration_s.items()},
        ),
        cloud=dataclasses.replace(
            problem.cloud, init_s=Latency(mean=problem.cloud.init_s.mean, std=std * problem.cloud.init_s.mean)
        ),
    )


def test_under_noise_it_is_no_dearer_than_greedy_nor_greedy_than_static():
    problem = with_noise(worked_problem())
    for factor in (1.4, 1.8, 2.5):
        for confidence in (None, 0.9):
            bills = []
            for planner in (Exact, Greedy, Static):
                asked = asking(problem, deadline_factor=factor, confidence=confidence)
                plan = planner().plan(asked, np.random.default_rng(0))
                bills.append(simulate(problem, plan, samples=20_000, rng=np.random.default_rng(1)).cost_usd.mean())
            assert bills[0] <= bills[1] * 1.01
            assert bills[1] <= bills[2] * 1.01


def test_where_nodes_differ_much_in_when_they_start_it_is_no_dearer_than_static():
    # The search waits for the last of a stage's nodes, and so finds next to nothing between one node and the fastest.
    problem = Problem(
        experiment=ExperimentSpec.from_stages([(16, 1), (8, 2), (4, 4), (2, 8)]),
        profile=ScalingProfile(
            iteration_s={w: Latency(mean=mean, std=mean / 4) for w, mean in ((1, 9.3), (2, 4.8), (4, 2.5), (8, 1.4))},
            trial_cv=0.9,
        ),
        cloud=Cloud(
            instance_types=(InstanceType(name="a", slots=8, usd_per_hour=0.68),),
            max_nodes=8,
            launch_s=Latency(mean=23.0, std=7.0),
            init_s=Latency(mean=164.0, std=71.0),
        ),
        objective=Objective(deadline_factor=1.5, confidence=0.9),
    )
    bills = [
        simulate(
            problem, planner().plan(problem, np.random.default_rng(0)), samples=5_000, rng=np.random.default_rng(1)
        )
        for planner in (Exact, Static)
    ]
    assert bills[0].cost_usd.mean() <= bills[1].cost_usd.mean() * 1.01


def test_under_noise_the_front_says_the_means_of_its_plans():
    for seed in range(12):
        problem = with_noise(random_problem(np.random.default_rng([seed, 17]), nodes=4))
        if not static(problem):
            continue
        for candidate in front(ExpectedModel(problem)):
            estimate = simulate(problem, candidate.plan(problem), samples=20_000, rng=np.random.default_rng(1))
            assert candidate.jct_s == pytest.approx(estimate.jct_s.mean(), rel=0.02), seed
            assert candidate.cost_usd == pytest.approx(estimate.cost_usd.mean(), rel=0.02), seed


@pytest.mark.parametrize("seed", [54, 58, 60, 103])
def test_under_noise_the_time_of_the_fastest_plan_can_be_kept(seed):
    problem = random_problem(np.random.default_rng([seed, 9]), stages=4, nodes=6, trials=16, noise=True)
    problem = resolve(asking(problem, deadline_factor=1.0))
    jct_s, _ = expected(problem, Exact().plan(problem, np.random.default_rng(0)))
    assert jct_s <= problem.objective.deadline_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", [16, 32, 39, 43, 54, 58, 103])
@pytest.mark.parametrize("objective", [{"deadline_factor": 1.3}, {"deadline_factor": 1.7, "confidence": 0.9}])
def test_under_noise_no_plan_that_keeps_the_limit_is_better_by_its_samples(seed, objective):
    problem = random_problem(np.random.default_rng([seed, 9]), stages=4, nodes=6, trials=16, noise=True)
    problem = resolve(asking(problem, **objective))
    model = ExpectedModel(problem)
    limit = Limit(model, np.random.default_rng(0))
    _, cost_usd = expected(problem, Exact().plan(problem, np.random.default_rng(0)))
    keeping = [candidate.cost_usd for candidate in front(model) if limit.meets(candidate)]
    assert cost_usd <= min(keeping) * (1 + 1e-6)


def with_early_release(problem):
    return dataclasses.replace(problem, policies=Policies(early_release=True))


@pytest.mark.parametrize("noise", [False, True])
def test_with_early_release_no_dearer_plan_is_chosen_than_without_it(noise):
    cheaper = compared = 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 21])
        problem = random_problem(rng, stages=4, nodes=8, trials=24, noise=noise)
        try:
            usual = resolve(asking(problem, deadline_factor=float(rng.uniform(1.1, 2.0))))
        except NoFeasiblePlan:
            continue
        released = with_early_release(usual)
        before = expected(released, Exact().plan(usual, np.random.default_rng(seed)))
        after = expected(released, Exact().plan(released, np.random.default_rng(seed)))
        assert after[0] <= released.objective.deadline_s * (1 + 1e-9), seed
        assert after[1] <= before[1] * (1 + 1e-9), seed
        cheaper += after[1] < before[1] * (1 - 1e-9)
        compared += 1
    assert compared > 20
    assert cheaper or not noise


def test_with_early_release_the_front_says_what_its_plans_cost_with_it():
    problem = with_early_release(worked_problem())
    candidates = front(ExpectedModel(problem))
    for candidate in candidates:
        assert (candidate.jct_s, candidate.cost_usd) == expected(problem, candidate.plan(problem))
    usual = front(ExpectedModel(worked_problem()))
    assert min(c.cost_usd for c in candidates) < min(c.cost_usd for c in usual)


def large(trials, iterations, slots):
    return Problem(
        experiment=ExperimentSpec.from_stages([(trials, iterations), (max(1, trials // 2), iterations)]),
        profile=ScalingProfile(iteration_s={1: Latency(mean=2.0), 2: Latency(mean=1.25)}, start_s=Latency(mean=3.0)),
        cloud=Cloud(
            instance_types=(InstanceType(name="a", slots=slots, usd_per_hour=3.6),),
            max_nodes=8,
            init_s=Latency(mean=60.0),
        ),
    )


@pytest.mark.parametrize("size", [(10**6, 1), (4, 10**9), (10**6, 10**9)])
def test_a_million_trials_and_a_billion_iterations_are_planned(size):
    problem = large(*size, slots=4)
    candidates = front(ExpectedModel(problem))
    assert candidates
    for candidate in candidates:
        modelled = ExpectedModel(problem).evaluate(candidate.plan(problem))
        assert (candidate.jct_s, candidate.cost_usd) == pytest.approx(modelled)


def test_a_price_of_zero_leaves_only_the_fastest():
    problem = large(4, 5, slots=2)
    free = InstanceType(name="a", slots=2, usd_per_hour=0.0)
    cloud = dataclasses.replace(problem.cloud, instance_types=(free,), max_nodes=3)
    problem = dataclasses.replace(problem, cloud=cloud)
    fastest_s = min(plan[0] for plan in every_plan(problem))
    assert [(c.jct_s, c.cost_usd) for c in front(ExpectedModel(problem))] == [(pytest.approx(fastest_s), 0.0)]


def test_one_node_that_holds_one_trial_is_a_front_of_one_point():
    problem = large(3, 5, slots=1)
    problem = dataclasses.replace(
        problem,
        profile=ScalingProfile(iteration_s={1: Latency(mean=2.0)}),
        cloud=dataclasses.replace(problem.cloud, max_nodes=1),
    )
    # The node's start, three trials of 10 s one after another, and one of them again.
    (candidate,) = front(ExpectedModel(problem))
    assert (candidate.jct_s, candidate.cost_usd) == pytest.approx((100, 0.1))


def test_greedy_s_definition_never_beats_the_front():
    for seed in range(25):
        problem = random_problem(np.random.default_rng([seed, 19]), nodes=5)
        statics = static(problem)
        if not statics:
            continue
        candidates = front(ExpectedModel(problem))
        for jct_s, usd in greedy(problem, statics[0][0] * 1.3):
            assert min(c.cost_usd for c in candidates if c.jct_s <= jct_s + 1e-6) <= usd + CLOSE_USD, seed
