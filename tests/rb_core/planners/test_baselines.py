"""Static, static-1, naive and greedy against their definitions, carried out literally."""

import dataclasses
from itertools import pairwise

import definitions
import numpy as np
import pytest
from model_reference import random_problem, worked_problem

from rb_core.errors import InvalidInput, NoFeasiblePlan
from rb_core.hardware import Latency
from rb_core.plan import Objective
from rb_core.planners.greedy import Greedy
from rb_core.planners.naive import Naive
from rb_core.planners.static import Static, StaticOne
from rb_core.spec import ExperimentSpec

DEFINITIONS = {
    Static: definitions.static,
    StaticOne: lambda problem: definitions.static(problem, one_slot=True),
    Naive: definitions.naive,
}


def asking(problem, **objective):
    return dataclasses.replace(problem, objective=Objective(**objective))


def planned(planner, problem):
    return definitions.played(problem, planner().plan(problem, np.random.default_rng(0)))


def problems(count, *, first=0, chains=False, nodes=6):
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, nodes=nodes, trials=12)
        if chains and rng.random() < 0.5:
            more = random_problem(rng, trials=4).experiment.chains
            problem = dataclasses.replace(
                problem, experiment=ExperimentSpec(chains=(*problem.experiment.chains, *more))
            )
        yield seed, rng, problem


@pytest.mark.parametrize("planner", DEFINITIONS, ids=lambda planner: planner.name)
def test_the_cheapest_by_a_deadline_is_the_definition_s(planner):
    compared = 0
    for seed, rng, problem in problems(200, chains=True):
        plans = DEFINITIONS[planner](problem)
        if not plans:
            with pytest.raises(NoFeasiblePlan, match="max_nodes"):
                planner().plan(asking(problem, deadline_s=1e9), rng)
            continue
        for _ in range(2):
            deadline_s = plans[rng.integers(len(plans))][0] * float(rng.choice([1.0, 1.0, 1.1]))
            best = min((usd, jct_s) for jct_s, usd, _ in plans if jct_s <= deadline_s)
            jct_s, usd = planned(planner, asking(problem, deadline_s=deadline_s))
            assert usd == pytest.approx(best[0], abs=1e-9), seed
            assert jct_s <= deadline_s + 1e-6, seed
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("planner", DEFINITIONS, ids=lambda planner: planner.name)
def test_the_fastest_within_a_budget_is_the_definition_s(planner):
    compared = 0
    for seed, rng, problem in problems(60, first=500, chains=True):
        plans = DEFINITIONS[planner](problem)
        if not plans:
            continue
        budget_usd = plans[rng.integers(len(plans))][1] * 1.0001
        fastest_s = min(jct_s for jct_s, usd, _ in plans if usd <= budget_usd)
        jct_s, usd = planned(planner, asking(problem, budget_usd=budget_usd))
        assert jct_s == pytest.approx(fastest_s), seed
        assert usd <= budget_usd + 1e-9, seed
        compared += 1
    assert compared > 25


@pytest.mark.parametrize("planner", DEFINITIONS, ids=lambda planner: planner.name)
def test_a_limit_out_of_reach_is_told_with_the_nearest(planner):
    problem = worked_problem()
    plans = DEFINITIONS[planner](problem)
    fastest_s, cheapest = min(p[0] for p in plans), min(p[1] for p in plans)
    with pytest.raises(NoFeasiblePlan) as caught:
        planner().plan(asking(problem, deadline_s=fastest_s - 0.01), np.random.default_rng(0))
    assert caught.value.limit == "deadline_s"
    assert caught.value.nearest["jct_s"] == pytest.approx(fastest_s)
    assert f"needs {fastest_s:.1f} s but the deadline is {fastest_s - 0.01:.1f} s" in str(caught.value)
    assert "max_nodes (now 4)" in str(caught.value)
    with pytest.raises(NoFeasiblePlan) as caught:
        planner().plan(asking(problem, budget_usd=cheapest * 0.999), np.random.default_rng(0))
    assert caught.value.limit == "budget_usd"
    assert caught.value.nearest["cost_usd"] == pytest.approx(cheapest)


