"""Small random problems with random plans and random faults, each by its number: what the engine is hardened with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rb_core.errors import InvalidInput
from rb_core.hardware import Billing, BillingMode, Cloud, InstanceType, Latency, Market, MarketPolicy
from rb_core.placement import Placement
from rb_core.plan import AllocationPlan, ChainOrder, Objective, Policies, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.sim.faults import Faults, Slowness, Spot
from rb_core.sim.rehearsal import RehearsedRun, rehearse_once
from rb_core.spec import Chain, ExperimentSpec, Stage

_CASES = 3
"""Sets the stream that draws cases apart from those of the rehearsals."""

_WIDTHS = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One case.

    Attributes:
        number: its number, the seed of everything in it.
        problem: what is run.
        plan: under which allocations.
        faults: what goes wrong.
        options: other attributes of `RunRequest`.
    """

    number: int
    problem: Problem
    plan: AllocationPlan
    faults: Faults
    options: Mapping[str, Any]

    def rehearse(self) -> RehearsedRun:
        """Run the engine through it. Raises `BrokenInvariant`."""
        return rehearse_once(self.problem, self.plan, seed=self.number, faults=self.faults, **self.options)


def trouble(number: int, *, replan: bool = False, spot: bool = False) -> Trouble:
    """The case of that number.

    Args:
        number: the seed of everything in it.
        replan: whether the engine may plan the rest anew, which takes many times as long as all the rest.
        spot: whether nodes are bought on spot, and on demand where the deadline asks for it.
    """
    rng = np.random.default_rng([number, _CASES])
    experiment, profile, cloud = _experiment(rng), _profile(rng), _cloud(rng)
    plan = _plan(rng, experiment, cloud)
    busy_s = sum(stage.trials * stage.iterations for chain in experiment.chains for stage in chain) * 20.0
    objective = None
    if _chance(rng, 0.5):
        objective = Objective(deadline_s=float(busy_s * rng.uniform(0.1, 3.0)))
    options: dict[str, Any] = {
        "mode": "min" if _chance(rng, 0.3) else "max",
        "retries": int(rng.integers(3)),
        "checkpoint_every_s": float(rng.choice((20.0, 60.0, 600.0))),
        "on_deadline": str(rng.choice(("finish", "stop"))),
        "replan": replan,
    }
    if _chance(rng, 0.2):
        dearest = max(kind.usd_per_s for kind in cloud.instance_types)
        options["max_usd"] = float(busy_s * dearest * rng.uniform(0.3, 3.0))
    faults = _faults(rng)
    if spot:
        cloud, faults = _on_spot(rng, cloud, faults)
    return Trouble(
        number=number,
        problem=Problem(
            experiment=experiment,
            profile=profile,
            cloud=cloud,
            objective=objective,
            policies=Policies(early_release=number % 2 == 1),
        ),
        plan=plan,
        faults=faults,
        options=options,
    )


def _experiment(rng: np.random.Generator) -> ExperimentSpec:
    chains = int(rng.choice((1, 1, 1, 2, 3)))
    return ExperimentSpec(chains=tuple(_chain(rng) for _ in range(chains)))


def _chain(rng: np.random.Generator) -> Chain:
    trials = sorted((int(n) for n in rng.integers(1, 10, size=rng.integers(1, 5))), reverse=True)
    return tuple(Stage(trials=n, iterations=int(rng.integers(1, 9))) for n in trials)


def _profile(rng: np.random.Generator) -> ScalingProfile:
    mean_s, spread = float(rng.uniform(2.0, 40.0)), float(rng.choice((0.0, 0.05)))
    return ScalingProfile(
        iteration_s={w: Latency(mean=mean_s * w**-0.8, std=mean_s * w**-0.8 * spread) for w in _WIDTHS},
        start_s=Latency(mean=float(rng.uniform(0.0, 10.0)), std=spread * 10.0),
        save_s=Latency(mean=float(rng.uniform(0.0, 3.0))),
        sync_s=float(rng.choice((0.0, 4.0))),
        trial_cv=float(rng.choice((0.0, 0.1))),
        spread_penalty=0.2,
    )


