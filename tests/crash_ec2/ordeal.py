"""A run of 4, then 9, then 2 nodes in three zones, whose driver is killed; and what is left of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path

import boto3
from faulty_ec2 import CREDENTIALS, Call, Fault, FaultyEC2

from crash_ec2.case import After, Case, Condition
from crash_ec2.driver import Disk, MortalClients, MortalDriver, MortalLog
from rb_core.clock import ManualClock
from rb_core.engine import Engine
from rb_core.engine.request import RunRequest
from rb_core.errors import NoAnswer, RubberBandError
from rb_core.events import Event, RunEnded, RunEnding
from rb_core.hardware import Cloud, InstanceType, Latency, Market, MarketPolicy
from rb_core.journal import Journal
from rb_core.ledger import ledger
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.ports import Bootstrap
from rb_core.profile import ScalingProfile
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.estate import collect_run
from rb_core.providers.ec2.provider import Ec2Provider
from rb_core.sim.driver import DrivenClock, DriverKilled
from rb_core.spec import ExperimentSpec
from rb_core.state import fold
from rb_core.testing.fakes import FakeLauncher, FakeTraining

RUN = "crash-1"
REGION = "us-east-1"
ZONES = tuple(f"{REGION}{letter}" for letter in "abc")
GIB = 100
DISK_USD, ADDRESS_USD = GIB * 0.08 / 720, 0.005
ON_DEMAND = ("g4dn.12xlarge", 3.912)
SPOT = ("g5.12xlarge", 1.9)
NODES = (4, 9, 2)
BOOT_S, SHUTDOWN_S = 20.0, 10.0
LOOKS_S, BLIND_S = 5.0, 15.0
"""Begin and end of a node together are known to so many seconds, by looks at it; and where looks had no answer, or
nobody looked for a while."""

_LOSSES = frozenset({"RunInstances", "TerminateInstances", "CreateSecurityGroup", "PutParameter", "DeleteParameter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a case.

    Attributes:
        trace: the steps of the last process.
        killed_at: what each killed one was at.
        problems: what is wrong; nothing, one hopes.
    """

    trace: tuple[str, ...]
    killed_at: tuple[str, ...]
    problems: tuple[str, ...]


class _Silent:
    """A lifeline that no node calls."""

    address = "127.0.0.1:1"

    def __init__(self, key: bytes, hear: object, host: str, port: int = 0) -> None:
        pass

    def dismiss(self, nodes: object) -> None:
        """Nobody would ask."""

    def close(self) -> None:
        """Nothing to close."""


@cache
def _session() -> boto3.Session:
    return boto3.Session(**CREDENTIALS)


def _type(name: str, usd_per_hour: float, market: Market) -> InstanceType:
    return InstanceType(
        name=name,
        slots=4,
        usd_per_hour=usd_per_hour + DISK_USD + ADDRESS_USD,
        disk_usd_per_hour=DISK_USD,
        address_usd_per_hour=ADDRESS_USD,
        market=market,
    )


