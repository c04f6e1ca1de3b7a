import dataclasses
import math

import numpy as np
import pytest
from definitions import played, static
from model_reference import every_plan, random_problem, worked_problem

from rb_core.errors import InvalidInput, NoFeasiblePlan
from rb_core.expectation import ExpectedModel
from rb_core.hardware import InstanceType, Latency
from rb_core.plan import Objective, Policies
from rb_core.planners.candidate import Candidate
from rb_core.planners.fastest import fastest
from rb_core.planners.objective import Limit, lower_bound_usd, resolve
from rb_core.planners.static import Static
from rb_core.simulate import simulate
from rb_core.spec import ExperimentSpec


def asking(problem, **objective):
    return dataclasses.replace(problem, objective=Objective(**objective))


def noisy():
    problem = worked_problem()
    return dataclasses.replace(
        problem,
        profile=dataclasses.replace(problem.profile, trial_cv=0.3),
        cloud=dataclasses.replace(problem.cloud, init_s=Latency(mean=60, std=15)),
    )


def test_the_fastest_plan_is_the_fastest_of_all():
    mixed = 0
    for seed in [*range(120), 596, 1292]:
        problem = random_problem(np.random.default_rng(seed))
        plans = every_plan(problem)
        if not plans:
            with pytest.raises(NoFeasiblePlan, match="no trial fits"):
                fastest(ExpectedModel(problem))
            continue
        candidate = fastest(ExpectedModel(problem))
        assert candidate.jct_s == pytest.approx(min(plan[0] for plan in plans)), seed
        assert played(problem, candidate.plan(problem)) == pytest.approx((candidate.jct_s, candidate.cost_usd)), seed
        mixed += len({allocation.instance_type for allocation in candidate.allocations}) > 1
    assert mixed >= 2


def test_a_relative_deadline_is_a_multiple_of_the_fastest_plan_s_time():
    problem = worked_problem()
    fastest_s = min(plan[0] for plan in every_plan(problem))
    resolved = resolve(asking(problem, deadline_factor=1.5, confidence=0.9))
    assert resolved.objective == Objective(deadline_s=1.5 * fastest_s, confidence=0.9)
    absolute = asking(problem, deadline_s=10)
    assert resolve(absolute) is absolute


def test_a_relative_deadline_of_one_can_be_kept():
    problem = asking(worked_problem(), deadline_factor=1.0)
    jct_s, _ = played(problem, Static().plan(problem, np.random.default_rng(0)))
    assert jct_s == pytest.approx(min(plan[0] for plan in every_plan(problem)))


def test_a_problem_without_an_objective_cannot_be_resolved():
    with pytest.raises(InvalidInput, match="objective: is missing; set deadline_s or budget_usd"):
        resolve(worked_problem())


def test_where_no_trial_fits_the_error_names_what_would():
    problem = worked_problem()
    problem = dataclasses.replace(
        problem,
        profile=dataclasses.replace(problem.profile, iteration_s={3: Latency(mean=1.0), 16: Latency(mean=1.0)}),
    )
    with pytest.raises(NoFeasiblePlan, match=r"3, 16 slots per trial, and max_nodes 4 of a \(2 slots\)") as caught:
        fastest(ExpectedModel(problem))
    assert caught.value.limit == "max_nodes"


def test_the_lower_bound_is_perfect_packing_on_the_best_type_and_width():
    problem = worked_problem()
    # 120 iterations at best 10 s on one slot of a node of two at 0.001 usd/s.
    assert lower_bound_usd(problem) == pytest.approx(120 * 10 * 0.001 / 2)
    better = dataclasses.replace(
        problem.cloud,
        instance_types=(*problem.cloud.instance_types, InstanceType(name="b", slots=1, usd_per_hour=7.2, speed=8.0)),
    )
    assert lower_bound_usd(dataclasses.replace(problem, cloud=better)) == pytest.approx(120 * 10 / 8 * 0.002)


def test_the_lower_bound_counts_the_penalty_of_spanning_and_no_width_that_cannot_be_laid():
    problem = worked_problem()
    profile = dataclasses.replace(
        problem.profile, iteration_s={3: Latency(mean=0.001), 4: Latency(mean=4.0)}, spread_penalty=0.5
    )
    assert lower_bound_usd(dataclasses.replace(problem, profile=profile)) == pytest.approx(
        120 * 4 * 4 * 1.5 * 0.001 / 2
    )
    none = dataclasses.replace(profile, iteration_s={3: Latency(mean=1.0)})
    assert lower_bound_usd(dataclasses.replace(problem, profile=none)) == math.inf


def test_nothing_is_cheaper_than_the_lower_bound():
    for seed in range(150):
        problem = random_problem(np.random.default_rng(seed))
        bound = lower_bound_usd(problem)
        assert all(usd >= bound - 1e-9 for _, usd, _ in every_plan(problem)), seed


