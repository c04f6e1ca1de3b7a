"""What is run: experiments of the headline table, on demand and on spot at several rates of interruption."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from headline.cases import Case as Headline
from known import deadline_of

from rb_core.expectation import expected
from rb_core.hardware import Market, MarketPolicy
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.exact import Exact
from rb_core.planners.objective import resolve
from rb_core.planners.static import Static

EXPERIMENTS = ("SHA(64,4,508,2)", "SHA(32,1,50,3)")
"""Those of the headline table that are one chain."""

CLOUD, WORKLOAD = "p3.8xlarge", "ResNet-50"

DEADLINE_FACTOR = 1.5
"""The deadline, as a multiple of the time of the fastest plan that there is on demand."""

SPOT_PRICE = 0.3
"""Price on spot, as a share of that on demand."""

RATES = (0.1, 0.6, 1.3)
"""Interruptions of each node and hour."""

CHECKPOINT_EVERY_S = 600.0
"""Longest time between two checkpoints; what `rb-tune run` has unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One experiment under one policy.

    Attributes:
        experiment: its name.
        policy: in which market nodes are bought.
        rate: interruptions of each node and hour on spot; 0 on demand.
        deadline_s: the deadline.
        problem: what is planned and run.
        plan: what it begins with.
        static_usd: what the best static cluster on demand costs.
    """

    experiment: str
    policy: MarketPolicy
    rate: float
    deadline_s: float
    problem: Problem
    plan: AllocationPlan
    static_usd: float


def on_demand(experiment: str) -> Problem:
    """The experiment as the headline table has it, under its deadline; nothing varies."""
    problem = Headline(experiment=experiment, cloud=CLOUD, workload=WORKLOAD).problem(DEADLINE_FACTOR)
    return replace(resolve(problem), checkpoint_every_s=CHECKPOINT_EVERY_S)


def on_spot(problem: Problem, rate: float, policy: MarketPolicy) -> Problem:
    """The same on spot."""
    kinds = tuple(
        replace(
            kind,
            usd_per_hour=SPOT_PRICE * kind.usd_per_hour,
            on_demand_usd_per_hour=kind.usd_per_hour,
            market=Market.SPOT,
            interruptions_per_hour=rate,
        )
        for kind in problem.cloud.instance_types
    )
    return replace(problem, cloud=replace(problem.cloud, instance_types=kinds, market=policy))


def case_of(experiment: str, policy: MarketPolicy, rate: float) -> Case:
    """A case, planned by the exact planner."""
    bare = on_demand(experiment)
    _, static_usd = expected(bare, Static().plan(bare, np.random.default_rng(0)))
    problem = bare if policy is MarketPolicy.ON_DEMAND else on_spot(bare, rate, policy)
    return Case(
        experiment=experiment,
        policy=policy,
        rate=rate,
        deadline_s=deadline_of(bare),
        problem=problem,
        plan=Exact().plan(problem, np.random.default_rng(0)),
        static_usd=static_usd,
    )
