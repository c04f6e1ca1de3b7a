import pytest

from rb_core.hardware import Cloud, InstanceType
from rb_core.plan import ChainOrder
from rb_core.planners.wide import wide
from rb_core.spec import ExperimentSpec


def cloud(slots, max_nodes):
    types = (
        InstanceType(name="first", slots=slots, usd_per_hour=2.0),
        InstanceType(name="cheaper", slots=slots, usd_per_hour=1.0),
    )
    return Cloud(instance_types=types, max_nodes=max_nodes)


@pytest.mark.parametrize(
    ("slots", "max_nodes", "nodes"),
    [(1, 100, [9, 3, 1]), (1, 4, [4, 3, 1]), (4, 100, [3, 1, 1]), (2, 2, [2, 2, 1]), (16, 1, [1, 1, 1])],
)
def test_every_trial_has_one_slot_on_no_more_nodes_than_that_takes_and_there_are(slots, max_nodes, nodes):
    (chain,) = wide(ExperimentSpec.successive_halving(n=9, r=1, R=9, eta=3), cloud(slots, max_nodes)).chains
    assert [stage.nodes for stage in chain] == nodes
    assert {(stage.instance_type, stage.slots_per_trial) for stage in chain} == {("first", 1)}


def test_brackets_follow_each_other():
    spec = ExperimentSpec.hyperband(R=9, eta=3)
    plan = wide(spec, cloud(2, 3))
    assert plan.order is ChainOrder.SEQUENTIAL
    assert [[stage.nodes for stage in chain] for chain in plan.chains] == [[3, 2, 1], [3, 1], [2]]
    plan.check_fits(spec)
