"""The baseline that shrinks its cluster as fast as its trials."""

from __future__ import annotations

import numpy as np

from rb_core.dag import Step
from rb_core.expectation import ExpectedModel, Progress
from rb_core.hardware import InstanceType
from rb_core.placement import divides, nodes_for
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.planners.candidate import Candidate, build, stages_in_order
from rb_core.planners.objective import best_of


class Naive:
    """One type and one width for all stages, nodes in proportion to the trials: m_k = ceil(m_0 n_k / n_0)."""

    name = "naive"

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The cheapest (or fastest) naive plan for the objective. Raises as `Planner.plan`."""
        model = ExpectedModel(problem)
        return best_of(_candidates(model), model, rng, self.name)


def _candidates(model: ExpectedModel) -> list[Candidate]:
    problem = model.problem
    candidates = []
    trials = [problem.experiment.chains[c][k].trials for c, k in stages_in_order(problem)]
    # Where all of the first stage's trials run at once, so do those of every other stage. Where a later chain has more
    # trials than the stage before it, nodes may also be held for it.
    most = trials[0] if len(problem.experiment.chains) == 1 else -(-max(trials) * trials[0] // min(trials))
    for instance_type in problem.cloud.instance_types:
        for width in problem.profile.slots:
            if not divides(width, instance_type.slots):
                continue
            smallest = nodes_for(1, slots_per_trial=width, node_slots=instance_type.slots)
            enough = nodes_for(most, slots_per_trial=width, node_slots=instance_type.slots)
            for first_nodes in range(smallest, min(problem.cloud.max_nodes, enough) + 1):
                built = build(model, _Proportional(problem, instance_type, width, first_nodes))
                if built:
                    candidates.append(built[0])
    return candidates


class _Proportional:
    """Nodes in proportion to the trials of each stage, at least what one trial needs."""

    def __init__(self, problem: Problem, instance_type: InstanceType, width: int, first_nodes: int) -> None:
        self._type, self._width, self._first_nodes = instance_type, width, first_nodes
        self._trials = [problem.experiment.chains[c][k].trials for c, k in stages_in_order(problem)]
        self._max_nodes = problem.cloud.max_nodes

    def __call__(self, position: int, before: Step | None, progress: Progress) -> StageAllocation | None:
        share = -(-self._first_nodes * self._trials[position] // self._trials[0])
        nodes = max(1, self._width // self._type.slots, share)
        if nodes > self._max_nodes:
            return None
        return StageAllocation(instance_type=self._type.name, nodes=nodes, slots_per_trial=self._width)
