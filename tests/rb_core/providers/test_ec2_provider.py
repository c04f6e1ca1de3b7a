"""The contract of every provider, kept on EC2 as the shim has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from ec2_world import CPU, REGION, cloud_of, session
from faulty_ec2 import FaultyEC2

from rb_core.clock import ManualClock
from rb_core.ports import Clock, Inbox, Machines, Provider, Recording, Zoned
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.provider import Ec2Provider
from rb_core.testing import ProviderContract


@dataclass(frozen=True)
class Shared:
    clock: ManualClock
    cloud: FaultyEC2
    clients: Clients


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    clock = ManualClock()
    with FaultyEC2(clock=clock, region=REGION, boot_s=20.0) as cloud:
        yield Shared(clock, cloud, Clients(REGION, session=session(), endpoint=cloud.url))
        assert {each.state for each in cloud.instances()} == {"terminated"}
        assert not cloud.leaked_volumes()


class TestEc2Provider(ProviderContract):
    instance_type = CPU

    @pytest.fixture(autouse=True)
    def _use(self, shared: Shared) -> None:
        self.shared = shared

    def clock(self) -> Clock:
        return self.shared.clock

    def make(self, clock: Clock, inbox: Inbox) -> Provider:
        cloud = cloud_of({"image": self.shared.cloud.image()})
        return Ec2Provider(cloud=cloud, clock=clock, inbox=inbox, clients=self.shared.clients)

    def test_it_offers_what_engines_and_launchers_look_for(self) -> None:
        provider, _ = self._made()
        assert isinstance(provider, Provider)
        assert isinstance(provider, Machines)
        assert isinstance(provider, Recording)
        assert isinstance(provider, Zoned)
