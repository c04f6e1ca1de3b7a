"""The rows: what each way to tune buys with one purse, for one draw of configurations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from curves.profiling import CONFIGS, profiled
from curves.recordings import Pool

from dollars.asha import VARIANTS
from dollars.engine import on_fixed, planned
from dollars.fixed import tuned
from dollars.purse import Bought, Purse

OURS, SHA = "ours", "SHA"
ON_FIXED = (SHA, *VARIANTS)
"""Ways to tune on a cluster of a fixed size."""

NODES = (1, 2, 4, 8)
"""Sizes of fixed clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One purse for one pool.

    Attributes:
        pool: where configurations are drawn from.
        purse: what there is to spend.
        profiling_s: time and, on one node, money that profiling takes of ours.
    """

    pool: Pool
    purse: Purse
    profiling_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to tune, one purse, one draw.

    Attributes:
        pool: name of the pool.
        budget_usd: of money.
        deadline_s: of time.
        seed: of the draw and of all latencies.
        way: how it was tuned.
        nodes: of the fixed cluster; 0 where it changes.
        width: slots per trial; 0 where they change.
        eta: one trial in so many goes on.
        score: of the best model in hand; None, as all that follows but the cost, where there is none.
        test: its score on test data.
        regret: how much worse its score is than the best of the pool after a whole training.
        test_regret: how much worse its test score is than the best of the pool after a whole training.
        trials: configurations that were begun.
        finished: configurations that were trained to their end.
        cost_usd: the bill.
        ended_s: when it was over.
    """

    pool: str
    budget_usd: float
    deadline_s: float
    seed: int
    way: str
    nodes: int
    width: int
    eta: int
    score: float | None
    test: float | None
    regret: float | None
    test_regret: float | None
    trials: int
    finished: int
    cost_usd: float
    ended_s: float


def worked_out(case: Case, seed: int) -> Iterator[Row]:
    """The rows of one draw: ours, and the others on every cluster and with every number of slots per trial."""
    pool, purse, drawn = case.pool, case.purse, case.pool.drawn(seed)
    profile = profiled(pool, drawn[:CONFIGS])
    bought = planned(pool, drawn, profile, purse, profiling_s=case.profiling_s, seed=seed)
    yield _row(case, seed, OURS, 0, 0, pool.eta, bought)
    for nodes, width in product(NODES, pool.widths):
        fixed = on_fixed(pool, drawn, profile, purse, nodes=nodes, width=width, seed=seed)
        yield _row(case, seed, SHA, nodes, width, pool.eta, fixed)
        for variant, eta in product(VARIANTS, etas(pool)):
            bought = tuned(pool, drawn, purse, variant=variant, eta=eta, nodes=nodes, width=width, seed=seed)
            yield _row(case, seed, variant, nodes, width, eta, bought)


def etas(pool: Pool) -> tuple[int, ...]:
    """What ASHA is tried with: a trial that cannot be resumed has nothing of fewer rungs, since none is free."""
    return (pool.eta, pool.eta**2) if pool.resumes else (pool.eta,)


def _row(case: Case, seed: int, way: str, nodes: int, width: int, eta: int, bought: Bought | None) -> Row:
    pool, purse = case.pool, case.purse
    if bought is None:
        bought = Bought(score=float("nan"), test=float("nan"), trials=0, finished=0, cost_usd=0.0, ended_s=0.0)
    got = bought.score == bought.score
    return Row(
        pool=pool.name,
        budget_usd=purse.budget_usd,
        deadline_s=purse.deadline_s,
        seed=seed,
        way=way,
        nodes=nodes,
        width=width,
        eta=eta,
        score=bought.score if got else None,
        test=bought.test if got else None,
        regret=pool.loss(bought.score, pool.best) if got else None,
        test_regret=pool.loss(bought.test, pool.best_test) if got else None,
        trials=bought.trials,
        finished=bought.finished,
        cost_usd=bought.cost_usd,
        ended_s=bought.ended_s,
    )
