"""The baselines that never change their cluster."""

from __future__ import annotations

import numpy as np

from rb_core.dag import Step
from rb_core.expectation import ExpectedModel, Progress
from rb_core.hardware import InstanceType
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.planners.candidate import Candidate, build, soonest, useful_nodes
from rb_core.planners.objective import best_of


class Static:
    """One instance type and one number of nodes for all stages; freed slots are re-split among survivors."""

    name = "static"

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The cheapest (or fastest) static plan for the objective. Raises as `Planner.plan`."""
        model = ExpectedModel(problem)
        return best_of(static_candidates(model), model, rng, self.name)


class StaticOne:
    """As `Static`, with one slot per trial throughout: what people run who have nothing of this."""

    name = "static-1"

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The cheapest (or fastest) such plan for the objective. Raises as `Planner.plan`."""
        model = ExpectedModel(problem)
        return best_of(static_candidates(model, one_slot=True), model, rng, self.name)


def static_candidates(model: ExpectedModel, *, one_slot: bool = False) -> list[Candidate]:
    """All static plans of the problem, for every type and number of nodes."""
    candidates = []
    for instance_type in model.problem.cloud.instance_types:
        most = min(model.problem.cloud.max_nodes, useful_nodes(model.problem, instance_type))
        for nodes in range(1, most + 1):
            built = build(model, _Same(model, instance_type, nodes, one_slot))
            if built:
                candidates.append(built[0])
    return candidates


class _Same:
    """The same nodes at every stage."""

    def __init__(self, model: ExpectedModel, instance_type: InstanceType, nodes: int, one_slot: bool) -> None:
        self._model, self._type, self._nodes, self._one_slot = model, instance_type, nodes, one_slot

    def __call__(self, position: int, before: Step | None, progress: Progress) -> StageAllocation | None:
        if not self._one_slot:
            return soonest(self._model, position, self._type, self._nodes, before, progress)
        if 1 not in self._model.problem.profile.iteration_s:
            return None
        return StageAllocation(instance_type=self._type.name, nodes=self._nodes, slots_per_trial=1)
