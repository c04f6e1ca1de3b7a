import dataclasses

import numpy as np
import pytest
from model_reference import every_plan, worked_problem

from rb_core.errors import InvalidInput, NoFeasiblePlan
from rb_core.expectation import ExpectedModel, expected
from rb_core.planners.exact import front
from rb_core.simulate import simulate
from rb_core.sizing import Kind, Purse, family, size_up


def small(nodes=2):
    """The worked example's profile and cloud; what is run on them is replaced."""
    problem = worked_problem()
    return dataclasses.replace(problem, cloud=dataclasses.replace(problem.cloud, max_nodes=nodes))


def sized(problem, kind, purse, **numbers):
    return size_up(problem, family(kind, **numbers), purse, np.random.default_rng(0))


def fits(problem, experiment, purse):
    """By exhaustive search."""
    plans = every_plan(dataclasses.replace(problem, experiment=experiment))
    return any(jct_s <= purse.deadline_s and usd <= purse.budget_usd for jct_s, usd, *_ in plans)


@pytest.mark.parametrize(
    "purse",
    [
        Purse(deadline_s=900, budget_usd=2),
        Purse(deadline_s=3600, budget_usd=0.7),
        Purse(deadline_s=500, budget_usd=50),
        Purse(deadline_s=1000, budget_usd=1.0),
    ],
)
@pytest.mark.parametrize(
    ("kind", "numbers", "letter"),
    [(Kind.SUCCESSIVE_HALVING, {"R": 20, "eta": 2, "r": 5}, "n"), (Kind.HYPERBAND, {"R": 9, "eta": 3}, "R")],
)
def test_the_largest_fits_and_the_next_does_not(purse, kind, numbers, letter):
    problem, experiments = small(), family(kind, **numbers)
    told = sized(problem, kind, purse, **numbers)
    assert told.family.letter == letter
    assert fits(problem, told.largest.experiment, purse)
    if told.largest.size < experiments.most:
        assert not fits(problem, experiments.make(told.largest.size + 1), purse)
    plan = told.largest.both.plan(dataclasses.replace(problem, experiment=told.largest.experiment))
    jct_s, cost_usd = expected(dataclasses.replace(problem, experiment=told.largest.experiment), plan)
    assert jct_s <= purse.deadline_s
    assert cost_usd <= purse.budget_usd


def test_every_row_is_the_front_s():
    problem, purse = small(), Purse(deadline_s=900, budget_usd=2)
    told = sized(problem, Kind.SUCCESSIVE_HALVING, purse, R=20, eta=2, r=5)
    assert [row.size for row in told.tried] == sorted({row.size for row in told.tried})
    assert any(row.both is None for row in told.tried)
    for row in told.tried:
        plans = front(ExpectedModel(dataclasses.replace(problem, experiment=row.experiment)))
        in_time = [plan.cost_usd for plan in plans if plan.jct_s <= 900]
        in_budget = [plan.jct_s for plan in plans if plan.cost_usd <= 2]
        assert (row.in_time and row.in_time.cost_usd) == (min(in_time) if in_time else None)
        assert (row.in_budget and row.in_budget.jct_s) == (min(in_budget) if in_budget else None)
        assert (row.both is not None) == (bool(in_time) and min(in_time) <= 2)


def test_few_sizes_are_tried_however_many_fit():
    profile = dataclasses.replace(small().profile, iteration_s={1: small().profile.iteration_s[1]})
    problem = dataclasses.replace(small(), profile=profile)
    told = sized(problem, Kind.SUCCESSIVE_HALVING, Purse(deadline_s=1e5, budget_usd=1e9), R=2, eta=2)
    assert told.largest.size > 10_000
    assert len(told.tried) <= 40


def test_the_whole_family_may_fit():
    told = sized(small(), Kind.HYPERBAND, Purse(deadline_s=1e6, budget_usd=1e6), R=10, eta=3)
    assert told.largest.size == 10
    assert [row.size for row in told.tried] == [1, 3, 9, 10]


def test_with_confidence_both_limits_are_kept_together():
    problem = small()
    problem = dataclasses.replace(problem, profile=dataclasses.replace(problem.profile, trial_cv=0.3))
    purse = Purse(deadline_s=900, budget_usd=2, confidence=0.9)
    told = sized(problem, Kind.SUCCESSIVE_HALVING, purse, R=20, eta=2, r=5)
    on_average = sized(problem, Kind.SUCCESSIVE_HALVING, Purse(deadline_s=900, budget_usd=2), R=20, eta=2, r=5)
    assert told.largest.size <= on_average.largest.size
    chosen = dataclasses.replace(problem, experiment=told.largest.experiment)
    fresh = simulate(chosen, told.largest.both.plan(chosen), samples=2000, rng=np.random.default_rng(99))
    assert np.mean((fresh.jct_s <= 900) & (fresh.cost_usd <= 2)) > 0.87


def test_where_nothing_fits_it_says_why():
    with pytest.raises(NoFeasiblePlan, match=r"not even n = 1 fits: no plan keeps the deadline of 10\.0 s"):
        sized(small(), Kind.SUCCESSIVE_HALVING, Purse(deadline_s=10, budget_usd=9), R=9, eta=3)
    with pytest.raises(NoFeasiblePlan, match=r"R = 1 fits: the cheapest plan by the deadline costs 0\.0") as no:
        sized(small(), Kind.HYPERBAND, Purse(deadline_s=9000, budget_usd=0.001), R=9, eta=3)
    assert no.value.limit == "budget_usd"


@pytest.mark.parametrize(
    ("kind", "numbers", "key"),
    [
        (Kind.SUCCESSIVE_HALVING, {"R": 9, "eta": 1}, "eta"),
        (Kind.SUCCESSIVE_HALVING, {"R": 0, "eta": 2}, "R"),
        (Kind.SUCCESSIVE_HALVING, {"R": 9, "eta": 2, "r": 10}, "r"),
        (Kind.HYPERBAND, {"R": 9, "eta": 1}, "eta"),
        (Kind.HYPERBAND, {"R": 9, "eta": 3, "r": 3}, "r"),
    ],
)
def test_numbers_out_of_their_limits_are_refused(kind, numbers, key):
    with pytest.raises(InvalidInput) as refused:
        family(kind, **numbers)
    assert refused.value.key == key