def test_of_widths_that_end_a_stage_together_the_smaller_one_is_taken():
    problem = worked_problem()
    profile = dataclasses.replace(problem.profile, iteration_s={w: Latency(mean=5.0) for w in (1, 2, 4)})
    problem = asking(dataclasses.replace(problem, profile=profile), deadline_s=1e6)
    plan = Static().plan(problem, np.random.default_rng(0))
    assert [allocation.slots_per_trial for allocation in plan.chains[0]] == [1, 1, 1]


def test_greedy_is_the_definition_s():
    compared = moved = 0
    for seed, rng, problem in problems(500, first=1000, chains=True, nodes=8):
        statics = definitions.static(problem)
        if not statics:
            continue
        deadline_s = statics[rng.integers(len(statics))][0] * float(rng.choice([1.0, 1.05, 1.3, 2.0]))
        ends = definitions.greedy(problem, deadline_s)
        got = planned(Greedy, asking(problem, deadline_s=deadline_s))
        assert any(got == pytest.approx(end, abs=1e-6) for end in ends), (seed, got, ends)
        compared += 1
        moved += got[1] < min(p[1] for p in statics if p[0] <= deadline_s + 1e-6) - 1e-9
    assert compared > 350
    assert moved > 15


def test_greedy_within_a_budget_is_no_slower_than_static():
    for seed, rng, problem in problems(80, first=2000):
        statics = definitions.static(problem)
        if not statics:
            continue
        budget_usd = statics[rng.integers(len(statics))][1] * 1.0001
        jct_s, usd = planned(Greedy, asking(problem, budget_usd=budget_usd))
        assert usd <= budget_usd + 1e-9, seed
        assert jct_s <= min(t for t, c, _ in statics if c <= budget_usd) + 1e-6, seed


def test_greedy_out_of_reach_is_told_with_the_nearest():
    problem = worked_problem()
    with pytest.raises(NoFeasiblePlan) as caught:
        Greedy().plan(asking(problem, deadline_s=10), np.random.default_rng(0))
    assert caught.value.limit == "deadline_s"
    assert caught.value.nearest["jct_s"] == pytest.approx(min(p[0] for p in definitions.static(problem)))


@pytest.mark.parametrize("planner", [Static, StaticOne, Naive, Greedy], ids=lambda planner: planner.name)
def test_without_an_objective_nothing_is_planned(planner):
    with pytest.raises(InvalidInput, match="objective"):
        planner().plan(worked_problem(), np.random.default_rng(0))


@pytest.mark.parametrize("planner", [Static, StaticOne, Naive], ids=lambda planner: planner.name)
def test_a_later_deadline_and_a_larger_budget_never_cost(planner):
    for seed, _, problem in problems(25, first=3000):
        plans = DEFINITIONS[planner](problem)
        if not plans:
            continue
        deadlines = sorted({plan[0] for plan in plans})[:5]
        bills = [planned(planner, asking(problem, deadline_s=at))[1] for at in deadlines]
        assert all(later <= before + 1e-9 for before, later in pairwise(bills)), seed
        budgets = sorted({plan[1] for plan in plans if plan[1] > 0})[:5]
        times = [planned(planner, asking(problem, budget_usd=at))[0] for at in budgets]
        assert all(later <= before + 1e-6 for before, later in pairwise(times)), seed


@pytest.mark.parametrize("planner", [Static, StaticOne, Naive, Greedy], ids=lambda planner: planner.name)
def test_the_order_of_instance_types_does_not_matter(planner):
    for seed, _, problem in problems(30, first=4000):
        plans = definitions.static(problem, one_slot=planner is StaticOne)
        if not plans or len(problem.cloud.instance_types) < 2:
            continue
        deadline_s = max(plan[0] for plan in plans) * 1.2
        turned = dataclasses.replace(problem.cloud, instance_types=problem.cloud.instance_types[::-1])
        there = planned(planner, asking(problem, deadline_s=deadline_s))
        back = planned(planner, asking(dataclasses.replace(problem, cloud=turned), deadline_s=deadline_s))
        assert there[1] == pytest.approx(back[1], abs=1e-9), seed
