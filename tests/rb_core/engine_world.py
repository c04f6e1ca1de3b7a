"""A run of the real engine over fakes, for the tests of the engine and of what it stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rb_core.clock import ManualClock
from rb_core.engine import Engine
from rb_core.engine.request import RunRequest
from rb_core.eventlog import Log, MemoryLog
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, ChainOrder, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec, Stage
from rb_core.testing.fakes import FakeLauncher, FakeProvider, FakeTraining

MEAN_S = {1: 10.0, 2: 6.0, 4: 4.0}
"""Iteration latencies of the model's worked example, by slots per trial."""


def worked_training(**changes: Any) -> FakeTraining:
    values = {
        "start_s": 5.0,
        "save_s": 1.0,
        "iteration_s": lambda run: MEAN_S[len(run.slots)],
        "score": lambda trial, iterations: float(trial),
    }
    return FakeTraining(**{**values, **changes})


def problem(
    chains: Sequence[Sequence[tuple[int, int]]] = (((4, 10), (2, 20), (1, 40)),),
    *,
    slots: int = 2,
    max_nodes: int = 8,
    billing: Billing | None = None,
    dataset_gib: float = 0.0,
    widths: Mapping[int, float] = MEAN_S,
) -> Problem:
    return Problem(
        experiment=ExperimentSpec(
            chains=tuple(tuple(Stage(trials=n, iterations=e) for n, e in chain) for chain in chains)
        ),
        profile=ScalingProfile(
            iteration_s={w: Latency(mean=mean) for w, mean in widths.items()},
            start_s=Latency(mean=5.0),
            save_s=Latency(mean=1.0),
            sync_s=4.0,
        ),
        cloud=Cloud(
            instance_types=(
                InstanceType(name="a", slots=slots, usd_per_hour=3.6),
                InstanceType(name="b", slots=slots, usd_per_hour=7.2),
            ),
            max_nodes=max_nodes,
            launch_s=Latency(mean=30.0),
            init_s=Latency(mean=60.0),
            billing=billing or Billing(),
            dataset_gib=dataset_gib,
            transfer_usd_per_gib=1.0,
        ),
    )


def plan(
    *chains: Sequence[tuple[int, int]], order: ChainOrder = ChainOrder.SEQUENTIAL, kinds: str = ""
) -> AllocationPlan:
    """A plan of (nodes, slots per trial) pairs; `kinds` names the type of every stage by its letter."""
    letters = iter(kinds)
    return AllocationPlan(
        chains=tuple(
            tuple(StageAllocation(instance_type=next(letters, "a"), nodes=m, slots_per_trial=w) for m, w in chain)
            for chain in chains
        ),
        order=order,
    )


@dataclass
class World:
    """One engine on a manual clock, with everything that it touches in reach."""

    training: FakeTraining = field(default_factory=worked_training)
    log: Log = field(default_factory=MemoryLog)
    engine: Mapping[str, Any] = field(default_factory=dict)
    launch_s: float = 30.0
    init_s: float = 60.0

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.inbox = self.clock.inbox()
        self.provider = FakeProvider(self.clock, self.inbox, launch_s=self.launch_s, init_s=self.init_s)
        self.launcher = FakeLauncher(self.clock, self.training)
        self.removed: list[str] = []
        self.told: list[Any] = []

    def run(self, wanted: Problem, chosen: AllocationPlan, **changes: Any) -> Any:
        values: dict[str, Any] = {
            "run": "r",
            "problem": wanted,
            "plan": chosen,
            "configs": tuple({"lr": float(n)} for n in range(wanted.experiment.trials)),
            "storage": Path("store"),
            "logs": Path("logs"),
            "sync_s": 4.0,
        }
        observers = (self.told.append, *self.engine.get("observers", ()))
        parts = {"remove": self.removed.append, **self.engine, "observers": observers}
        made = Engine(
            provider=self.provider,
            launcher=self.launcher,
            clock=self.clock,
            inbox=self.inbox,
            log=self.log,
            **parts,
        )
        return made.run(RunRequest(**{**values, **changes}))

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.told if type(event) is kind]

    def released(self) -> bool:
        """Whether no node and no trial is left."""
        return not self.provider.owned("r") and not self.launcher.live and not self.launcher.entered
