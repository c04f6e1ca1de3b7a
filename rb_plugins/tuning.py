"""All that one tuning run is asked for: what an experiment file says, or what is given from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from rb_core.check import non_empty, one_of, positive, positive_int
from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud
from rb_core.plan import Objective, Policies
from rb_core.profile import ScalingProfile
from rb_core.space import METHODS, Method, Space, check_space
from rb_core.spec import ExperimentSpec
from rb_core.target import Target
from rb_plugins.config.given import Given, Speeds

Mode = Literal["max", "min"]
AtDeadline = Literal["finish", "stop"]
"""The values of `rb_core.engine.request.OnDeadline`."""

DEFAULT_LAUNCHER = "ddp"
"""Trains on one slot and on many alike."""

DEFAULT_POLICIES = Policies(early_release=True)
"""A run does all that is built before a barrier, unless told otherwise."""

DEFAULT_PROFILING_S = 300.0
"""Longest time that profiling may take unless told otherwise."""

DEFAULT_CHECKPOINT_EVERY_S = 600.0
"""Longest time between two checkpoints within a stage unless told otherwise."""

Types = Literal["all", "first"]
TYPES: tuple[Types, ...] = get_args(Types)
"""Which types may be measured."""

ON_DEADLINE: tuple[AtDeadline, ...] = get_args(AtDeadline)
"""What may happen when the deadline has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How to measure a profile.

    Attributes:
        slots: numbers of slots to measure; none stands for 1, 2, 4, ... as far as the nodes reach.
        budget_s: limit of the time that measuring takes, on all types together.
        types: on which of the cloud's instance types: ``all`` whose speed was not given, or the ``first`` alone.
    """

    slots: tuple[int, ...] = ()
    budget_s: float = DEFAULT_PROFILING_S
    types: Types = "all"

    def __post_init__(self) -> None:
        for number, slots in enumerate(self.slots):
            positive_int(f"slots[{number}]", slots)
        positive("budget_s", self.budget_s)
        one_of("types", self.types, TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """One tuning run, before it is profiled and planned.

    Attributes:
        target: the training function.
        space: what its configurations are drawn from.
        experiment: the stages.
        cloud: what they may run on.
        objective: what is wanted.
        name: for people.
        metric: name of the score.
        mode: ``max`` or ``min``.
        seed: seed of the configurations, the plan's samples and the training.
        sampling: how configurations are drawn from the space.
        profile: a profile that is known, or how to measure one.
        launcher: name of the launcher.
        storage: folder of the checkpoints, or the address of a store; None for a folder in the run directory.
        checkpoint_every_s: longest time between two checkpoints within a stage.
        max_usd: hard limit of the bill, checked before each launch.
        on_deadline: what happens when the deadline has come: ``finish`` or ``stop``.
        replan: whether the rest may be planned anew while the run goes on; only the default planner's plans are.
        env: variables for every rank; kept in the run's directory, so no place for secrets.
        policies: what may happen before a barrier; by default all that is built.
        file: the experiment file that all this is from, if it is from one.
        again: how a later process finds a function that is sent by value; None where it cannot.
        given: what of the cloud was said by hand, and no measurement takes the place of; None where that is to be seen
            from the cloud itself.
        speeds: how fast types were found to be, where the profile is known.
    """

    target: Target
    space: Space
    experiment: ExperimentSpec
    cloud: Cloud
    objective: Objective
    name: str = "run"
    metric: str = "score"
    mode: Mode = "max"
    seed: int = 0
    sampling: Method = "random"
    profile: ScalingProfile | Measuring = field(default_factory=Measuring)
    launcher: str = DEFAULT_LAUNCHER
    storage: Path | str | None = None
    checkpoint_every_s: float = DEFAULT_CHECKPOINT_EVERY_S
    max_usd: float | None = None
    on_deadline: AtDeadline = "finish"
    replan: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    policies: Policies = DEFAULT_POLICIES
    file: Path | None = None
    again: Target | None = None
    given: Given | None = None
    speeds: Speeds = field(default_factory=Speeds)

    @property
    def by_hand(self) -> Given:
        """What of the cloud was said by hand."""
        return Given.of(self.cloud) if self.given is None else self.given

    def __post_init__(self) -> None:
        check_space(self.space)
        non_empty("name", self.name)
        non_empty("train.metric", self.metric)
        one_of("train.mode", self.mode, ("max", "min"))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidInput("train.seed", f"must be an integer of at least 0, got {self.seed!r}")
        one_of("run.sampling", self.sampling, METHODS)
        positive("run.checkpoint_every_s", self.checkpoint_every_s)
        one_of("run.on_deadline", self.on_deadline, ON_DEADLINE)
        if self.max_usd is not None:
            positive("run.max_usd", self.max_usd)
