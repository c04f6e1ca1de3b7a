"""The plan for an experiment of which nothing is known: one slot a trial, and as many nodes as that can use."""

from __future__ import annotations

from rb_core.hardware import Cloud
from rb_core.plan import AllocationPlan, ChainOrder, StageAllocation
from rb_core.spec import ExperimentSpec


def wide(experiment: ExperimentSpec, cloud: Cloud) -> AllocationPlan:
    """Chains one after another, on nodes of the cloud's first type.

    Args:
        experiment: the stages.
        cloud: its first type is used, up to `max_nodes` nodes of it.
    """
    node = cloud.instance_types[0]
    chains = []
    for chain in experiment.chains:
        wanted = [-(-stage.trials // node.slots) for stage in chain]
        chains.append(
            tuple(
                StageAllocation(instance_type=node.name, nodes=min(cloud.max_nodes, nodes), slots_per_trial=1)
                for nodes in wanted
            )
        )
    return AllocationPlan(chains=tuple(chains), order=ChainOrder.SEQUENTIAL)
