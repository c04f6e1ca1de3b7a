"""What is run: one experiment of examples/evaluation, on demand and on spot at several rates of interruption."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rb_core.expectation import ExpectedModel, expected
from rb_core.hardware import Cloud, InstanceType, Latency, Market, MarketPolicy
from rb_core.plan import AllocationPlan, Objective, Problem
from rb_core.planners.exact import Exact
from rb_core.planners.fastest import fastest
from rb_core.planners.static import Static
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec

DEADLINE_FACTOR = 1.5
"""The deadline, as a multiple of the time of the fastest plan that there is on demand."""

SPOT_PRICE = 0.3
"""Price on spot, as a share of that on demand."""

RATES = (0.1, 0.6, 1.3)
"""Interruptions of each node and hour."""

CHECKPOINT_EVERY_S = 600.0
"""Longest time between two checkpoints; what `rb-tune run` has unless told otherwise."""

GAIN = {1: 1.0, 2: 1.87, 4: 3.421, 8: 5.598}
"""Throughput of ResNet-50 by slots, relative to one: HyperSched (Liaw et al., SoCC 2019)."""

EXPERIMENTS = {
    "SHA(64,4,508,2)": ExperimentSpec.successive_halving(n=64, r=4, R=508, eta=2, rungs="incremental"),
    "SHA(32,1,50,3)": ExperimentSpec.successive_halving(n=32, r=1, R=50, eta=3),
}
"""Those of examples/evaluation that are one chain."""

P3 = InstanceType(name="p3.8xlarge", slots=4, usd_per_hour=12.24)


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
    """The experiment on p3.8xlarge as examples/evaluation has it; nothing varies, and there is no deadline yet."""
    return Problem(
        experiment=EXPERIMENTS[experiment],
        profile=ScalingProfile(
            iteration_s={slots: Latency(mean=60.0 / gain) for slots, gain in GAIN.items()},
            start_s=Latency(mean=5.0),
            save_s=Latency(mean=1.0),
            sync_s=5.0,
            spread_penalty=0.15,
        ),
        cloud=Cloud(instance_types=(P3,), max_nodes=32, launch_s=Latency(mean=22.6), init_s=Latency(mean=164.0)),
        checkpoint_every_s=CHECKPOINT_EVERY_S,
    )


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
    fastest_s, _ = expected(bare, fastest(ExpectedModel(bare)).plan(bare))
    deadline_s = DEADLINE_FACTOR * fastest_s
    bare = replace(bare, objective=Objective(deadline_s=deadline_s))
    _, static_usd = expected(bare, Static().plan(bare, np.random.default_rng(0)))
    problem = bare if policy is MarketPolicy.ON_DEMAND else on_spot(bare, rate, policy)
    return Case(
        experiment=experiment,
        policy=policy,
        rate=rate,
        deadline_s=deadline_s,
        problem=problem,
        plan=Exact().plan(problem, np.random.default_rng(0)),
        static_usd=static_usd,
    )
