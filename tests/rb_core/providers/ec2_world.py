"""An EC2 provider on a manual clock against the shim, with a real log: for the tests beside this file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
from faulty_ec2 import CREDENTIALS, FaultyEC2

from rb_core.clock import ManualClock
from rb_core.errors import UnusableLog
from rb_core.events import Event, RunStarted
from rb_core.hardware import Cloud, InstanceType, Latency, Market
from rb_core.journal import Journal
from rb_core.ports import Inbox, NodeNotice
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.provider import Ec2Provider

RUN = "sha-1"
REGION = "us-east-1"
CPU = InstanceType(name="t3.micro", slots=2, usd_per_hour=0.0104)
GPU = InstanceType(name="g4dn.12xlarge", slots=4, usd_per_hour=3.912)
SPOT = InstanceType(name="g4dn.xlarge", slots=1, usd_per_hour=0.16, market=Market.SPOT)


@dataclass(slots=True)
class MemoryLog:
    """Events in a list, until it is full."""

    events: list[Event] = field(default_factory=list)
    full: bool = False

    def append(self, *events: Event) -> None:
        if self.full:
            raise UnusableLog("no space left")
        self.events.extend(events)


@dataclass(slots=True)
class World:
    """One run's driver, and the cloud that it rents from."""

    cloud: FaultyEC2
    clock: ManualClock
    clients: Clients
    settings: dict[str, Any]
    log: MemoryLog
    inbox: Inbox
    provider: Ec2Provider

    @property
    def journal(self) -> Journal:
        journal = self.provider._record
        assert isinstance(journal, Journal)
        return journal

    def wait(self, seconds: float) -> list[NodeNotice]:
        """Let time pass; what was said meanwhile."""
        until_s, said = self.clock.now() + seconds, []
        while (notice := self.inbox.get(until_s)) is not None:
            assert isinstance(notice, NodeNotice)
            said.append(notice)
        return said

    def resume(self, **settings: Any) -> None:
        """Another process goes on: all that it knows is the log."""
        journal = self.fresh()
        self.provider._lookout.stop()
        self.inbox = self.clock.inbox()
        self.settings |= settings
        earlier, self.provider = self.provider, _provider(self)
        try:
            self.provider.record(journal)
        except BaseException:
            self.provider = earlier
            raise

    def fresh(self) -> Journal:
        """The log, opened again."""
        return Journal(self.log, self.clock, state=self.journal.state, t_s=self.journal.t_s)

    def kinds(self, seconds: float) -> list[str]:
        """Let time pass; who said what."""
        return [f"{notice.node} {notice.kind}" for notice in self.wait(seconds)]

    def states(self) -> list[str]:
        return sorted(each.state for each in self.cloud.instances())

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.log.events if type(event).__name__ == kind]


def cloud_of(settings: Mapping[str, Any], region: str = REGION) -> Cloud:
    return Cloud(
        instance_types=(CPU, GPU, SPOT), provider="ec2", region=region, settings=settings, launch_s=Latency(mean=40.0)
    )


def _provider(world: World) -> Ec2Provider:
    return Ec2Provider(cloud=cloud_of(world.settings), clock=world.clock, inbox=world.inbox, clients=world.clients)


@cache
def session() -> boto3.Session:
    """One for all tests: reading the models of AWS's services takes most of the time."""
    return boto3.Session(**CREDENTIALS)


@contextmanager
def world(clock: ManualClock | None = None, *, own: Iterable[tuple[str, Any]] = (), **shim: Any) -> Iterator[World]:
    """A cloud as the shim is told, and a run that has begun; `own` are more of the provider's settings."""
    clock = clock or ManualClock()
    with FaultyEC2(clock=clock, region=REGION, **shim) as cloud:
        # The clients of one test reach the cloud of the next under another address.
        clients = Clients(REGION, session=session(), endpoint=cloud.url, max_attempts=1)
        settings = {"image": cloud.image(), "zones": [f"{REGION}a", f"{REGION}b", f"{REGION}c"], **dict(own)}
        made = World(cloud, clock, clients, settings, MemoryLog(), clock.inbox(), None)  # type: ignore[arg-type]
        made.provider = _provider(made)
        journal = Journal(made.log, clock)
        journal.write(
            RunStarted,
            run=RUN,
            problem={},
            plan={"stages": []},
            metric="",
            mode="max",
            seed=0,
            target="",
            environment={},
        )
        made.provider.record(journal)
        try:
            yield made
        finally:
            made.provider.close()