def test_a_limit_orders_by_what_is_not_limited():
    cheap, quick = Candidate(allocations=(), jct_s=9, cost_usd=1), Candidate(allocations=(), jct_s=1, cost_usd=9)
    model = ExpectedModel(asking(worked_problem(), deadline_s=10))
    assert Limit(model, np.random.default_rng(0)).first([quick, cheap]) is cheap
    model = ExpectedModel(asking(worked_problem(), deadline_s=5))
    assert Limit(model, np.random.default_rng(0)).first([quick, cheap]) is quick
    model = ExpectedModel(asking(worked_problem(), budget_usd=10))
    assert Limit(model, np.random.default_rng(0)).first([cheap, quick]) is quick
    model = ExpectedModel(asking(worked_problem(), budget_usd=0.5))
    assert Limit(model, np.random.default_rng(0)).first([cheap, quick]) is None


def test_a_plan_that_keeps_the_limit_is_found_though_the_model_does_not_think_so():
    model = ExpectedModel(asking(noisy(), deadline_factor=1.0))
    limit = Limit(model, np.random.default_rng(0))
    doubted = dataclasses.replace(fastest(model), jct_s=10 * limit.value)
    slower = dataclasses.replace(doubted, jct_s=20 * limit.value, cost_usd=0.0)
    assert not limit.likely(doubted)
    assert limit.first([slower, doubted]) is doubted
    strict = Limit(ExpectedModel(asking(noisy(), deadline_s=limit.value / 2)), np.random.default_rng(0))
    assert strict.first([slower, doubted]) is None


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_a_wanted_confidence_is_reached_with_samples_of_our_own(confidence):
    deadline_s = 1.7 * min(plan[0] for plan in static(noisy()))
    problem = asking(noisy(), deadline_s=deadline_s, confidence=confidence)
    plan = Static().plan(problem, np.random.default_rng(0))
    estimate = simulate(problem, plan, samples=20_000, rng=np.random.default_rng(99))
    # The planner had 1,000 samples: three standard errors of theirs.
    assert np.mean(estimate.jct_s <= deadline_s) > confidence - 3 * math.sqrt(confidence * (1 - confidence) / 1000)


def test_more_confidence_never_costs_less_and_is_refused_where_it_is_out_of_reach():
    deadline_s = resolve(asking(noisy(), deadline_factor=1.5)).objective.deadline_s
    bills = []
    for confidence in (0.5, 0.8, 0.95):
        problem = asking(noisy(), deadline_s=deadline_s, confidence=confidence)
        plan = Static().plan(problem, np.random.default_rng(0))
        bills.append(simulate(problem, plan, samples=4000, rng=np.random.default_rng(1)).cost_usd.mean())
    assert bills == sorted(bills)
    tight = resolve(asking(noisy(), deadline_factor=1.0)).objective.deadline_s
    with pytest.raises(NoFeasiblePlan, match=r"needs [0-9.]+ s at p99 but the deadline is") as caught:
        Static().plan(asking(noisy(), deadline_s=tight, confidence=0.99), np.random.default_rng(0))
    assert caught.value.limit == "deadline_s"


def test_a_budget_with_confidence_holds_for_the_bill():
    budget_usd = 1.5 * min(plan[1] for plan in static(noisy()))
    problem = asking(noisy(), budget_usd=budget_usd, confidence=0.9)
    plan = Static().plan(problem, np.random.default_rng(0))
    estimate = simulate(problem, plan, samples=20_000, rng=np.random.default_rng(99))
    assert np.mean(estimate.cost_usd <= budget_usd) > 0.9 - 0.03


def test_equal_generators_give_equal_plans():
    problem = asking(noisy(), deadline_factor=1.5, confidence=0.9)
    first, second = (Static().plan(problem, np.random.default_rng(7)) for _ in range(2))
    assert first == second


def test_several_chains_are_planned_one_after_another():
    problem = worked_problem()
    problem = asking(dataclasses.replace(problem, experiment=ExperimentSpec.hyperband(R=9, eta=3)), deadline_factor=1.5)
    plan = Static().plan(problem, np.random.default_rng(0))
    assert [len(chain) for chain in plan.chains] == [3, 2, 1]
    estimate = simulate(problem, plan, samples=1, rng=np.random.default_rng(0))
    assert (estimate.jct_s[0], estimate.cost_usd[0]) == pytest.approx(played(problem, plan))


def test_a_plan_that_only_early_release_brings_into_the_budget_is_worth_sampling():
    usual = asking(noisy(), budget_usd=1.0)
    early = dataclasses.replace(usual, policies=Policies(early_release=True))
    dear = Candidate(allocations=(), jct_s=1.0, cost_usd=1.25)
    limits = [Limit(ExpectedModel(problem), np.random.default_rng(0)) for problem in (usual, early)]
    assert [limit.likely(dear) for limit in limits] == [False, True]
    assert not limits[1].likely(dataclasses.replace(dear, cost_usd=1.4))
