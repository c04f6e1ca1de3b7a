"""Small experiments, each with the plan that it is run by: the plan is a part of the case, not of the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rb_core.plan import AllocationPlan, StageAllocation
from rb_core.spec import ExperimentSpec

TYPE = "core"
"""Name of the only instance type: one core of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """An experiment and its plan on up to two nodes of one slot.

    Attributes:
        experiment: the stages.
        plan: their allocations.
        launch_s: what the local provider takes from a request to a running node.
        init_s: from there to a usable one.
    """

    experiment: ExperimentSpec
    plan: AllocationPlan
    launch_s: float = 0.0
    init_s: float = 0.0

    @property
    def widths(self) -> set[int]:
        """Numbers of slots per trial that it needs."""
        return {allocation.slots_per_trial for chain in self.plan.chains for allocation in chain}


def _plan(*chains: Sequence[tuple[int, int]]) -> AllocationPlan:
    """Of (nodes, slots per trial) for each stage of each chain."""
    return AllocationPlan(
        chains=tuple(
            tuple(StageAllocation(instance_type=TYPE, nodes=nodes, slots_per_trial=slots) for nodes, slots in chain)
            for chain in chains
        )
    )


SHAPES = {
    "halving-2": Shape(
        experiment=ExperimentSpec.successive_halving(n=8, r=2, R=16, eta=2),
        plan=_plan([(2, 1), (2, 1), (2, 1), (1, 1)]),
    ),
    "halving-3": Shape(
        experiment=ExperimentSpec.successive_halving(n=9, r=2, R=18, eta=3),
        plan=_plan([(2, 1), (1, 1), (1, 1)]),
    ),
    "halving-4": Shape(
        experiment=ExperimentSpec.successive_halving(n=16, r=1, R=16, eta=4),
        plan=_plan([(2, 1), (2, 1), (1, 1)]),
    ),
    "one-stage": Shape(
        experiment=ExperimentSpec.from_stages([(6, 8)]),
        plan=_plan([(2, 1)]),
    ),
    "hyperband": Shape(
        experiment=ExperimentSpec.hyperband(R=8, eta=2, r=2),
        plan=_plan([(2, 1), (2, 1), (1, 1)], [(2, 1), (1, 1)], [(2, 1)]),
    ),
    "late-nodes": Shape(
        experiment=ExperimentSpec.from_stages([(2, 6), (2, 6), (1, 6)]),
        plan=_plan([(1, 1), (2, 1), (1, 1)]),
        launch_s=0.8,
        init_s=1.2,
    ),
    "widening": Shape(
        experiment=ExperimentSpec.successive_halving(n=9, r=2, R=18, eta=3),
        plan=_plan([(2, 1), (2, 2), (2, 2)]),
    ),
    "wide": Shape(
        experiment=ExperimentSpec.from_stages([(4, 6), (2, 12)]),
        plan=_plan([(2, 2), (2, 2)]),
    ),
    "tiny": Shape(
        experiment=ExperimentSpec.from_stages([(2, 2), (1, 2)]),
        plan=_plan([(2, 1), (1, 1)]),
    ),
    "tiny-late": Shape(
        experiment=ExperimentSpec.from_stages([(2, 2)]),
        plan=_plan([(1, 1)]),
        launch_s=0.05,
        init_s=0.05,
    ),
}
"""By name. The tiny ones take a second, for tests."""
