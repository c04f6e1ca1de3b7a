"""Our bill beside that of the pretended EC2, which is computed by code of its own."""

from __future__ import annotations

from dataclasses import dataclass

import boto3
import numpy as np
import pytest
from faulty_ec2 import CREDENTIALS, FaultyEC2

from rb_core import events
from rb_core.clock import ManualClock
from rb_core.hardware import Billing, Cloud, InstanceType
from rb_core.ledger import ledger
from rb_core.state import fold

TYPE, ON_DEMAND_USD = "g4dn.xlarge", 0.526
ZONES = {"us-east-1a": 0.16, "us-east-1b": 0.31}
"""Spot prices."""

GIB, DISK_USD_PER_GIB_MONTH, ADDRESS_USD = 100, 0.08, 0.005
DISK_USD = GIB * DISK_USD_PER_GIB_MONTH / 720


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """How long a node runs, where it is bought, and who ends it."""

    life_s: float
    zone: str
    market: str = "on_demand"
    reclaimed: bool = False

    @property
    def usd_per_hour(self) -> float:
        """The whole node."""
        machine = ON_DEMAND_USD if self.market == "on_demand" else ZONES[self.zone]
        return machine + DISK_USD + ADDRESS_USD


EDGES = [
    *(Life(life_s=s, zone="us-east-1a", market=m) for s in (1, 59, 60, 61) for m in ("on_demand", "spot")),
    *(Life(life_s=s, zone=z, market="spot", reclaimed=True) for s in (20, 3599, 3601) for z in ZONES),
    *(Life(life_s=s, zone="us-east-1b", market="spot") for s in (3599, 3601)),
]


def drawn(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        spot = bool(rng.integers(2))
        yield Life(
            life_s=float(rng.choice([rng.uniform(1, 120), rng.uniform(120, 3600), rng.uniform(3600, 9000)])),
            zone=str(rng.choice(list(ZONES))),
            market="spot" if spot else "on_demand",
            reclaimed=spot and bool(rng.integers(2)),
        )


def lived(cloud, clock, lives):
    """Let nodes live in the pretended EC2, and write down what a run's log would hold of them."""
    client = boto3.client("ec2", endpoint_url=cloud.url, region_name=cloud.region, **CREDENTIALS)
    told, ends = [], []
    for number, life in enumerate(lives):
        spot = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}
        made = client.run_instances(
            ImageId=cloud.image(),
            InstanceType=TYPE,
            MinCount=1,
            MaxCount=1,
            BlockDeviceMappings=[
                {
                    "DeviceName": "/dev/sda1",
                    "Ebs": {"VolumeSize": GIB, "VolumeType": "gp3", "DeleteOnTermination": True},
                }
            ],
            NetworkInterfaces=[
                {"DeviceIndex": 0, "SubnetId": cloud.subnet(life.zone), "AssociatePublicIpAddress": True}
            ],
            **({"InstanceMarketOptions": spot} if life.market == "spot" else {}),
        )
        ends.append((life.life_s, f"n{number}", life, made["Instances"][0]["InstanceId"]))
        row = {"chain": 0, "stage": 0, "instance_type": TYPE, "slots": 1, "market": life.market}
        name, at = f"n{number}", {"t_s": 0.0, "utc": ""}
        told.append(events.NodeRequested(**at, **row, node=name, usd_per_hour=ON_DEMAND_USD + DISK_USD + ADDRESS_USD))
        told.append(events.NodeRunning(**at, node=name, since_s=0.0, zone=life.zone, usd_per_hour=life.usd_per_hour))
    cloud.tick()
    began_s = clock.now()
    for life_s, name, life, instance in sorted(ends, key=lambda end: end[0]):
        clock.advance(began_s + life_s)
        if life.reclaimed:
            cloud.interrupt(instance, notice_s=0.0)
            told.append(events.NodeLost(t_s=life_s, utc="", node=name, reason="spot", until_s=life_s, reclaimed=True))
        else:
            client.terminate_instances(InstanceIds=[instance])
            told.append(events.NodeReleased(t_s=life_s, utc="", node=name, reason="over"))
    cloud.tick()
    return told


def both(lives):
    clock = ManualClock()
    kind = InstanceType(
        name=TYPE,
        slots=1,
        usd_per_hour=ON_DEMAND_USD + DISK_USD + ADDRESS_USD,
        disk_usd_per_hour=DISK_USD,
        address_usd_per_hour=ADDRESS_USD,
    )
    with FaultyEC2(clock=clock, zones=list(ZONES)) as cloud:
        told = lived(cloud, clock, lives)
        prices = {(TYPE, "on_demand"): ON_DEMAND_USD, **{(TYPE, zone, "spot"): usd for zone, usd in ZONES.items()}}
        theirs = cloud.bill(prices)
    ours = ledger(fold(told), Cloud(instance_types=(kind,), provider="ec2", billing=Billing()))
    return ours, theirs


@pytest.mark.parametrize("lives", [EDGES, list(drawn(0, 16))], ids=["edges", "drawn"])
def test_our_bill_is_theirs(lives):
    ours, theirs = both(lives)
    assert ours.cost_usd == pytest.approx(theirs.total_usd, rel=0.01)
    assert sum(ours.items.table().values()) == pytest.approx(ours.cost_usd, rel=1e-12)
    machines_usd = ours.items.on_demand_usd + ours.items.spot_usd
    assert machines_usd <= theirs.of("instance") + 1e-9
    assert ours.items.disk_usd <= theirs.of("disk") + 1e-9
    assert ours.items.address_usd <= theirs.of("address") + 1e-9


@pytest.mark.parametrize("life", EDGES, ids=lambda life: f"{life.life_s:g}-{life.market}-{life.zone}-{life.reclaimed}")
@pytest.mark.long
def test_each_node_alone_costs_what_they_say(life):
    ours, theirs = both([life])
    assert ours.cost_usd == pytest.approx(theirs.total_usd, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 6))
def test_our_bill_is_theirs_over_many_lives(seed):
    ours, theirs = both(list(drawn(seed, 48)))
    assert ours.cost_usd == pytest.approx(theirs.total_usd, rel=0.01)
