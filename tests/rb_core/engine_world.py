"""A run of the real engine over fakes, for the tests of the engine and of what it stands on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rb_core import events
from rb_core.billing import bill
from rb_core.clock import ManualClock
from rb_core.engine import Engine
from rb_core.engine.request import RunRequest
from rb_core.eventlog import EventLog, Log, MemoryLog, read_log
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, ChainOrder, Problem, StageAllocation
from rb_core.ports import Inbox, Timer
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


class Killed(BaseException):
    """What stands for SIGKILL: once it is raised, nothing that its process does has any effect."""


class Life:
    """One process that runs an engine: once it is over, its timers never run and its calls reach nobody."""

    def __init__(self, clock: ManualClock) -> None:
        self.over = False
        self._clock = clock

    def kill(self) -> None:
        self.over = True
        raise Killed

    @property
    def origin(self) -> str:
        return self._clock.origin

    def now(self) -> float:
        return self._clock.now()

    def utc(self) -> datetime:
        return self._clock.utc()

    def inbox(self) -> Inbox:
        return self._clock.inbox()

    def call_at(self, when_s: float, action: Callable[[], None]) -> Timer:
        return self._clock.call_at(when_s, lambda: None if self.over else action())

    def reach(self, part: Any, **answers: Any) -> Any:
        """The part as this process reaches it; with what its calls seem to answer once the process is over."""
        return _Reached(self, part, answers)


class _Reached:
    def __init__(self, life: Life, part: Any, answers: Mapping[str, Any]) -> None:
        self._life, self._part, self._answers = life, part, answers

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not callable(found):
            return found
        return lambda *args, **named: self._answers.get(name) if self._life.over else found(*args, **named)


Fatal = Callable[[events.Event], bool]
"""Whether a process is killed at this event."""


def nth(number: int) -> Fatal:
    """Fatal is the n-th event that the process writes, counted from 0."""
    left = iter(range(number, -1, -1))
    return lambda event: next(left) == 0


class MortalLog:
    """A log whose process is killed at the first fatal event: before it is written, or right after."""

    def __init__(self, log: Log, life: Life, fatal: Fatal, *, written: bool) -> None:
        self._log, self._life, self._fatal, self._written = log, life, fatal, written

    def append(self, *made: events.Event) -> None:
        for event in made:
            if self._life.over:
                return
            fatal = self._fatal(event)
            if fatal and not self._written:
                self._life.kill()
            self._log.append(event)
            if fatal:
                self._life.kill()

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class World:
    """Engines on a manual clock, one after another for one run, with everything that they touch in reach.

    The cloud, the log and the storage outlast them; launcher, inbox and timers are those of the last one.
    """

    training: FakeTraining = field(default_factory=worked_training)
    log: EventLog | MemoryLog = field(default_factory=MemoryLog)
    engine: Mapping[str, Any] = field(default_factory=dict)
    launch_s: float = 30.0
    init_s: float = 60.0

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.provider = FakeProvider(self.clock, self.clock.inbox(), launch_s=self.launch_s, init_s=self.init_s)
        self.removed: list[str] = []
        self.told: list[Any] = []
        self.begin()

    def begin(self) -> None:
        """A new process begins."""
        self.life = Life(self.clock)
        self.inbox = self.clock.inbox()
        self.provider.inbox = self.inbox
        self.launcher = FakeLauncher(self.life, self.training)

    def run(self, wanted: Problem, chosen: AllocationPlan, **changes: Any) -> Any:
        return self._engine(self.log).run(self.request(wanted, chosen, **changes))

    def killed(
        self, wanted: Problem, chosen: AllocationPlan, fatal: Fatal, *, written: bool = True, **changes: Any
    ) -> None:
        """Run, or go on where the log holds a run already, until the process is killed; or to the end."""
        engine = self._engine(MortalLog(self.log, self.life, fatal, written=written))
        request = self.request(wanted, chosen, **changes)
        with suppress(Killed):
            if self.history:
                engine.resume(request, tuple(self.history))
            else:
                engine.run(request)

    def resume(self, wanted: Problem, chosen: AllocationPlan, *, away_s: float = 0.0, **changes: Any) -> Any:
        """Go on in another process, after some time."""
        self.pass_away(away_s)
        return self._engine(self.log).resume(self.request(wanted, chosen, **changes), tuple(self.history))

    def pass_away(self, seconds: float) -> None:
        """The process is gone; time passes before the next one begins."""
        self.life.over = True
        self.clock.inbox().get(self.clock.now() + seconds)
        self.begin()

    def reboot(self, *, later: timedelta) -> None:
        """The process is gone, and its machine; the next one has another clock, and the cloud another start."""
        self.clock = ManualClock(start_s=7.0, epoch=self.clock.utc() + later - timedelta(seconds=7))
        self.provider = FakeProvider(self.clock, self.clock.inbox(), launch_s=self.launch_s, init_s=self.init_s)
        self.begin()

    def request(self, wanted: Problem, chosen: AllocationPlan, **changes: Any) -> RunRequest:
        values: dict[str, Any] = {
            "run": "r",
            "problem": wanted,
            "plan": chosen,
            "configs": tuple({"lr": float(n)} for n in range(wanted.experiment.trials)),
            "storage": Path("store"),
            "logs": Path("logs"),
            "sync_s": 4.0,
        }
        return RunRequest(**{**values, **changes})

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.told if type(event) is kind]

    @property
    def history(self) -> list[Any]:
        """All events of the log."""
        if isinstance(self.log, EventLog):
            return list(read_log(self.log.path).events)
        return self.log.events

    def interrupt(self) -> None:
        """Ctrl-C."""
        raise KeyboardInterrupt

    def released(self) -> bool:
        """Whether no node and no trial is left."""
        return not self.provider.owned("r") and not self.launcher.live and not self.launcher.entered

    def billed_usd(self, cloud: Cloud) -> float:
        """What the provider's own books come to."""
        books = self.provider.books.values()
        return float(
            bill(
                cloud.billing,
                usd_per_s=[node.instance_type.usd_per_s for node in books],
                running_s=[math.inf if node.running_s is None else node.running_s for node in books],
                released_s=[node.released_s for node in books],
                data_usd=cloud.data_usd,
            ).sum()
        )

    def _engine(self, log: Any) -> Engine:
        observers = (self.told.append, *self.engine.get("observers", ()))
        parts = {"remove": self.removed.append, **self.engine, "observers": observers}
        return Engine(
            provider=self.life.reach(self.provider, owned=()),
            launcher=self.launcher,
            clock=self.life,
            inbox=self.inbox,
            log=log,
            **parts,
        )
