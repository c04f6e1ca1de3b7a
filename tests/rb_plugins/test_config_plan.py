from __future__ import annotations

import json

import pytest

from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, ChainOrder, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_plugins.config.plan import load_plan, read_plan

PROBLEM = Problem(
    experiment=ExperimentSpec.from_stages([(4, 10), (1, 20)]),
    profile=ScalingProfile(iteration_s={1: Latency(mean=3.0), 4: Latency(mean=1.0)}),
    cloud=Cloud(instance_types=(InstanceType(name="box", slots=2, usd_per_hour=3.6),), max_nodes=3),
)

STAGES = [
    {"trials": 4, "iterations": 10, "instance_type": "box", "nodes": 3, "slots_per_trial": 1},
    {"instance_type": "box", "nodes": 2, "slots_per_trial": 4},
]

PLAN = AllocationPlan(
    chains=((StageAllocation(instance_type="box", nodes=3, slots_per_trial=1),
             StageAllocation(instance_type="box", nodes=2, slots_per_trial=4)),)
)  # fmt: skip


def test_stages_alone_are_enough():
    read = read_plan({"stages": STAGES}, PROBLEM)
    assert read.plan == PLAN
    assert (read.planner, read.fingerprint) == ("", "")


def test_what_plan_prints_reads_back(tmp_path):
    told = {
        "schema": 1, "planner": "greedy", **PLAN.record(PROBLEM.experiment),
        "expected": {"jct_s": 1.0, "cost_usd": 2.0}, "simulated": {"samples": 3},
        "baselines": {"static": None, "greedy": {"jct_s": 1.0, "cost_usd": 2.0}},
        "cost_lower_bound_usd": 0.1, "fingerprint": "abc",
    }  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(told))
    read = load_plan(tmp_path / "plan.json", PROBLEM)
    assert (read.plan, read.planner, read.fingerprint) == (PLAN, "greedy", "abc")


def test_several_chains_keep_their_order():
    problem = Problem(experiment=ExperimentSpec.hyperband(R=3, eta=3), profile=PROBLEM.profile, cloud=PROBLEM.cloud)
    stage = StageAllocation(instance_type="box", nodes=1, slots_per_trial=1)
    plan = AllocationPlan(chains=((stage, stage), (stage,)), order=ChainOrder.PARALLEL)
    table = plan.record(problem.experiment)
    assert table["order"] == "parallel"
    assert read_plan(table, problem).plan == plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": STAGES[:1]},
         "stages: must be one allocation a stage; the experiment's chains have [2] stages, the plan's have [1]; "
         "the plan seems to be for another problem; rb-tune plan --json makes one for this"),
        ({}, "stages: is required, or chains of stages in its place; not both"),
        ({"stages": STAGES, "chains": []}, "stages: is required, or chains of stages in its place; not both"),
        ({"stages": [{**STAGES[0], "trials": 5}, STAGES[1]]},
         "stages[0].trials: must be 4 as in the problem's stage, got 5; the plan seems to be for another problem"),
        ({"stages": [{**STAGES[0], "iterations": 9}, STAGES[1]]},
         "stages[0].iterations: must be 10 as in the problem's stage, got 9; the plan seems to be for another problem"),
        ({"stages": [STAGES[0], {**STAGES[1], "instance_type": "bix"}]},
         "stages[1].instance_type: must be one of the cloud's types (box), got 'bix'"),
        ({"stages": [STAGES[0], {**STAGES[1], "nodes": 4}]},
         "stages[1].nodes: must be at most the cloud's max_nodes of 3, got 4"),
        ({"stages": [STAGES[0], {**STAGES[1], "nodes": 1}]},
         "stages[1].nodes: must be at least 2 to hold one trial of 4 slots on nodes of 2, got 1"),
        ({"stages": [STAGES[0], {**STAGES[1], "nodes": 0}]}, "stages[1].nodes: must be a positive integer, got 0"),
        ({"stages": [STAGES[0], {**STAGES[1], "slots_per_trial": 2}]},
         "stages[1].slots_per_trial: must be one that the profile lists (1, 4), got 2"),
        ({"stages": [STAGES[0], {**STAGES[1], "slots": 2}]}, "stages[1].slots: is not a known key; "),
        ({"stages": STAGES, "cost_lower_bound_usd": "x"}, "cost_lower_bound_usd: must be a number, got 'x'"),
        ({"stages": STAGES, "order": "random"}, "order: must be one of 'parallel' or 'sequential', got 'random'"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_is_refused(change, message):
    with pytest.raises(InvalidInput) as caught:
        read_plan(change, PROBLEM)
    assert str(caught.value).startswith(message)
