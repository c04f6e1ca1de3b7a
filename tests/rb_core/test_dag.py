import dataclasses

import pytest
from model_reference import plan_of, worked_problem

from rb_core.dag import ExecutionDAG
from rb_core.errors import InvalidInput
from rb_core.hardware import InstanceType
from rb_core.plan import AllocationPlan, ChainOrder, StageAllocation
from rb_core.spec import ExperimentSpec


def two_chains(max_nodes=4):
    problem = worked_problem()
    return dataclasses.replace(
        problem,
        experiment=ExperimentSpec(
            chains=(*ExperimentSpec.from_stages([(4, 1), (2, 1)]).chains, *ExperimentSpec.from_stages([(3, 2)]).chains)
        ),
        cloud=dataclasses.replace(
            problem.cloud,
            instance_types=(*problem.cloud.instance_types, InstanceType(name="b", slots=4, usd_per_hour=1)),
            max_nodes=max_nodes,
        ),
    )


def chains(*nodes, order=ChainOrder.SEQUENTIAL):
    return AllocationPlan(
        chains=tuple(
            tuple(StageAllocation(instance_type="a", nodes=m, slots_per_trial=1) for m in chain) for chain in nodes
        ),
        order=order,
    )


def shape(dag):
    return [[(s.chain, s.stage, s.kept, s.requested) for s in lane] for lane in dag.lanes]


def test_nodes_are_kept_up_to_what_the_next_stage_holds():
    dag = ExecutionDAG.build(worked_problem(), plan_of(("a", 2, 1), ("a", 3, 2), ("a", 1, 2)))
    assert shape(dag) == [[(0, 0, 0, 2), (0, 1, 2, 1), (0, 2, 1, 0)]]


def test_nodes_of_another_type_are_not_kept():
    problem = two_chains()
    plan = AllocationPlan(
        chains=(
            (
                StageAllocation(instance_type="a", nodes=2, slots_per_trial=1),
                StageAllocation(instance_type="b", nodes=2, slots_per_trial=1),
            ),
            (StageAllocation(instance_type="b", nodes=1, slots_per_trial=1),),
        )
    )
    assert shape(ExecutionDAG.build(problem, plan)) == [[(0, 0, 0, 2), (0, 1, 0, 2), (1, 0, 1, 0)]]


def test_sequential_chains_share_a_lane_and_parallel_ones_do_not():
    problem = two_chains()
    assert shape(ExecutionDAG.build(problem, chains((2, 1), (3,)))) == [[(0, 0, 0, 2), (0, 1, 1, 0), (1, 0, 1, 2)]]
    side_by_side = chains((2, 1), (2,), order=ChainOrder.PARALLEL)
    assert shape(ExecutionDAG.build(problem, side_by_side)) == [[(0, 0, 0, 2), (0, 1, 1, 0)], [(1, 0, 0, 2)]]


def test_the_limit_holds_for_all_lanes_together_and_for_each_stage_alone():
    problem = two_chains(max_nodes=4)
    ExecutionDAG.build(problem, chains((4, 1), (4,)))
    ExecutionDAG.build(problem, chains((1, 3), (1,), order=ChainOrder.PARALLEL))
    with pytest.raises(InvalidInput, match=r"max_nodes 4 for all chains together, got 5"):
        ExecutionDAG.build(problem, chains((1, 3), (2,), order=ChainOrder.PARALLEL))
    with pytest.raises(InvalidInput, match="got 5"):
        ExecutionDAG.build(problem, chains((5, 1), (1,)))


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (("b", 1, 1), r"stages\[1\]\.instance_type: must be one of the cloud's types \(a\), got 'b'"),
        (("a", 1, 3), r"stages\[1\]\.slots_per_trial: must be a number that the profile lists \(1, 2, 4\), got 3"),
        (("a", 1, 4), r"stages\[1\]\.nodes: must be at least 2"),
    ],
)
def test_errors_name_the_stage(stage, words):
    with pytest.raises(InvalidInput, match=words):
        ExecutionDAG.build(worked_problem(), plan_of(("a", 1, 1), stage, ("a", 1, 1)))


def test_errors_name_the_chain_where_there_are_several():
    plan = chains((2, 1), (1,))
    bad = dataclasses.replace(
        plan, chains=(plan.chains[0], (StageAllocation(instance_type="z", nodes=1, slots_per_trial=1),))
    )
    with pytest.raises(InvalidInput, match=r"^chains\[1\]\.stages\[0\]\.instance_type"):
        ExecutionDAG.build(two_chains(), bad)
