"""What there is to spend, and what was bought with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from curves.recordings import Pool, Recording

from rb_core.billing import bill
from rb_core.draws import lognormals
from rb_core.hardware import Cloud, Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """Both limits are hard: when either is reached everything stops, and what was trained by then counts.

    Attributes:
        budget_usd: of money.
        deadline_s: of time.
    """

    budget_usd: float
    deadline_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bought:
    """What a way to tune has in hand in the end.

    Attributes:
        score: of the best model by validation, at the iteration where it was best; NaN where there is none.
        test: its score on test data.
        trials: configurations that were begun.
        finished: configurations that were trained to their end.
        cost_usd: the bill.
        ended_s: when everything had been given back.
    """

    score: float
    test: float
    trials: int
    finished: int
    cost_usd: float
    ended_s: float


def in_hand(
    pool: Pool,
    drawn: Sequence[Recording],
    trained: Iterable[tuple[int, int]],
    *,
    trials: int,
    cost_usd: float,
    ended_s: float,
) -> Bought:
    """The best model of those that were trained.

    Args:
        pool: where they are from.
        drawn: the trials, in their order.
        trained: trials and their iterations, wherever there was a model.
        trials: how many were begun.
        cost_usd: the bill.
        ended_s: when it was over.
    """
    best, test, finished = math.nan, math.nan, set()
    for trial, iterations in trained:
        score = drawn[trial].scores[iterations - 1]
        if pool.better(score, best):
            best, test = score, drawn[trial].tests[iterations - 1]
        if iterations == pool.rungs[-1]:
            finished.add(trial)
    return Bought(
        score=best, test=test, trials=trials, finished=len(finished), cost_usd=cost_usd, ended_s=ended_s
    )  # fmt: skip


def cluster_usd(cloud: Cloud, running_s: Sequence[float], until_s: float) -> float:
    """The bill of nodes of the cloud's first type that began to run at these times and are given back together."""
    price = cloud.instance_types[0].usd_per_s
    return float(bill(cloud.billing, usd_per_s=price, running_s=running_s, released_s=until_s).sum())


def affordable_s(cloud: Cloud, running_s: Sequence[float], purse: Purse) -> float:
    """Until when such a cluster can be held: to the millisecond, by the bill itself."""
    if cluster_usd(cloud, running_s, purse.deadline_s) <= purse.budget_usd:
        return purse.deadline_s
    low, high = 0.0, purse.deadline_s
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if cluster_usd(cloud, running_s, middle) <= purse.budget_usd else (low, middle)
    return low


def started_s(cloud: Cloud, nodes: int, rng: np.random.Generator) -> tuple[list[float], list[float]]:
    """When nodes that are requested at once run, and when they are usable."""
    running_s = [drawn_s(cloud.launch_s, rng) for _ in range(nodes)]
    return running_s, [at_s + drawn_s(cloud.init_s, rng) for at_s in running_s]


def drawn_s(latency: Latency, rng: np.random.Generator) -> float:
    """One latency: lognormal, as the model has them."""
    return float(lognormals(latency, np.array(rng.standard_normal())))
