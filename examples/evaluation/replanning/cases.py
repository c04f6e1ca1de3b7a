"""What is measured: four small jobs, how far reality is from what is known of them, and how much time there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.plan import Problem
from rb_core.profile import ScalingProfile
from rb_core.sim.faults import Faults
from rb_core.spec import ExperimentSpec

DEADLINE_FACTORS = (1.5, 2.0, 3.0)
"""Deadlines, as multiples of the time of the fastest plan that there is in reality."""

ITERATION_FACTOR, INIT_FACTOR = 2.0, 3.0
"""Iterations and the start of nodes take so many times as long as is known when the run is planned."""

TROUBLE = Faults(launch_failure=0.3)
"""What goes wrong whatever was known: three requests for a node in ten fail."""

MISJUDGED = dataclasses.replace(TROUBLE, true_iteration_factor=ITERATION_FACTOR, true_init_factor=INIT_FACTOR)
"""The same, where the profile is wrong."""

P3 = InstanceType(name="p3.8xlarge", slots=4, usd_per_hour=12.24)

G5 = (
    InstanceType(name="g5.xlarge", slots=1, usd_per_hour=1.006),
    InstanceType(name="g5.12xlarge", slots=4, usd_per_hour=5.672),
    InstanceType(name="g5.48xlarge", slots=8, usd_per_hour=16.288),
)

GAIN = {1: 1.0, 2: 1.87, 4: 3.421, 8: 5.598}
"""Throughput of ResNet-50 by slots, relative to one: HyperSched (Liaw et al., SoCC 2019)."""


def _problem(experiment: ExperimentSpec, types: tuple[InstanceType, ...]) -> Problem:
    return Problem(
        experiment=experiment,
        profile=ScalingProfile(
            iteration_s={slots: Latency(mean=60.0 / gain) for slots, gain in GAIN.items()},
            start_s=Latency(mean=5.0),
            save_s=Latency(mean=1.0),
            sync_s=5.0,
            spread_penalty=0.15,
        ),
        cloud=Cloud(instance_types=types, max_nodes=16, launch_s=Latency(mean=30.0), init_s=Latency(mean=60.0)),
    )


def _spread(latency: Latency, cv: float) -> Latency:
    return Latency(mean=latency.mean, std=cv * latency.mean)


def _halving() -> Problem:
    return _problem(ExperimentSpec.successive_halving(n=16, r=8, R=120, eta=2, rungs="incremental"), (P3,))


def _family() -> Problem:
    return _problem(ExperimentSpec.successive_halving(n=27, r=6, R=162, eta=3), G5)


def _noise() -> Problem:
    problem = _halving()
    profile, cloud = problem.profile, problem.cloud
    return dataclasses.replace(
        problem,
        profile=dataclasses.replace(
            profile,
            iteration_s={slots: _spread(latency, 0.05) for slots, latency in profile.iteration_s.items()},
            start_s=_spread(profile.start_s, 0.2),
            trial_cv=0.2,
        ),
        cloud=dataclasses.replace(cloud, launch_s=_spread(cloud.launch_s, 0.2), init_s=_spread(cloud.init_s, 0.2)),
    )


def _hyperband() -> Problem:
    return _problem(ExperimentSpec.hyperband(R=63, eta=4), (P3,))


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "halving": _halving,
    "family": _family,
    "noise": _noise,
    "hyperband": _hyperband,
}
"""As they are known when they are planned.

`halving`: 16 trials on one type; nothing varies. `family`: 27 trials, three types. `noise`: as `halving`, where
iterations vary by 5 %, and trials, launch, init and start by 20 %. `hyperband`: three brackets with 25 trials in all.
"""


def in_reality(problem: Problem) -> Problem:
    """The problem as somebody knows it who knows everything but the faults."""
    profile, cloud = problem.profile, problem.cloud
    iteration_s = {slots: _times(latency, ITERATION_FACTOR) for slots, latency in profile.iteration_s.items()}
    return dataclasses.replace(
        problem,
        profile=dataclasses.replace(profile, iteration_s=iteration_s),
        cloud=dataclasses.replace(cloud, init_s=_times(cloud.init_s, INIT_FACTOR)),
    )


def _times(latency: Latency, factor: float) -> Latency:
    return Latency(mean=latency.mean * factor, std=latency.std * factor)
