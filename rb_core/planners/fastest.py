"""The fastest plan: every node there may be, and the width that ends each stage soonest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from rb_core.dag import next_step
from rb_core.errors import NoFeasiblePlan
from rb_core.expectation import ExpectedModel, Progress, expected
from rb_core.hardware import InstanceType
from rb_core.plan import Problem
from rb_core.planners.candidate import (
    Candidate,
    Trail,
    beside,
    completed,
    least_nodes,
    soonest,
    stages_in_order,
    useful_nodes,
)


def fastest(model: ExpectedModel) -> Candidate:
    """The fastest plan, several chains one after another or side by side, whichever ends sooner.

    Raises:
        NoFeasiblePlan: not even one trial fits on any type.
    """
    problem = model.problem
    in_a_row = _fastest_of(model, range(len(stages_in_order(problem))), problem.cloud.max_nodes)
    if in_a_row is None:
        raise no_room(problem)
    together = _side_by_side(model)
    if together is None:
        return in_a_row
    # The model puts the later of several ends at the later of their means, so whole jobs are compared.
    return min(in_a_row, together, key=lambda candidate: expected(problem, candidate.plan(problem)))


def _side_by_side(model: ExpectedModel) -> Candidate | None:
    """The fastest plan of chains side by side; None for a single chain or where they do not fit beside each other.

    A node more never makes a chain slower, and only more nodes for the slowest chain can end the job sooner; so it is
    given one after the other until none is left.
    """
    problem = model.problem
    chains, least = len(problem.experiment.chains), least_nodes(problem)
    if chains == 1 or least is None or chains * least > problem.cloud.max_nodes:
        return None
    stages = stages_in_order(problem)

    @cache
    def alone(chain: int, nodes: int) -> Candidate:
        found = _fastest_of(model, [n for n, (c, _) in enumerate(stages) if c == chain], nodes)
        if found is None:
            raise no_room(problem)
        return found

    nodes = [least] * chains
    enough = max(useful_nodes(problem, instance_type) for instance_type in problem.cloud.instance_types)
    best = beside([alone(c, least) for c in range(chains)])
    for _ in range(problem.cloud.max_nodes - chains * least):
        slowest = max(range(chains), key=lambda c: alone(c, nodes[c]).jct_s)
        if nodes[slowest] >= enough:
            break
        nodes[slowest] += 1
        best = min(best, beside([alone(c, nodes[c]) for c in range(chains)]), key=lambda c: (c.jct_s, c.cost_usd))
    return best


def _fastest_of(model: ExpectedModel, positions: Sequence[int], nodes: int) -> Candidate | None:
    """The fastest way through the stages at these positions on so many nodes; None when no trial fits.

    A change of type gives up all nodes and waits for new ones, so the earliest partial plan of every type is kept.
    """
    leaders: list[Trail] = [()]
    for position in positions:
        continued = (_continued(model, leaders, position, kind, nodes) for kind in model.problem.cloud.instance_types)
        leaders = [min(trails, key=lambda trail: trail[-1][1].barrier_s) for trails in continued if trails]
    return min((completed(model, trail) for trail in leaders), key=lambda c: (c.jct_s, c.cost_usd), default=None)


def _continued(
    model: ExpectedModel, leaders: Iterable[Trail], position: int, instance_type: InstanceType, nodes: int
) -> list[Trail]:
    """The leaders, each one stage further on so many nodes of a type; none when no trial fits on them."""
    chain, stage = stages_in_order(model.problem)[position]
    trails: list[Trail] = []
    for trail in leaders:
        before, progress = trail[-1] if trail else (None, Progress())
        allocation = soonest(model, position, instance_type, nodes, before, progress)
        if allocation:
            step = next_step(model.problem, chain, stage, allocation, before)
            trails.append((*trail, (step, model.advance(progress, step))))
    return trails


def no_room(problem: Problem) -> NoFeasiblePlan:
    """The error for a cloud on which no trial fits."""
    types = ", ".join(f"{t.name} ({t.slots} slots)" for t in problem.cloud.instance_types)
    slots = ", ".join(str(w) for w in problem.profile.slots)
    return NoFeasiblePlan(
        f"no trial fits: the profile knows {slots} slots per trial, and max_nodes {problem.cloud.max_nodes} of "
        f"{types} cannot hold any of these; raise max_nodes, add an instance type or profile fewer slots",
        limit="max_nodes",
    )
