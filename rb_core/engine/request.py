"""What an engine is asked to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rb_core.check import non_empty, non_negative, one_of, positive, positive_int
from rb_core.errors import InvalidInput
from rb_core.plainjson import plain
from rb_core.plan import AllocationPlan, Problem
from rb_core.ports import Depot

LEAST_PATIENCE_S = 60.0
"""Silence of a trial that is borne in any case."""


class OnDeadline(StrEnum):
    """What happens when the deadline has come and work is left."""

    FINISH = "finish"
    """The rest is run, for less where that ends no later, and the miss is reported."""
    STOP = "stop"
    """Every trial saves and ends, everything is given back, and the best so far is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run: a problem, the plan for it, and one configuration for each trial.

    Attributes:
        run: id of the run, the tag of everything that it owns.
        problem: experiment, profile and cloud.
        plan: an allocation for every stage.
        configs: one for each trial, in the order of their numbers through all chains.
        storage: folder for the checkpoints of all trials; of no use where there is a depot.
        logs: folder for the output of the ranks; each trial gets one of its own in it.
        metric: name of the score.
        mode: ``max`` or ``min``, which scores are better.
        seed: seed of the training.
        target: what is trained, in words.
        record: the canonical problem as in the problem file's JSON.
        environment: versions and machine, for repeating the run.
        env: variables for every rank.
        checkpoint_every_s: longest time between two checkpoints within a stage.
        patience: a trial that says nothing for `LEAST_PATIENCE_S` and so many times its longest expected step hangs,
            and is killed; None waits for ever.
        sync_s: length of the barrier after a stage, for rehearsals; a real one takes what it takes.
        max_usd: hard limit of the bill; None for no limit.
        max_losses: how often nodes may be lost, or about to be, in a row, without any checkpoint in between, before the
            run fails; several that were held together count once.
        retries: how often a trial may be started again in a stage after it hung or its processes were killed. Starts
            after the loss of a node, or of a checkpoint, do not count.
        on_deadline: what happens when the objective's deadline has come.
        replan: whether the rest is planned anew at barriers and on faults.
        hopeless_after: the run fails when so many trials have failed alike and none has succeeded, when nobody is left
            of a stage, or when all its scores are NaN; None: that only ends the chain.
        grace_s: how long an interrupted trial may take to save.
        depot: keeps the checkpoints of all trials, for nodes that share no folder.
        warnings: what was to be warned of before it began, for its log.
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
    patience: float | None = None
    sync_s: float = 0.0
    max_usd: float | None = None
    max_losses: int = 10
    retries: int = 1
    on_deadline: OnDeadline = OnDeadline.FINISH
    replan: bool = False
    hopeless_after: int | None = 3
    grace_s: float = 10.0
    depot: Depot | None = None
    warnings: tuple[str, ...] = ()

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
        if self.patience is not None:
            positive("patience", self.patience)
        if self.max_usd is not None:
            positive("max_usd", self.max_usd)
        if self.hopeless_after is not None:
            positive_int("hopeless_after", self.hopeless_after)
        for key in ("sync_s", "max_losses", "retries", "grace_s"):
            non_negative(key, getattr(self, key))

    @property
    def plain_record(self) -> dict[str, Any]:
        """The canonical problem in plain JSON values."""
        return dict(plain(self.record))
