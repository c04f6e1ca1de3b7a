"""Chains side by side: the exact front of all plans that split the node limit between the chains.

Side by side each chain has nodes of its own, and what it takes and costs depends on nothing of the others but the share
of the node limit that they leave to it. So the exact front of each chain alone under each limit is all there is to
know, and the best split follows by dynamic programming: within a time t and on L nodes, chains 0..c together cost at
least

    best[c][L](t) = min over m of best[c - 1][L - m](t) + (cheapest plan of chain c on at most m nodes that ends by t)

The plans' own end times are the only t at which anything changes, so the minimum is taken at all of these at once. No
plan is above the limit, since the shares add up to it at most; none that splits the limit is missed, since its chains'
own peaks are such a split. With one deadline for all chains it is the deadline of each.

Of the limits few differ: where the front under a limit needs p nodes at most, it is the front of every limit down to
p; the next that can differ is p - 1.

With noise the chains' expected ends are combined in the same way. The last of several chains ends later than the latest
of their expected ends, though, so the plans that are found are then given the expectation of their last end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rb_core.expectation import ExpectedModel
from rb_core.planners.candidate import Candidate, beside, least_nodes
from rb_core.planners.labels import TOLERANCE
from rb_core.planners.search import StageTables, all_plans, undominated_plans

_CHUNK_ELEMENTS = 1_000_000
"""Times are worked on in chunks of about this many (limit, time) elements, to bound memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a chain can do with a share of the node limit.

    Attributes:
        nodes: the fewest nodes on which all of these plans can run.
        plans: the chain's undominated plans under the limit, the fastest first.
    """

    nodes: int
    plans: tuple[Candidate, ...]


def side_by_side(model: ExpectedModel) -> list[Candidate]:
    """The undominated plans of all chains side by side, the fastest first; none where they do not fit together."""
    problem = model.problem
    chains, least = len(problem.experiment.chains), least_nodes(problem)
    if least is None or chains * least > problem.cloud.max_nodes:
        return []
    most = problem.cloud.max_nodes - (chains - 1) * least
    shares = [tuple(shares_of(StageTables(model, chain=chain), least, most)) for chain in range(chains)]
    plans = best_splits(shares, problem.cloud.max_nodes)
    if not problem.noisy:
        return plans
    return [replace(plan, jct_s=model.evaluate(plan.plan(problem))[0]) for plan in plans]


def shares_of(tables: StageTables, least: int, most: int) -> Iterator[Share]:
    """The different shares of one chain, from a limit of `most` nodes down to one of `least`."""
    limit, plans = most, list[Candidate]()
    while limit >= least:
        known = [plan for plan in plans if plan.nodes <= limit]
        plans = undominated_plans(all_plans(tables, known=known, max_nodes=limit))
        share = Share(nodes=max(plan.nodes for plan in plans), plans=tuple(plans))
        yield share
        limit = share.nodes - 1


def best_splits(chains: Sequence[Sequence[Share]], max_nodes: int) -> list[Candidate]:
    """The undominated ways to give each chain a share and take one of its plans, the fastest first.

    Args:
        chains: the shares of each chain; at least one each, and the smallest fit together.
        max_nodes: what the shares may add up to.
    """
    chains = [[share for share in shares if share.nodes <= max_nodes] for shares in chains]
    ends = np.unique([plan.jct_s for shares in chains for share in shares for plan in share.plans])
    # No job ends before the chain that is slowest at its fastest.
    ends = ends[ends >= max(min(share.plans[0].jct_s for share in shares) for shares in chains)]
    width = max(1, _CHUNK_ELEMENTS // (max_nodes + 1))
    best: list[Candidate] = []
    for first in range(0, len(ends), width):
        best += _best_within(chains, max_nodes, ends[first : first + width])
    return undominated_plans(best)


def _best_within(
    chains: Sequence[Sequence[Share]], max_nodes: int, within_s: NDArray[np.float64]
) -> Iterator[Candidate]:
    """The cheapest plan that ends within each of these times (ascending), where it is cheaper than those before."""
    least_usd = np.zeros((max_nodes + 1, len(within_s)))
    choices: list[NDArray[np.intp]] = []
    for shares in chains:
        before, least_usd = least_usd, np.full_like(least_usd, np.inf)
        choice = np.zeros(least_usd.shape, dtype=np.intp)
        for number, share in enumerate(shares):
            usd = before[: max_nodes + 1 - share.nodes] + _cheapest_usd(share, within_s)
            here = least_usd[share.nodes :]
            cheaper = usd < here
            here[cheaper] = usd[cheaper]
            choice[share.nodes :][cheaper] = number
        choices.append(choice)
    total = least_usd[max_nodes]
    so_far = np.minimum.accumulate(np.append(np.inf, total[:-1]))
    for column in np.flatnonzero(total < so_far - TOLERANCE):
        taken: list[Candidate] = []
        limit = max_nodes
        for shares, choice in zip(reversed(chains), reversed(choices), strict=True):
            share = shares[choice[limit, column]]
            limit -= share.nodes
            taken.append(share.plans[_latest(share, within_s[column : column + 1])[0]])
        yield beside(taken[::-1])


def _latest(share: Share, within_s: NDArray[np.float64]) -> NDArray[np.intp]:
    """For each time the place of the last, that is cheapest, plan that ends within it; -1 where there is none."""
    return np.searchsorted([plan.jct_s for plan in share.plans], within_s, side="right") - 1


def _cheapest_usd(share: Share, within_s: NDArray[np.float64]) -> NDArray[np.float64]:
    usd: NDArray[np.float64] = np.array([*(plan.cost_usd for plan in share.plans), np.inf])
    return usd[_latest(share, within_s)]
