"""ASHA on a fixed cluster: every place always has something to do, until money or time is out."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count

import numpy as np
from curves.recordings import Pool, Recording

from dollars.asha import VARIANTS, Work
from dollars.purse import Bought, Purse, affordable_s, cluster_usd, drawn_s, in_hand, started_s

_ASHA = 3
"""Sets its latencies apart from other random numbers of a seed."""


def tuned(
    pool: Pool,
    drawn: Sequence[Recording],
    purse: Purse,
    *,
    variant: str,
    eta: int,
    nodes: int,
    width: int,
    seed: int,
) -> Bought:
    """Tune by ASHA with so many nodes from the first moment to the last.

    A trial that begins, or goes on after it had waited, pays for the start of its processes; one that waits or ends,
    for saving. Trials report after every iteration, and each report counts as a model in hand.

    Args:
        pool: where the recordings are from, and the cloud.
        drawn: the order in which configurations are begun.
        purse: what there is to spend.
        variant: which ASHA, by name.
        eta: one trial in so many goes on: the pool's, or a power of it.
        nodes: how many are rented.
        width: slots of each trial; it divides a node's.
        seed: of all latencies.
    """
    cloud, rng = pool.cloud, np.random.default_rng([seed, _ASHA])
    running_s, usable_s = started_s(cloud, nodes, rng)
    until_s = affordable_s(cloud, running_s, purse)
    rungs = rungs_of(pool, eta)
    search = VARIANTS[variant](len(drawn), len(rungs), eta, pool.mode)
    order, last_s = count(), 0.0
    trained: list[tuple[int, int]] = []
    begun: set[int] = set()
    # What comes next: a place that is free, or one whose trial reaches a rung.
    ahead: list[tuple[float, int, Work | None]] = []
    idle = 0

    def go_on(now_s: float, work: Work) -> None:
        trial, rung, runs_already = work
        begun.add(trial)
        at_s = now_s + (0.0 if runs_already else drawn_s(pool.start_s, rng))
        begin, end = rungs[rung - 1] if rung else 0, rungs[rung]
        for iterations, took_s in enumerate(drawn[trial].seconds[width][begin:end], start=begin + 1):
            at_s += took_s
            if at_s <= until_s:
                trained.append((trial, iterations))
        heapq.heappush(ahead, (at_s, next(order), work))

    for at_s in usable_s:
        for _ in range(cloud.instance_types[0].slots // width):
            heapq.heappush(ahead, (at_s, next(order), None))
    while ahead and ahead[0][0] <= until_s:
        now_s, _, done = heapq.heappop(ahead)
        if done is not None:
            last_s = now_s
            trial, rung, _ = done
            following = search.reached(trial, rung, drawn[trial].scores[rungs[rung] - 1])
            if following is not None:
                go_on(now_s, following)
            else:
                heapq.heappush(ahead, (now_s + drawn_s(pool.save_s, rng), next(order), None))
            # A score may be what an idle place waits for.
            for _ in range(idle):
                heapq.heappush(ahead, (now_s, next(order), None))
            idle = 0
        elif (work := search.offer()) is not None:
            go_on(now_s, work)
        else:
            idle += 1
    # With nothing left to do the cluster is given back.
    ended_s = until_s if ahead else min(until_s, last_s + pool.save_s.mean)
    return in_hand(
        pool, drawn, trained, trials=len(begun), cost_usd=cluster_usd(cloud, running_s, ended_s), ended_s=ended_s
    )  # fmt: skip


def rungs_of(pool: Pool, eta: int) -> tuple[int, ...]:
    """The rungs where one in `eta` goes on: of the pool's every so many, and the last.

    Raises:
        ValueError: `eta` is no power of the pool's.
    """
    step = 1
    while pool.eta**step < eta:
        step += 1
    if pool.eta**step != eta:
        raise ValueError(f"eta must be a power of {pool.eta}, got {eta}")
    return (*pool.rungs[:-1:step], pool.rungs[-1])
