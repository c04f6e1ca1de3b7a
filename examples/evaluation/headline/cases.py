"""What is evaluated: measured scaling curves, experiments, real clouds, and how much time there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rb_core.hardware import Cloud, Latency
from rb_core.plan import Objective, Problem
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_plugins.ec2_prices import price_book

WORKLOADS: Mapping[str, Mapping[int, float]] = {
    "ResNet-101": {1: 1.0, 2: 1.892, 4: 3.632, 8: 6.672},
    "ResNet-50": {1: 1.0, 2: 1.870, 4: 3.421, 8: 5.598},
    "ResNet-18": {1: 1.0, 2: 1.854, 4: 3.426, 8: 5.398},
    "bAbI-LSTM": {1: 1.0, 2: 1.62, 4: 2.03, 8: 2.75, 16: 2.48, 32: 2.48},
}
"""Throughput by slots, relative to one, as HyperSched measured it (Liaw et al., SoCC 2019): the ResNets on CIFAR with
the V100s of one p3.16xlarge and 128 samples a GPU, so weak scaling; the LSTM on CPUs."""

EXPERIMENTS: Mapping[str, ExperimentSpec] = {
    "SHA(64,4,508,2)": ExperimentSpec.successive_halving(n=64, r=4, R=508, eta=2, rungs="incremental"),
    "SHA(32,1,50,3)": ExperimentSpec.successive_halving(n=32, r=1, R=50, eta=3),
    "Hyperband(81,3)": ExperimentSpec.hyperband(R=81, eta=3),
}

CLOUDS: Mapping[str, tuple[str, ...]] = {
    "p3.8xlarge": ("p3.8xlarge",),
    "p3": ("p3.2xlarge", "p3.8xlarge", "p3.16xlarge"),
    "g5": ("g5.xlarge", "g5.12xlarge", "g5.48xlarge"),
}
"""Of each family the cheapest type with 1, 4 and 8 GPUs."""

DEADLINE_FACTORS = (1.05, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Deadlines, as multiples of the time of the fastest plan that there is."""

REGION = "us-east-1"
ITERATION_S = 60.0
MAX_NODES = 32
START_S, SAVE_S, SYNC_S = 5.0, 1.0, 5.0
SPREAD_PENALTY = 0.15
ITERATION_CV, TRIAL_CV, START_CV = 0.05, 0.2, 0.2
"""Coefficients of variation where something varies: of an iteration, of the speed of configurations, of launch and
init."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One experiment with one workload on one cloud, by their names."""

    experiment: str
    cloud: str
    workload: str

    def problem(self, deadline_factor: float) -> Problem:
        """The problem of meeting that multiple of the fastest plan's time; nothing in it varies."""
        book = price_book()
        return Problem(
            experiment=EXPERIMENTS[self.experiment],
            profile=ScalingProfile(
                iteration_s={w: Latency(mean=ITERATION_S / gain) for w, gain in WORKLOADS[self.workload].items()},
                start_s=Latency(mean=START_S),
                save_s=Latency(mean=SAVE_S),
                sync_s=SYNC_S,
                spread_penalty=SPREAD_PENALTY,
            ),
            cloud=Cloud(
                instance_types=tuple(book.offering(name, region=REGION).instance_type for name in CLOUDS[self.cloud]),
                max_nodes=MAX_NODES,
                launch_s=Latency(mean=book.launch_s.mean),
                init_s=Latency(mean=book.init_s.mean),
                billing=book.billing,
            ),
            objective=Objective(deadline_factor=deadline_factor),
        )


def with_noise(problem: Problem) -> Problem:
    """The same problem where iterations, configurations, launch and init vary."""
    profile, cloud = problem.profile, problem.cloud
    return dataclasses.replace(
        problem,
        profile=dataclasses.replace(
            profile,
            iteration_s={w: _spread(latency, ITERATION_CV) for w, latency in profile.iteration_s.items()},
            trial_cv=TRIAL_CV,
        ),
        cloud=dataclasses.replace(
            cloud, launch_s=_spread(cloud.launch_s, START_CV), init_s=_spread(cloud.init_s, START_CV)
        ),
    )


def _spread(latency: Latency, cv: float) -> Latency:
    return Latency(mean=latency.mean, std=cv * latency.mean)


def cases() -> Iterator[Case]:
    """All of them, in the order of the table."""
    for experiment in EXPERIMENTS:
        for cloud in CLOUDS:
            for workload in WORKLOADS:
                yield Case(experiment=experiment, cloud=cloud, workload=workload)
