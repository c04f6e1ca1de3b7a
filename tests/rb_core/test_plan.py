import dataclasses

import pytest
from model_reference import plan_of, worked_problem

from rb_core.errors import InvalidInput
from rb_core.hardware import Latency
from rb_core.plan import AllocationPlan, ChainOrder, Objective, Policies, StageAllocation
from rb_core.spec import ExperimentSpec


@pytest.mark.parametrize(
    ("given", "key"),
    [
        (("", 1, 1), "instance_type"),
        (("a", 0, 1), "nodes"),
        (("a", 1, 0), "slots_per_trial"),
        (("a", 1.0, 1), "nodes"),
    ],
)
def test_an_allocation_refuses_by_name(given, key):
    with pytest.raises(InvalidInput) as caught:
        StageAllocation(instance_type=given[0], nodes=given[1], slots_per_trial=given[2])
    assert caught.value.key == key


def test_a_plan_must_have_the_experiment_s_shape():
    spec = worked_problem().experiment
    plan_of(("a", 1, 1), ("a", 1, 1), ("a", 1, 1)).check_fits(spec)
    with pytest.raises(InvalidInput, match=r"have \[3\] stages, the plan's have \[2\]"):
        plan_of(("a", 1, 1), ("a", 1, 1)).check_fits(spec)
    one = StageAllocation(instance_type="a", nodes=1, slots_per_trial=1)
    with pytest.raises(InvalidInput, match="stages"):
        AllocationPlan(chains=((one, one), (one,))).check_fits(spec)


def test_a_plan_of_one_chain_is_recorded_as_its_stages():
    spec = ExperimentSpec.from_stages([(2, 10), (1, 20)])
    assert plan_of(("a", 2, 1), ("a", 1, 2)).record(spec) == {
        "stages": [
            {"trials": 2, "iterations": 10, "instance_type": "a", "nodes": 2, "slots_per_trial": 1},
            {"trials": 1, "iterations": 20, "instance_type": "a", "nodes": 1, "slots_per_trial": 2},
        ]
    }


def test_several_chains_are_recorded_with_their_order():
    one = StageAllocation(instance_type="a", nodes=1, slots_per_trial=1)
    plan = AllocationPlan(chains=((one, one), (one,)), order=ChainOrder.PARALLEL)
    record = plan.record(ExperimentSpec.hyperband(R=3, eta=3))
    assert [len(chain["stages"]) for chain in record["chains"]] == [2, 1]
    assert record["order"] == "parallel"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "exactly one of deadline_s and budget_usd, got none"),
        ({"deadline_s": 1, "budget_usd": 1}, "got deadline_s and budget_usd"),
        ({"deadline_s": 0}, "deadline_s: must be a finite number above 0"),
        ({"budget_usd": -1}, "budget_usd"),
        ({"deadline_s": float("nan")}, "deadline_s"),
        ({"deadline_factor": 0.99}, "at least 1 times"),
        ({"deadline_s": 1, "confidence": 0.4}, "confidence"),
        ({"deadline_s": 1, "confidence": 1.0}, "confidence"),
    ],
)
def test_an_objective_has_one_limit_that_can_be(given, words):
    with pytest.raises(InvalidInput, match=words):
        Objective(**given)


@pytest.mark.parametrize("name", ["prefetch", "early_promotion"])
def test_policies_that_are_not_built_are_refused_by_name(name):
    with pytest.raises(InvalidInput) as caught:
        Policies(**{name: True})
    assert caught.value.key == name


def test_a_problem_is_noisy_with_its_profile_or_its_cloud():
    problem = worked_problem()
    assert not problem.noisy
    cloud = dataclasses.replace(problem.cloud, init_s=Latency(mean=60, std=1))
    assert dataclasses.replace(problem, cloud=cloud).noisy
    profile = dataclasses.replace(problem.profile, trial_cv=0.1)
    assert dataclasses.replace(problem, profile=profile).noisy
