"""The planners' definitions carried out literally on the plain model: slow, and without a line in common with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from model_reference import Job, finished, fits, follow

from rb_core.hardware import InstanceType
from rb_core.plan import AllocationPlan, Problem

Allocation = tuple[InstanceType, int, int]
"""Type, nodes, slots per trial."""

Choose = Callable[[int, Job], Allocation | None]


def stages_of(problem: Problem) -> list[tuple[int, int]]:
    """(chain, stage) of all stages, one chain after another."""
    return [(c, k) for c, chain in enumerate(problem.experiment.chains) for k in range(len(chain))]


def walk(problem: Problem, choose: Choose) -> tuple[float, float, list[Allocation]] | None:
    """(jct_s, cost_usd, allocations) of a plan that is chosen stage by stage; None where nothing was chosen."""
    job, taken = Job(), []
    for position, (chain, stage) in enumerate(stages_of(problem)):
        allocation = choose(position, job)
        if allocation is None or not fits(allocation[2], allocation[0].slots, allocation[1]):
            return None
        job = follow(problem, job, chain, stage, *allocation)
        taken.append(allocation)
    return (*finished(problem, job), taken)


def soonest(problem: Problem, position: int, job: Job, kind: InstanceType, nodes: int) -> Allocation | None:
    """The width that ends a stage soonest on so many nodes; ties go to the smaller width."""
    chain, stage = stages_of(problem)[position]
    ends = [
        (follow(problem, job, chain, stage, kind, nodes, width).now_s, width)
        for width in sorted(problem.profile.iteration_s)
        if fits(width, kind.slots, nodes)
    ]
    if not ends:
        return None
    first = min(end for end, _ in ends)
    return kind, nodes, next(width for end, width in ends if end <= first + 1e-9)


def static(problem: Problem, *, one_slot: bool = False) -> list[tuple[float, float, list[Allocation]]]:
    """All static plans."""
    plans = []
    for kind in problem.cloud.instance_types:
        for nodes in range(1, problem.cloud.max_nodes + 1):

            def choose(position: int, job: Job, kind: InstanceType = kind, nodes: int = nodes) -> Allocation | None:
                if one_slot:
                    return (kind, nodes, 1) if 1 in problem.profile.iteration_s else None
                return soonest(problem, position, job, kind, nodes)

            plans.append(walk(problem, choose))
    return [plan for plan in plans if plan]


def naive(problem: Problem) -> list[tuple[float, float, list[Allocation]]]:
    """All naive elastic plans."""
    trials = [problem.experiment.chains[c][k].trials for c, k in stages_of(problem)]
    plans = []
    for kind in problem.cloud.instance_types:
        for width in problem.profile.iteration_s:
            for first in range(1, problem.cloud.max_nodes + 1):
                smallest = next((m for m in range(1, width + 1) if fits(width, kind.slots, m)), None)
                if smallest is None or first < smallest:
                    continue
                nodes = [max(smallest, math.ceil(first * n / trials[0])) for n in trials]
                if max(nodes) <= problem.cloud.max_nodes:
                    plans.append(walk(problem, lambda position, job, k=kind, n=nodes, w=width: (k, n[position], w)))
    return [plan for plan in plans if plan]


def greedy(problem: Problem, deadline_s: float) -> list[tuple[float, float]]:
    """(jct_s, cost_usd) of what the greedy planner may end with: several where steps tie to the last digits."""
    in_time = [plan for plan in static(problem) if plan[0] <= deadline_s + 1e-6]
    if not in_time:
        return []
    cheapest = min(plan[1] for plan in in_time)
    ends: list[tuple[float, float]] = []
    seen: set[tuple[Allocation, ...]] = set()
    ahead = [plan for plan in in_time if plan[1] <= cheapest + 1e-9]
    while ahead:
        jct_s, usd, taken = ahead.pop()
        if tuple(taken) in seen:
            continue
        seen.add(tuple(taken))
        steps = []
        for new_jct_s, new_usd, new_taken in _steps(problem, taken):
            saved, added = usd - new_usd, new_jct_s - jct_s
            if saved > 1e-10 and new_jct_s <= deadline_s + 1e-6:
                merit = (math.inf, saved) if added <= 1e-9 else (saved / added, 0.0)
                steps.append((merit, (new_jct_s, new_usd, new_taken)))
        if not steps:
            ends.append((jct_s, usd))
            continue
        best = max(merit for merit, _ in steps)
        ahead += [plan for merit, plan in steps if _alike(merit, best)]
    return ends


def _alike(merit: tuple[float, float], best: tuple[float, float]) -> bool:
    if math.isinf(best[0]):
        return math.isinf(merit[0]) and merit[1] >= best[1] - 1e-9
    return merit[0] >= best[0] * (1 - 1e-9)


def _steps(problem: Problem, taken: list[Allocation]) -> Iterator[tuple[float, float, list[Allocation]]]:
    stages = stages_of(problem)
    job = Job()
    for position, (kind, nodes, width) in enumerate(taken):
        options = [soonest(problem, position, job, kind, nodes - 1)] if nodes > 1 else []
        smaller = [w for w in problem.profile.iteration_s if w < width and fits(w, kind.slots, nodes)]
        if smaller:
            options.append((kind, nodes, max(smaller)))
        for option in options:
            if option is not None:
                changed = [*taken[:position], option, *taken[position + 1 :]]
                plan = walk(problem, lambda at, _, changed=changed: changed[at])
                if plan:
                    yield plan
        job = follow(problem, job, *stages[position], kind, nodes, width)


def played(problem: Problem, plan: AllocationPlan) -> tuple[float, float]:
    """(jct_s, cost_usd) of a planner's plan, its chains one after another, in the plain model."""
    allocations = [allocation for chain in plan.chains for allocation in chain]
    found = walk(
        problem,
        lambda position, _: (
            problem.cloud.instance_type(allocations[position].instance_type),
            allocations[position].nodes,
            allocations[position].slots_per_trial,
        ),
    )
    assert found is not None, "the plan cannot hold a trial"
    return found[:2]
