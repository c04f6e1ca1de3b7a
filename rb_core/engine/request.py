"""What an engine is asked to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rb_core.check import non_empty, non_negative, one_of, positive, positive_int
from rb_core.errors import InvalidInput
from rb_core.plainjson import plain
from rb_core.plan import AllocationPlan, ChainOrder, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run: a problem, the plan for it, and one configuration for each trial.

    Attributes:
        run: id of the run, the tag of everything that it owns.
        problem: experiment, profile and cloud.
        plan: an allocation for every stage.
        configs: one for each trial, in the order of their numbers through all chains.
        storage: folder for the checkpoints of all trials.
        logs: folder for the output of the ranks; each trial gets one of its own in it.
        metric: name of the score.
        mode: ``max`` or ``min``, which scores are better.
        seed: seed of the training.
        target: what is trained, in words.
        record: the canonical problem as in the problem file's JSON.
        environment: versions and machine, for repeating the run.
        env: variables for every rank.
        checkpoint_every_s: longest time between two checkpoints within a stage.
        stall_s: a trial that says nothing for so long is killed and counts as failed; None waits for ever.
        sync_s: length of the barrier after a stage, for rehearsals; a real one takes what it takes.
        max_usd: hard limit of the bill; None for no limit.
        max_losses: nodes that may be lost before the run fails.
        hopeless_after: the run fails when so many trials have failed alike and none has succeeded.
        grace_s: how long an interrupted trial may take to save.
    """

    run: str
    problem: Problem
    plan: AllocationPlan
    configs: tuple[Mapping[str, Any], ...]
    storage: Path
    logs: Path
    metric: str = "score"
    mode: str = "max"
    seed: int = 0
    target: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    checkpoint_every_s: float = 600.0
    stall_s: float | None = None
    sync_s: float = 0.0
    max_usd: float | None = None
    max_losses: int = 3
    hopeless_after: int = 3
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        non_empty("run", self.run)
        one_of("mode", self.mode, ("max", "min"))
        self.plan.check_fits(self.problem.experiment)
        if len(self.configs) != self.problem.experiment.trials:
            raise InvalidInput(
                "configs",
                f"must be one for each of the {self.problem.experiment.trials} trials, got {len(self.configs)}",
            )
        positive("checkpoint_every_s", self.checkpoint_every_s)
        if self.stall_s is not None:
            positive("stall_s", self.stall_s)
        if self.max_usd is not None:
            positive("max_usd", self.max_usd)
        positive_int("hopeless_after", self.hopeless_after)
        for key in ("sync_s", "max_losses", "grace_s"):
            non_negative(key, getattr(self, key))

    @property
    def plan_record(self) -> dict[str, Any]:
        """The plan as in the plan file's JSON."""
        chains = [
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
            for stages, allocations in zip(self.problem.experiment.chains, self.plan.chains, strict=True)
        ]
        if len(chains) == 1:
            return chains[0]
        return {"chains": chains, "order": ChainOrder(self.plan.order).value}

    @property
    def plain_record(self) -> dict[str, Any]:
        """The canonical problem in plain JSON values."""
        return dict(plain(self.record))
