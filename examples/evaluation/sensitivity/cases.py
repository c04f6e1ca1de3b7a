"""What is run, and in how many ways what is believed of it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from headline.beside import StaticBeside
from headline.cases import EXPERIMENTS as HEADLINE
from headline.cases import Case as Headline
from headline.cases import with_noise

from rb_core.errors import NoFeasiblePlan
from rb_core.hardware import Latency
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.exact import Exact
from rb_core.planners.objective import resolve

EXPERIMENTS = tuple(HEADLINE)

CLOUD, WORKLOAD = "g5", "ResNet-50"
"""Three types whose GPUs differ in price, so that a wrong price can lead to the wrong one."""

DEADLINE_FACTORS = (1.5, 3.0)
"""Deadlines, as multiples of the time of the fastest plan that there really is."""

MISPRICED = "g5.12xlarge"


def _iterations(problem: Problem, factor: float) -> Problem:
    """All iterations are believed to take `factor` times as long as they do."""
    iteration_s = {slots: _times(latency, factor) for slots, latency in problem.profile.iteration_s.items()}
    return replace(problem, profile=replace(problem.profile, iteration_s=iteration_s))


def _scaling(problem: Problem, factor: float) -> Problem:
    """One slot is known; of what is lost by several the share `factor` is not seen: 1 believes in perfect scaling."""
    known = problem.profile.iteration_s
    one_s = known[1].mean
    iteration_s = {slots: _times(latency, (one_s / slots / latency.mean) ** factor) for slots, latency in known.items()}
    return replace(problem, profile=replace(problem.profile, iteration_s=iteration_s))


def _price(problem: Problem, factor: float) -> Problem:
    """One type, g5.12xlarge, is believed to cost `factor` times as much as it does."""
    kinds = tuple(
        replace(kind, usd_per_hour=factor * kind.usd_per_hour) if kind.name == MISPRICED else kind
        for kind in problem.cloud.instance_types
    )
    return replace(problem, cloud=replace(problem.cloud, instance_types=kinds))


def _start(problem: Problem, factor: float) -> Problem:
    """Nodes are believed to take `factor` times as long to launch and to join as they do."""
    cloud = problem.cloud
    return replace(
        problem, cloud=replace(cloud, launch_s=_times(cloud.launch_s, factor), init_s=_times(cloud.init_s, factor))
    )


def _noise(problem: Problem, factor: float) -> Problem:
    """Every spread is believed to be `factor` times as large as it is; the means are known."""
    profile, cloud = problem.profile, problem.cloud
    iteration_s = {slots: _spread(latency, factor) for slots, latency in profile.iteration_s.items()}
    return replace(
        problem,
        profile=replace(profile, iteration_s=iteration_s, trial_cv=factor * profile.trial_cv),
        cloud=replace(cloud, launch_s=_spread(cloud.launch_s, factor), init_s=_spread(cloud.init_s, factor)),
    )


BELIEFS: Mapping[str, Callable[[Problem, float], Problem]] = {
    "iterations": _iterations,
    "scaling": _scaling,
    "price": _price,
    "start": _start,
    "noise": _noise,
}
"""By what is wrong: what is believed, from what is true and how far the belief is off."""

ERRORS: Mapping[str, tuple[float, ...]] = {
    "iterations": (0.5, 0.7, 0.9, 1.1, 1.5, 2.0),
    "scaling": (-0.5, 0.5, 1.0),
    "price": (0.7, 0.85, 1.2, 1.5),
    "start": (0.1, 0.3, 3.0, 10.0),
    "noise": (0.0, 0.5, 1.0),
}
"""How far it is off. Only where noise is the question does anything vary; at 1 that is known."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One experiment under one deadline, and one error in what is believed of it.

    Attributes:
        experiment: its name.
        deadline_factor: the deadline as a multiple of the time of the fastest plan that there really is.
        wrong: what is wrong.
        factor: how far, in the sense of `BELIEFS`.
    """

    experiment: str
    deadline_factor: float
    wrong: str
    factor: float

    @cached_property
    def true(self) -> Problem:
        """The problem as it is."""
        problem = Headline(experiment=self.experiment, cloud=CLOUD, workload=WORKLOAD).problem(self.deadline_factor)
        return resolve(with_noise(problem) if self.wrong == "noise" else problem)

    @cached_property
    def believed(self) -> Problem:
        """The problem as it is planned, under the same deadline in seconds."""
        return BELIEFS[self.wrong](self.true, self.factor)

    def plan(self, planner: str) -> AllocationPlan | None:
        """What is planned: `informed` from what is true, `exact` and `static` from what is believed; None for none."""
        try:
            if planner == "static":
                return StaticBeside().plan(self.believed)
            return Exact().plan(self.true if planner == "informed" else self.believed, np.random.default_rng(0))
        except NoFeasiblePlan:
            return None


def _times(latency: Latency, factor: float) -> Latency:
    return Latency(mean=latency.mean * factor, std=latency.std * factor)


def _spread(latency: Latency, factor: float) -> Latency:
    return Latency(mean=latency.mean, std=latency.std * factor)
