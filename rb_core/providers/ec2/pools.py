"""Where a type can be had: the zones that a run may use, in order, and which of them had nothing lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.hardware import InstanceType
from rb_core.providers.ec2.paging import rows
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind
from rb_core.providers.ec2.settings import KEY, Ec2Settings

REMEMBERED_S = 180.0
"""A pool without capacity is not asked again for so long; Karpenter's `UnavailableOfferingsTTL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A subnet, and the zone that it is in."""

    zone: str
    subnet: str
    vpc: str


def places(ec2: Any, settings: Ec2Settings) -> tuple[Place, ...]:
    """Where nodes may stand, in the order in which it is tried; all in one VPC.

    Args:
        ec2: a client that repeats its calls.
        settings: subnets and zones.

    Raises:
        InvalidInput: there is none, one is not there, or they are in several VPCs.
        NoAnswer: EC2 did not answer.
    """
    asked: dict[str, Any] = (
        {"SubnetIds": list(settings.subnets)}
        if settings.subnets
        else {"Filters": [{"Name": "default-for-az", "Values": ["true"]}]}
    )
    try:
        told = rows(ec2, "ec2:DescribeSubnets", "describe_subnets", "Subnets", **asked)
    except CallRefused as refused:
        if refused.kind is RefusalKind.INPUT:
            raise InvalidInput(f"{KEY}.subnets", f"must name subnets of this region: {refused.said}") from refused
        raise refused.as_input() from refused
    found = [Place(zone=row["AvailabilityZone"], subnet=row["SubnetId"], vpc=row["VpcId"]) for row in told]
    if not found:
        raise InvalidInput(f"{KEY}.subnets", "is missing, and the region has no default VPC; name subnets to use")
    vpcs = sorted({place.vpc for place in found})
    if len(vpcs) > 1:
        raise InvalidInput(f"{KEY}.subnets", f"must be subnets of one VPC, got some of {', '.join(vpcs)}")
    return _ordered(found, settings)


def _ordered(found: Sequence[Place], settings: Ec2Settings) -> tuple[Place, ...]:
    zones = sorted({place.zone for place in found})
    for number, zone in enumerate(settings.zones):
        if zone not in zones:
            raise InvalidInput(
                f"{KEY}.zones[{number}]", f"must be a zone of the subnets ({', '.join(zones)}), got {zone!r}"
            )
    by_subnet = {subnet: number for number, subnet in enumerate(settings.subnets)}
    wanted = settings.zones or tuple(dict.fromkeys(place.zone for place in sorted(found, key=lambda p: p.zone)))

    def rank(place: Place) -> tuple[int, int, str]:
        zone = wanted.index(place.zone) if settings.zones or not settings.subnets else 0
        return (zone, by_subnet.get(place.subnet, 0), place.subnet)

    return tuple(sorted((place for place in found if place.zone in wanted), key=rank))


class Scarcity:
    """Remembers for a while which pools had nothing to give, so that nobody asks them again at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[float, str]] = {}

    def note(self, instance_type: InstanceType, place: Place, until_s: float, said: str) -> None:
        """Remember until a time of the clock; `said` is EC2's word for it."""
        self._known[_pool(instance_type, place)] = (until_s, said)

    def forget(self, instance_type: InstanceType, place: Place) -> None:
        """It has given some."""
        self._known.pop(_pool(instance_type, place), None)

    def known(self, instance_type: InstanceType, place: Place, now_s: float) -> str:
        """What EC2 said of the pool when it had nothing; empty when that is too long ago."""
        until_s, said = self._known.get(_pool(instance_type, place), (0.0, ""))
        return said if now_s < until_s else ""


def _pool(instance_type: InstanceType, place: Place) -> tuple[str, str, str]:
    return (instance_type.name, instance_type.market.value, place.subnet)
