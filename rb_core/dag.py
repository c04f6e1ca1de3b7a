"""The execution DAG of a plan: which nodes scale in and out at every barrier, and what trains between them.

Misra et al. (EuroSys 2021, section 4.2) draw a job as a graph of SCALE, INIT_INSTANCE, TRAIN and SYNC tasks. Its
shape is regular, so it is kept as *lanes* of *steps*: a step is one stage, that is `requested` pairs of SCALE and
INIT_INSTANCE, one TRAIN for each trial, and the SYNC that all of them lead to. The steps of a lane follow each
other; lanes run side by side on nodes of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from rb_core.errors import InvalidInput
from rb_core.hardware import InstanceType
from rb_core.placement import Placement
from rb_core.plan import AllocationPlan, ChainOrder, Problem, StageAllocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One stage of one chain on its nodes.

    Attributes:
        chain: which chain of the experiment.
        stage: which stage of that chain.
        placement: how its trials lie on its nodes.
        instance_type: type of all its nodes.
        iterations: what each trial runs in it.
        kept: nodes taken over from the step before.
        requested: nodes asked for at its barrier.
    """

    chain: int
    stage: int
    placement: Placement
    instance_type: InstanceType
    iterations: int
    kept: int
    requested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionDAG:
    """All steps of a plan.

    Attributes:
        lanes: chains that run side by side are a lane each; chains that follow each other share one.
    """

    lanes: tuple[tuple[Step, ...], ...]

    @classmethod
    def build(cls, problem: Problem, plan: AllocationPlan) -> ExecutionDAG:
        """The DAG of `plan`.

        Raises:
            InvalidInput: the plan does not fit the experiment, names an unknown type or width, cannot hold a
                single trial, or holds more nodes than `max_nodes`.
        """
        plan.check_fits(problem.experiment)
        lanes: list[list[Step]] = []
        for chain, allocations in enumerate(plan.chains):
            if not lanes or plan.order is ChainOrder.PARALLEL:
                lanes.append([])
            lane = lanes[-1]
            key = "stages" if len(problem.experiment.chains) == 1 else f"chains[{chain}].stages"
            for number, allocation in enumerate(allocations):
                before = lane[-1] if lane else None
                try:
                    lane.append(next_step(problem, chain, number, allocation, before))
                except InvalidInput as error:
                    raise error.under(f"{key}[{number}]") from None
        widest = sum(max(step.placement.nodes for step in lane) for lane in lanes)
        if widest > problem.cloud.max_nodes:
            raise InvalidInput(
                "nodes",
                f"must not exceed max_nodes {problem.cloud.max_nodes} for all chains together, got {widest}",
            )
        return cls(lanes=tuple(tuple(lane) for lane in lanes))


def next_step(problem: Problem, chain: int, number: int, allocation: StageAllocation, before: Step | None) -> Step:
    """The step of stage `number` of a chain, after `before` on the same lane (None at its beginning).

    Raises:
        InvalidInput: see `ExecutionDAG.build`; `max_nodes` is not looked at.
    """
    stage = problem.experiment.chains[chain][number]
    instance_type = problem.cloud.instance_type(allocation.instance_type)
    if allocation.slots_per_trial not in problem.profile.iteration_s:
        known = ", ".join(str(w) for w in problem.profile.slots)
        raise InvalidInput(
            "slots_per_trial",
            f"must be a number that the profile lists ({known}), got {allocation.slots_per_trial}",
        )
    placement = Placement(
        trials=stage.trials,
        slots_per_trial=allocation.slots_per_trial,
        node_slots=instance_type.slots,
        nodes=allocation.nodes,
    )
    kept = 0
    if before is not None and before.instance_type == instance_type:
        kept = min(before.placement.nodes, allocation.nodes)
    return Step(
        chain=chain,
        stage=number,
        placement=placement,
        instance_type=instance_type,
        iterations=stage.iterations,
        kept=kept,
        requested=allocation.nodes - kept,
    )