class Ordeal:
    """The cloud, the log and the time, which outlast every process.

    Args:
        case: what happens.
        cloud: the pretended EC2.
        clock: the time.
    """

    def __init__(self, case: Case, cloud: FaultyEC2, clock: ManualClock) -> None:
        self.case, self.cloud, self.clock = case, cloud, clock
        self.disk = Disk()
        self.driver = MortalDriver()
        self.killed_at: list[str] = []
        self.faults: list[Fault] = []
        self.clients = Clients(REGION, session=_session(), endpoint=cloud.url, max_attempts=1)
        kinds = (_type(*ON_DEMAND, Market.ON_DEMAND), _type(*SPOT, Market.SPOT))
        self.place = Cloud(
            instance_types=kinds if case.spot else kinds[:1],
            max_nodes=max(NODES),
            provider="ec2",
            region=REGION,
            market=MarketPolicy.SPOT if case.spot else MarketPolicy.ON_DEMAND,
            launch_s=Latency(mean=BOOT_S),
            settings={
                "image": cloud.image(),
                "zones": list(ZONES),
                "driver_address": "127.0.0.1",
                "grace_s": case.grace_s,
                "short_grace": True,
            },
        )
        later = SPOT[0] if case.spot else ON_DEMAND[0]
        names = (ON_DEMAND[0], later, later)
        plan = AllocationPlan(
            chains=(
                tuple(
                    StageAllocation(instance_type=name, nodes=nodes, slots_per_trial=width)
                    for name, nodes, width in zip(names, NODES, (1, 4, 4), strict=True)
                ),
            )
        )
        experiment = ExperimentSpec.from_stages([(16, 12), (9, 12), (2, 12)])
        profile = ScalingProfile(
            iteration_s={1: Latency(mean=10.0), 4: Latency(mean=10.0)},
            start_s=Latency(mean=5.0),
            save_s=Latency(mean=1.0),
            sync_s=4.0,
        )
        self.request = RunRequest(
            run=RUN,
            problem=Problem(experiment=experiment, profile=profile, cloud=self.place),
            plan=plan,
            configs=tuple({"lr": float(n)} for n in range(16)),
            storage=Path("store"),
            logs=Path("logs"),
            checkpoint_every_s=60.0,
        )

    def begin(self, fatal: int | None) -> None:
        """Let a process run, or go on, until it dies or is done."""
        history = self.disk.reopen()
        self.driver = driver = MortalDriver(fatal)
        clock = DrivenClock(self.clock, driver)
        inbox = clock.inbox()
        provider = Ec2Provider(
            cloud=self.place,
            clock=clock,
            inbox=inbox,
            clients=MortalClients(self.clients, driver),
            lifeline=_Silent,  # type: ignore[arg-type]
        )
        provider.boot(lambda node, instance_type: Bootstrap(argv=("python3", "-c", "pass"), env={"TOKEN": "secret"}))
        training = FakeTraining(
            start_s=5.0,
            save_s=1.0,
            iteration_s=lambda run: 10.0,
            score=lambda trial, iterations: float(trial),
        )
        engine = Engine(
            provider=provider,
            launcher=FakeLauncher(clock, training),
            clock=clock,
            inbox=inbox,
            log=MortalLog(self.disk, driver),
            remove=lambda path: None,
        )
        try:
            if history:
                engine.resume(self.request, history)
            else:
                engine.run(self.request)
        except DriverKilled:
            pass
        except Exception:
            # A dead process that unwinds may say anything.
            if driver.alive:
                raise
        finally:
            with suppress(DriverKilled):
                provider.close()
        if not driver.alive:
            self.killed_at.append(driver.trace[-1])

    def go_on(self, fatal: int | None) -> None:
        """Another process goes on; one that is not answered before it has begun is started again by its user."""
        for attempt in range(6):
            try:
                self.begin(fatal)
            except NoAnswer:
                if attempt == 5:
                    raise
                self.wait(10.0)
            else:
                return

    @property
    def over(self) -> bool:
        """Whether the log holds the whole run."""
        last = self.disk.reopen()[-1:]
        return bool(last) and isinstance(last[0], RunEnded) and last[0].ending is RunEnding.DONE

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        for fault in self.faults:
            fault.cancel()

    def wait(self, seconds: float) -> None:
        """Nobody is there."""
        self.clock.inbox().get(self.clock.now() + seconds)
        self.cloud.tick()

    def collect(self) -> list[str]:
        """Collect what is left; what that could not do."""
        history = self.disk.reopen()
        if not history:
            return []
        t_s = history[-1].t_s + (self.clock.utc() - _utc(history[-1])).total_seconds()
        record = Journal(MortalLog(self.disk, MortalDriver()), self.clock, state=fold(history), t_s=t_s)
        told = collect_run(self.clients, self.clock, record, run=RUN)
        return [str(trouble) for trouble in told.troubles]

    def left(self) -> list[str]:
        """What of the run is in the cloud, by the cloud's own books."""
        ssm = self.clients.service("ssm").get_parameters_by_path(Path="/rubberband", Recursive=True)["Parameters"]
        return [
            *(f"{each.id} is {each.state}" for each in self.cloud.alive()),
            *(f"{volume} is left over" for volume in self.cloud.leaked_volumes()),
            *(f"{request} is open" for request in self.cloud.open_spot_requests()),
            *(f"the secret {each['Name']} is left over" for each in ssm),
        ]

    def bill(self) -> list[str]:
        """Whether the log's bill is the cloud's."""
        prices = {(ON_DEMAND[0], "on_demand"): ON_DEMAND[1], (SPOT[0], "spot"): SPOT[1]}
        theirs = self.cloud.bill(prices).total_usd
        state = fold(self.disk.reopen())
        ours = ledger(state, self.place).cost_usd
        ran = [node for node in state.nodes.values() if node.running_s is not None]
        blind = self.killed_at or self.case.condition is not Condition.PLAIN
        known_to = (BLIND_S if blind else LOOKS_S) / 3600 * sum(node.usd_per_hour for node in ran)
        if abs(ours - theirs) <= 0.01 * theirs + known_to:
            return []
        return [f"the log says {ours:.4f} dollars, the cloud {theirs:.4f}"]


def _utc(event: Event) -> datetime:
    return datetime.fromisoformat(event.utc)


@contextmanager
def ordeal(case: Case) -> Iterator[Ordeal]:
    """A cloud as the case has it."""
    clock = ManualClock()
    capacity = {
        (name, zone, market): count
        for name, market in ((ON_DEMAND[0], "on_demand"), (SPOT[0], "spot"))
        for zone, count in zip(ZONES, (3, 4, 5), strict=True)
    }
    slow = case.visible_s if case.condition is Condition.SLOW else 0.0
    with FaultyEC2(
        clock=clock, region=REGION, boot_s=BOOT_S, shutdown_s=SHUTDOWN_S, visible_s=slow, capacity=capacity
    ) as cloud:
        turn = itertools.count(case.offset)

        def third(call: Call) -> bool:
            return call.service in ("ec2", "ssm") and next(turn) % 3 == 0

        def lost(call: Call) -> bool:
            return call.action in _LOSSES and third(call)

        made = Ordeal(case, cloud, clock)
        if case.condition is Condition.LOST:
            made.faults.append(cloud.fault("*", "drop_after", when=lost, times=None))
        if case.condition is Condition.THROTTLED:
            made.faults.append(cloud.fault("*", "error", code="RequestLimitExceeded", when=third, times=None))
        try:
            yield made
        finally:
            made.clients.close()


def outcome(case: Case) -> Outcome:
    """Let it happen."""
    with ordeal(case) as made:
        problems: list[str] = []
        for number, fatal in enumerate((*case.fatal, None)):
            if number and case.after is After.COLLECT:
                break
            try:
                made.go_on(fatal)
            except RubberBandError as error:
                problems.append(f"{type(error).__name__}: {error}")
            if made.driver.alive:
                break
            made.wait(case.away_s)
            if made.over:
                break
        made.calm()
        # One that died when its run was over leaves its secret to a collection.
        if not made.driver.alive:
            problems += made.collect()
        made.wait(SHUTDOWN_S + 1.0)
        problems += made.left()
        if made.over:
            problems += made.bill()
        return Outcome(trace=tuple(made.driver.trace), killed_at=tuple(made.killed_at), problems=tuple(problems))


def kill_points(case: Case) -> tuple[str, ...]:
    """The steps of a run under the case's condition, if nothing kills it."""
    return outcome(replace(case, fatal=())).trace
