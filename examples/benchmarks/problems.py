"""The jobs that the benchmarks plan and simulate."""

from __future__ import annotations

import dataclasses
import math

from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec, Stage


def sha(*, noise: float = 0.05, trial_cv: float = 0.2) -> Problem:
    """SHA(64, 4, 508, 2) as in the RubberBand paper, on up to 64 nodes of one type with 4 slots.

    Args:
        noise: coefficient of variation of every latency.
        trial_cv: speed spread between configurations.
    """
    return Problem(
        experiment=ExperimentSpec.successive_halving(n=64, r=4, R=508, eta=2, rungs="incremental"),
        profile=scaling(largest=16, noise=noise, trial_cv=trial_cv),
        cloud=cloud(InstanceType(name="four", slots=4, usd_per_hour=12.24), nodes=64, noise=noise),
    )


def wide() -> Problem:
    """The large job without noise, on up to 256 nodes of each of 5 types with 1 to 16 slots."""
    types = tuple(
        InstanceType(name=f"of-{slots}", slots=slots, usd_per_hour=price)
        for slots, price in ((1, 3.06), (2, 6.2), (4, 12.24), (8, 25.5), (16, 54.0))
    )
    job = large(noise=0.0, trial_cv=0.0)
    return dataclasses.replace(job, cloud=cloud(*types, nodes=256, noise=0.0))


def large(*, noise: float = 0.05, trial_cv: float = 0.2) -> Problem:
    """10 stages from 512 trials to one, on up to 64 nodes of each of 3 types with 1, 4 and 8 slots."""
    types = (
        InstanceType(name="one", slots=1, usd_per_hour=3.06),
        InstanceType(name="four", slots=4, usd_per_hour=12.24),
        InstanceType(name="eight", slots=8, usd_per_hour=31.22, speed=1.15),
    )
    return Problem(
        experiment=ExperimentSpec.from_stages(Stage(trials=512 >> k, iterations=4 << k) for k in range(10)),
        profile=scaling(largest=32, noise=noise, trial_cv=trial_cv),
        cloud=cloud(*types, nodes=64, noise=noise),
    )


def shrinking(problem: Problem, *, instance_type: str, nodes: int) -> AllocationPlan:
    """A plan of one-slot trials whose nodes become fewer with the trials."""
    first = problem.experiment.chains[0][0].trials
    return AllocationPlan(
        chains=tuple(
            tuple(
                StageAllocation(
                    instance_type=instance_type, nodes=math.ceil(nodes * stage.trials / first), slots_per_trial=1
                )
                for stage in chain
            )
            for chain in problem.experiment.chains
        )
    )


def scaling(*, largest: int, noise: float, trial_cv: float) -> ScalingProfile:
    """Iterations of 60 s on one slot; each doubling of the slots, up to `largest`, divides that by 1.8."""
    doublings = range(largest.bit_length())
    return ScalingProfile(
        iteration_s={2**k: varying(60.0 / 1.8**k, noise) for k in doublings},
        start_s=varying(5.0, noise),
        save_s=varying(1.0, noise),
        sync_s=5.0,
        trial_cv=trial_cv,
        spread_penalty=0.15,
    )


def cloud(*types: InstanceType, nodes: int, noise: float) -> Cloud:
    """Nodes that take 30 s to launch and 60 s to become usable."""
    return Cloud(instance_types=types, max_nodes=nodes, launch_s=varying(30.0, noise), init_s=varying(60.0, noise))


def varying(mean: float, noise: float) -> Latency:
    """A latency with `noise` as its coefficient of variation."""
    return Latency(mean=mean, std=mean * noise)
