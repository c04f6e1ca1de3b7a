"""What a planner chooses, and what it is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rb_core.check import between, non_empty, positive, positive_int
from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec

CHECKPOINT_EVERY_S = 600.0
"""Longest time between two checkpoints of a trial, unless told otherwise."""

NO_CHECKPOINTS = (
    "must be finite on nodes that may be taken away: a trial that saves nothing begins anew each time, and may never "
    "end; let the function save (trial.restore(model=...) or trial.save()), or buy on demand"
)
"""Why spot is refused to a function that keeps nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAllocation:
    """What one stage runs on.

    Attributes:
        instance_type: name of the type of all its nodes.
        nodes: how many are held; may exceed what the stage uses, to hold nodes for the next one.
        slots_per_trial: data-parallel processes of each trial.
    """

    instance_type: str
    nodes: int
    slots_per_trial: int

    def __post_init__(self) -> None:
        non_empty("instance_type", self.instance_type)
        positive_int("nodes", self.nodes)
        positive_int("slots_per_trial", self.slots_per_trial)


class ChainOrder(StrEnum):
    """How several chains of stages share the time."""

    PARALLEL = "parallel"
    """Side by side, each on nodes of its own."""
    SEQUENTIAL = "sequential"
    """One after another; nodes may be kept from one chain to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationPlan:
    """An allocation for every stage of every chain: the only thing a planner chooses.

    Attributes:
        chains: allocations in the shape of the experiment's chains.
        order: how the chains share the time; of no consequence for one chain.
    """

    chains: tuple[tuple[StageAllocation, ...], ...]
    order: ChainOrder = ChainOrder.SEQUENTIAL

    def check_fits(self, spec: ExperimentSpec) -> None:
        """Raise `InvalidInput` unless the plan has one allocation for each stage of `spec`."""
        shape = [len(chain) for chain in self.chains]
        wanted = [len(chain) for chain in spec.chains]
        if shape != wanted:
            raise InvalidInput(
                "stages",
                f"must be one allocation a stage; the experiment's chains have {wanted} stages, "
                f"the plan's have {shape}",
            )

    def record(self, spec: ExperimentSpec) -> dict[str, Any]:
        """What a file says of the plan: `stages`, or `chains` and `order`, with each stage's trials and iterations.

        Args:
            spec: an experiment that the plan fits.
        """
        chains: list[dict[str, Any]] = [
            {
                "stages": [
                    {
                        "trials": stage.trials,
                        "iterations": stage.iterations,
                        "instance_type": allocation.instance_type,
                        "nodes": allocation.nodes,
                        "slots_per_trial": allocation.slots_per_trial,
                    }
                    for stage, allocation in zip(stages, allocations, strict=True)
                ]
            }
            for stages, allocations in zip(spec.chains, self.chains, strict=True)
        ]
        return chains[0] if len(chains) == 1 else {"chains": chains, "order": self.order.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Cheapest by a deadline, or fastest within a budget: exactly one of the two limits is set.

    Attributes:
        deadline_s: limit of the job completion time in seconds.
        deadline_factor: the same limit as a multiple of the fastest plan's expected time.
        budget_usd: limit of the cost.
        confidence: wanted probability of keeping the limit; None constrains the mean.
    """

    deadline_s: float | None = None
    deadline_factor: float | None = None
    budget_usd: float | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        given = [key for key in ("deadline_s", "deadline_factor", "budget_usd") if getattr(self, key) is not None]
        if len(given) != 1:
            raise InvalidInput(
                "", f"must set exactly one of deadline_s and budget_usd, got {' and '.join(given) or 'none'}"
            )
        positive(given[0], getattr(self, given[0]))
        if self.deadline_factor is not None and self.deadline_factor < 1:
            raise InvalidInput(
                "deadline_s", f"must be at least 1 times the fastest plan's time, got {self.deadline_factor:g}x"
            )
        if self.confidence is not None:
            between("confidence", self.confidence, 0.5, 0.999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What may happen before a barrier; all off is the model as it stands.

    Attributes:
        early_release: a node on which nothing runs, with no trial left to start, is given back at once while more nodes
            are usable than the next stage keeps; those that fall idle first go first. It changes no time.
        prefetch: not built.
        early_promotion: not built.
    """

    early_release: bool = False
    prefetch: bool = False
    early_promotion: bool = False

    def __post_init__(self) -> None:
        for key, reason in (
            ("prefetch", "most plans would save nothing by it"),
            ("early_promotion", "beside early release it would save little"),
        ):
            if getattr(self, key):
                raise InvalidInput(key, f"is not supported, since {reason}; leave it out or set it to false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """All that a plan depends on.

    Attributes:
        experiment: what is to be run.
        profile: how it scales.
        cloud: what it may run on.
        objective: what is wanted; None where nothing is planned.
        policies: what may happen before a barrier.
        checkpoint_every_s: longest time between two checkpoints of a trial within a stage: what the loss of its node
            costs at most. Of no consequence where no node is taken away.

    Raises:
        InvalidInput: a value is out of its limits, or nodes may be taken away and trials never save.
    """

    experiment: ExperimentSpec
    profile: ScalingProfile
    cloud: Cloud
    objective: Objective | None = None
    policies: Policies = field(default_factory=Policies)
    checkpoint_every_s: float = CHECKPOINT_EVERY_S

    def __post_init__(self) -> None:
        if math.isinf(self.checkpoint_every_s) and self.checkpoint_every_s > 0:
            if self.cloud.interruptible:
                raise InvalidInput("checkpoint_every_s", NO_CHECKPOINTS)
        else:
            positive("checkpoint_every_s", self.checkpoint_every_s)

    @property
    def noisy(self) -> bool:
        """Whether two jobs can differ: durations vary, or nodes are taken away; if not, one sample tells all."""
        return self.varies or self.cloud.interruptible

    @property
    def varies(self) -> bool:
        """Whether any duration in profile or cloud varies of itself."""
        return self.profile.noisy or self.cloud.noisy