def _cloud(rng: np.random.Generator) -> Cloud:
    slots = int(rng.choice((1, 2, 4)))
    kinds = [InstanceType(name="a", slots=slots, usd_per_hour=3.6)]
    if _chance(rng, 0.4):
        kinds.append(InstanceType(name="b", slots=int(rng.choice((1, 2, 4))), usd_per_hour=7.2, speed=1.5))
    spread = float(rng.choice((0.0, 5.0)))
    return Cloud(
        instance_types=tuple(kinds),
        max_nodes=int(rng.integers(len(_WIDTHS) * 4, 20)),
        launch_s=Latency(mean=float(rng.uniform(1.0, 60.0)), std=spread),
        init_s=Latency(mean=float(rng.uniform(1.0, 120.0)), std=spread),
        billing=Billing(
            mode=BillingMode.PER_FUNCTION if _chance(rng, 0.2) else BillingMode.PER_INSTANCE,
            granularity_s=float(rng.choice((1.0, 1.0, 60.0, 3600.0))),
            minimum_s=float(rng.choice((0.0, 60.0))),
        ),
        dataset_gib=float(rng.choice((0.0, 2.0))),
        transfer_usd_per_gib=0.01,
    )


def _on_spot(rng: np.random.Generator, cloud: Cloud, faults: Faults) -> tuple[Cloud, Faults]:
    kinds = tuple(
        replace(
            kind,
            usd_per_hour=kind.usd_per_hour / 3,
            on_demand_usd_per_hour=kind.usd_per_hour,
            market=Market.SPOT,
            interruptions_per_hour=float(rng.uniform(0.0, 12.0)),
        )
        for kind in cloud.instance_types
    )
    policy = MarketPolicy.SPOT_THEN_ON_DEMAND if _chance(rng, 0.7) else MarketPolicy.SPOT
    spot = Spot(
        notice_s=float(rng.choice((0.0, 20.0, 120.0))),
        unannounced=float(rng.choice((0.0, 0.3))),
        droughts_per_hour=float(rng.choice((0.0, 4.0))),
        drought_s=float(rng.uniform(30.0, 600.0)),
    )
    return replace(cloud, instance_types=kinds, market=policy), replace(faults, spot=spot)


def _plan(rng: np.random.Generator, experiment: ExperimentSpec, cloud: Cloud) -> AllocationPlan:
    parallel = len(experiment.chains) > 1 and _chance(rng, 0.5)
    most = cloud.max_nodes // (len(experiment.chains) if parallel else 1)
    return AllocationPlan(
        chains=tuple(tuple(_allocation(rng, stage, cloud, most) for stage in chain) for chain in experiment.chains),
        order=ChainOrder.PARALLEL if parallel else ChainOrder.SEQUENTIAL,
    )


def _allocation(rng: np.random.Generator, stage: Stage, cloud: Cloud, most: int) -> StageAllocation:
    while True:
        kind = cloud.instance_types[rng.integers(len(cloud.instance_types))]
        nodes, width = int(rng.integers(1, min(most, 6) + 1)), int(rng.choice(_WIDTHS))
        try:
            Placement(trials=stage.trials, slots_per_trial=width, node_slots=kind.slots, nodes=nodes)
        except InvalidInput:
            continue
        return StageAllocation(instance_type=kind.name, nodes=nodes, slots_per_trial=width)


def _faults(rng: np.random.Generator) -> Faults:
    def sometimes(most: float) -> float:
        return float(rng.uniform(0.0, most)) if _chance(rng, 0.3) else 0.0

    return Faults(
        launch_failure=sometimes(0.5),
        never_ready=sometimes(0.2),
        slow_init=Slowness(probability=sometimes(0.5), factor=10.0),
        node_loss_per_hour=sometimes(12.0),
        loss_notice_s=sometimes(120.0),
        mass_loss_probability=sometimes(1.0),
        trial_failure=sometimes(0.2),
        trial_hang=sometimes(0.2),
        straggler=Slowness(probability=sometimes(0.3), factor=5.0),
        nan_score=sometimes(0.3),
        checkpoint_torn=sometimes(0.3),
        answer_lost=sometimes(0.2),
        clock_step_s=sometimes(7200.0),
        driver_kill_per_run=sometimes(3.0),
        true_iteration_factor=float(rng.choice((1.0, 1.0, 2.0, 0.5))),
        true_init_factor=float(rng.choice((1.0, 1.0, 3.0))),
    )


def _chance(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)
