"""The rows of the table: what a policy costs, and how often it is late, over many seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rb_core.hardware import Market
from rb_core.planners.objective import loosened
from rb_core.sim.faults import Faults, Spot
from rb_core.sim.rehearsal import rehearse_once

from .cases import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run.

    Attributes:
        jct_s: when it ended.
        cost_usd: its bill.
        met: whether it ended by the deadline.
        reclaimed: how many of its nodes were taken back.
        nodes: how many it had.
        on_demand: how many of these were bought on demand.
        changes: how often its plan was changed.
    """

    jct_s: float
    cost_usd: float
    met: bool
    reclaimed: int
    nodes: int
    on_demand: int
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case over so many seeds.

    Attributes:
        experiment: its name.
        policy: in which market nodes are bought.
        rate: interruptions of each node and hour.
        unannounced: share of the interruptions without notice.
        seeds: how many, from 0 on.
        deadline_s: the deadline.
        static_usd: what the best static cluster on demand costs.
        cheaper: how many times that is the mean cost.
        cost_usd: mean cost.
        cost_error_usd: its standard error.
        missed: share of the runs that were late, or did not end.
        missed_error: its standard error, that of the share (k + 1) / (n + 2) where k of n were.
        jct_s: mean end.
        jct_p99_s: 99th percentile of the ends.
        interrupted: mean number of nodes on which a notice or a loss fell.
        nodes: mean number of nodes.
        on_demand: mean number of these that were bought on demand.
        changed_over: share of the runs that bought any on demand.
        changes: mean number of changes of the plan.
    """

    experiment: str
    policy: str
    rate: float
    unannounced: float
    seeds: int
    deadline_s: float
    static_usd: float
    cheaper: float
    cost_usd: float
    cost_error_usd: float
    missed: float
    missed_error: float
    jct_s: float
    jct_p99_s: float
    interrupted: float
    nodes: float
    on_demand: float
    changed_over: float
    changes: float


def outcome(case: Case, seed: int, *, unannounced: float) -> Outcome:
    """What comes of a case with a seed."""
    faults = Faults(spot=Spot(unannounced=unannounced))
    run = rehearse_once(
        case.problem,
        case.plan,
        seed=seed,
        faults=faults,
        replan=True,
        checkpoint_every_s=case.problem.checkpoint_every_s,
    )
    nodes = run.state.nodes.values()
    return Outcome(
        jct_s=run.state.jct_s,
        cost_usd=run.bill.cost_usd,
        met=run.finished and run.state.jct_s <= loosened(case.deadline_s),
        reclaimed=sum(node.leaving or node.reclaimed for node in nodes),
        nodes=len(nodes),
        on_demand=sum(node.market == Market.ON_DEMAND for node in nodes),
        changes=len(run.state.replans),
    )


def row_of(case: Case, outcomes: Sequence[Outcome], *, unannounced: float) -> Row:
    """The row of a case."""
    count = len(outcomes)
    usd = np.array([one.cost_usd for one in outcomes])
    jct_s = np.array([one.jct_s for one in outcomes])
    late = sum(not one.met for one in outcomes)
    cautious = (late + 1) / (count + 2)
    bought = [one.on_demand for one in outcomes]
    return Row(
        experiment=case.experiment,
        policy=case.policy.value,
        rate=case.rate,
        unannounced=unannounced,
        seeds=count,
        deadline_s=case.deadline_s,
        static_usd=case.static_usd,
        cheaper=case.static_usd / float(usd.mean()),
        cost_usd=float(usd.mean()),
        cost_error_usd=float(usd.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0,
        missed=late / count,
        missed_error=math.sqrt(cautious * (1 - cautious) / count),
        jct_s=float(jct_s.mean()),
        jct_p99_s=float(np.quantile(jct_s, 0.99)),
        interrupted=float(np.mean([one.reclaimed for one in outcomes])),
        nodes=float(np.mean([one.nodes for one in outcomes])),
        on_demand=float(np.mean(bought)),
        changed_over=float(np.mean([count > 0 for count in bought])),
        changes=float(np.mean([one.changes for one in outcomes])),
    )
