"""What the other two policies could gain at most: prefetch and early promotion.

Both bounds are generous: most of what stands in a policy's way is left out. What does not pay here does not pay.
"""

from __future__ import annotations

import dataclasses
import heapq
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rb_core.dag import ExecutionDAG, Step
from rb_core.draws import Draws
from rb_core.expectation import ExpectedModel, Progress
from rb_core.hardware import Latency
from rb_core.placement import Placement
from rb_core.plan import AllocationPlan, Problem

Samples = NDArray[np.float64]

PROMOTED_SAMPLES = 200
"""Jobs that are followed one by one for early promotion."""


def grows(problem: Problem, plan: AllocationPlan) -> bool:
    """Whether the plan requests nodes after the first stage of a lane."""
    return any(step.requested for lane in ExecutionDAG.build(problem, plan).lanes for step in lane[1:])


def at_once(problem: Problem) -> Problem:
    """The same where a node is usable as soon as it is requested."""
    none = Latency(mean=0.0)
    return dataclasses.replace(problem, cloud=dataclasses.replace(problem.cloud, launch_s=none, init_s=none))


def prefetched(problem: Problem, plan: AllocationPlan) -> tuple[float, float]:
    """Time and cost of a plan if every node requested after a lane's first stage were usable at its barrier.

    It then began to run an init latency before, for which rent is paid. That it is held beside the nodes of the stage
    before, and that nobody knows exactly when that one ends, is left out.

    Args:
        problem: nothing in it varies, and it is billed per instance.
        plan: an allocation for every stage.
    """
    first, later = ExpectedModel(problem), ExpectedModel(at_once(problem))
    init_s = problem.cloud.init_s.mean
    ends = []
    for lane in ExecutionDAG.build(problem, plan).lanes:
        progress = first.advance(Progress(), lane[0])
        for step in lane[1:]:
            now_s, progress = progress.barrier_s, later.advance(progress, step)
            held = (
                dataclasses.replace(b, running_s=now_s - init_s) if b.running_s == now_s else b for b in progress.held
            )
            progress = dataclasses.replace(progress, held=tuple(held))
        ends.append(first.finish(progress))
    return max(end.barrier_s for end in ends), sum(end.cost_usd for end in ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """What early promotion saves of a job's means, as fractions.

    Attributes:
        time: of its time.
        cost: of its cost, if nodes are given back at barriers only.
        cost_beside: of its cost, if there is early release anyway. A node that an early trial goes on with is one that
            early release would have given back first.
    """

    time: float
    cost: float
    cost_beside: float


def promoted(problem: Problem, plan: AllocationPlan, *, seed: int) -> Promoted:
    """What early promotion gains at most.

    Scores are random. A trial is certain to go on when as many have ended with a worse score as the stage drops; it
    does so once the slots that it needs in the next stage are idle on nodes that are kept. These are taken to be the
    nodes that fall idle first. Cost is node-seconds from barrier to barrier, or to the early release.

    Args:
        problem: what is run.
        plan: an allocation for every stage.
        seed: of the scores and of all that varies.
    """
    draws, order = Draws(problem, PROMOTED_SAMPLES, np.random.default_rng(seed)), np.random.default_rng([seed, 1])
    lanes = [_drawn(problem, draws, lane) for lane in ExecutionDAG.build(problem, plan).lanes]
    jobs = []
    for sample in range(PROMOTED_SAMPLES):
        ranks = [[order.permutation(step.placement.trials) for step, _, _ in lane] for lane in lanes]
        for early in (True, False):
            ends = [_followed(problem, *of_lane, sample, early=early) for of_lane in zip(lanes, ranks, strict=True)]
            end_s, usd, released_usd = zip(*ends, strict=True)
            jobs.append((max(end_s), sum(usd), sum(released_usd)))
    means = np.array(jobs).reshape(PROMOTED_SAMPLES, 2, 3).mean(axis=0)
    time, cost, cost_beside = (1.0 - means[0] / means[1]).tolist()
    return Promoted(time=time, cost=cost, cost_beside=cost_beside)


_Drawn = tuple[Step, Samples, Samples]
"""A step, the durations of its trials and the start-up of its new nodes; shape (trials or nodes, samples) each."""


def _drawn(problem: Problem, draws: Draws, lane: Sequence[Step]) -> list[_Drawn]:
    drawn, factors = [], {step.chain: draws.factors(step.chain) for step in lane}
    for step in lane:
        placement = step.placement
        slow = problem.profile.slowdown(spans=placement.spans, speed=step.instance_type.speed)
        durations = draws.trainings(
            step.chain,
            step.stage,
            slots_per_trial=placement.slots_per_trial,
            factor=slow * factors[step.chain][: placement.trials],
        )
        starts = sum(draws.nodes(step.chain, step.stage, step.requested)) if step.requested else np.zeros((0, 1))
        drawn.append(
            (
                step,
                np.broadcast_to(durations, (placement.trials, PROMOTED_SAMPLES)),
                np.broadcast_to(starts, (step.requested, PROMOTED_SAMPLES)),
            )
        )
    return drawn


def _followed(
    problem: Problem, lane: Sequence[_Drawn], ranks: Sequence[NDArray[np.intp]], sample: int, *, early: bool
) -> tuple[float, float, float]:
    """End of one job of a lane, its cost, and its cost with early release.

    Of a stage's trials the first ones survive; `ranks` orders these and the others by score.
    """
    barrier_s = usd = released_usd = 0.0
    ready_s: Sequence[float] = ()
    nodes_s: list[list[float]] = []
    for number, (step, durations, starts) in enumerate(lane):
        placement, usd_per_s = step.placement, step.instance_type.usd_per_s
        if not early or not ready_s:
            ready_s = [barrier_s] * placement.trials
            nodes_s = [[barrier_s] * placement.node_slots for _ in nodes_s]
        nodes_s += [[barrier_s + at] * placement.node_slots for at in sorted(starts[:, sample].tolist())]
        ends_s, idle_s = _trained(nodes_s, placement, ready_s, durations[:, sample].tolist())
        over_s = max(ends_s) + problem.profile.sync_s
        following = lane[number + 1][0] if number + 1 < len(lane) else None
        kept = following.kept if following else 0
        idle_s.sort(key=max)
        first = 0 if early else len(idle_s) - kept
        nodes_s = idle_s[first : first + kept]
        released = [*idle_s[:first], *idle_s[first + kept :]]
        usd += placement.nodes * usd_per_s * (over_s - barrier_s)
        released_usd += usd_per_s * (kept * (over_s - barrier_s) + sum(max(slots) - barrier_s for slots in released))
        ready_s = ()
        if following and following.chain == step.chain:
            ready_s = [min(over_s, at) for at in certain_s(ends_s, ranks[number], following.placement.trials)]
        barrier_s = over_s
    return barrier_s, usd, released_usd


def certain_s(ends_s: Sequence[float], ranks: NDArray[np.intp], survivors: int) -> list[float]:
    """When each survivor is known to be one: it has ended, and so have as many worse ones as are dropped.

    Args:
        ends_s: when each trial ends; the first `survivors` go on.
        ranks: any order among these; the smaller the better.
        survivors: how many.
    """
    dropped = len(ends_s) - survivors
    worse_s, known_s = sorted(ends_s[survivors:]), [0.0] * survivors
    for trial in sorted(range(survivors), key=ranks.__getitem__, reverse=True):
        known_s[trial] = max([ends_s[trial], *worse_s[dropped - 1 : dropped]])
        insort(worse_s, ends_s[trial])
    return known_s


def _trained(
    nodes_s: Sequence[Sequence[float]], placement: Placement, ready_s: Sequence[float], durations_s: Sequence[float]
) -> tuple[list[float], list[list[float]]]:
    """Train a stage; each trial, in the order in which they are ready, takes the place that is free earliest.

    Args:
        nodes_s: when each slot of each node is free.
        placement: how the trials lie on the nodes.
        ready_s: when each trial is.
        durations_s: of each trial.

    Returns:
        When each trial ends, and when each slot of each node is idle, with nothing left to start.
    """
    width, nodes = placement.slots_per_trial, [sorted(slots) for slots in nodes_s]
    places: list[tuple[float, int, list[tuple[int, int]]]] = []
    if placement.spans:
        order = sorted(range(len(nodes)), key=lambda node: nodes[node][-1])
        size = placement.nodes_per_trial
        for first in range(0, len(nodes) - size + 1, size):
            group = order[first : first + size]
            slots = [(node, slot) for node in group for slot in range(placement.node_slots)]
            places.append((nodes[group[-1]][-1], first, slots))
    else:
        for node, times in enumerate(nodes):
            for first in range(0, placement.per_node * width, width):
                slots = [(node, slot) for slot in range(first, first + width)]
                places.append((times[first + width - 1], len(places), slots))
    heapq.heapify(places)
    ends, last_start_s = [0.0] * len(ready_s), 0.0
    for trial in sorted(range(len(ready_s)), key=ready_s.__getitem__):
        free_s, number, slots = heapq.heappop(places)
        last_start_s = max(ready_s[trial], free_s)
        ends[trial] = last_start_s + durations_s[trial]
        heapq.heappush(places, (ends[trial], number, slots))
    for free_s, _, slots in places:
        for node, slot in slots:
            nodes[node][slot] = free_s
    return ends, [[max(at, last_start_s) for at in slots] for slots in nodes]
