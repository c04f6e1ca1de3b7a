"""How many instances a pool still gives, and how many vCPUs an account may still have."""

from __future__ import annotations

import re

from faulty_ec2 import moto_side
from faulty_ec2.wire import Refusal
from faulty_ec2.world import World

_STANDARD = frozenset("acdhimrtz")
_HELD = {"on_demand": ("pending", "running"), "spot": ("pending", "running", "shutting-down")}


def family(instance_type: str) -> str:
    """The family that a type's quota is kept under."""
    letters = re.match(r"[a-z]+", instance_type)
    name = letters.group() if letters else instance_type
    if name in ("g", "gr", "vt"):
        return "g"
    return "standard" if name in _STANDARD else name


def check_quota(world: World, region: str, instance_type: str, market: str, count: int) -> None:
    """Refuse what would exceed the account's vCPUs; spot instances count until they are terminated.

    Raises:
        Refusal: VcpuLimitExceeded or MaxSpotInstanceCountExceeded.
    """
    limit = world.quota.get((family(instance_type), market))
    if limit is None:
        return
    used = sum(
        record.vcpus
        for record in world.records.values()
        if record.region == region
        and record.market == market
        and family(record.type) == family(instance_type)
        and record.state in _HELD[market]
    )
    if used + count * moto_side.vcpus(instance_type) <= limit:
        return
    if market == "spot":
        raise Refusal("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    raise Refusal(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance "
        "bucket that the specified instance type belongs to.",
    )


def choose_zone(world: World, region: str, instance_type: str, market: str, least: int) -> str:
    """The zone that EC2 takes where none is asked for: the first with capacity, else the first."""
    zones = [zone for zone in world.zone_names(region) if (instance_type, zone) not in world.unsupported]
    able = [zone for zone in zones if world.capacity.get((instance_type, zone, market), least) >= least]
    return (able or zones or world.zone_names(region))[0]


def take(world: World, pool: tuple[str, str, str], least: int, most: int) -> int:
    """Take up to `most` instances out of a pool.

    Raises:
        Refusal: it has fewer than `least` left, or is not offered at all.
    """
    instance_type, zone, _ = pool
    if (instance_type, zone) in world.unsupported:
        raise Refusal(
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
            f"({zone}).",
        )
    left = world.capacity.get(pool)
    if left is None:
        return most
    if left < least:
        raise Refusal(
            "InsufficientInstanceCapacity",
            f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
            f"({zone}). Our system will be working on provisioning additional capacity.",
        )
    taken = min(left, most)
    world.capacity[pool] = left - taken
    return taken


def give(world: World, pool: tuple[str, str, str], count: int = 1) -> None:
    """Give instances back to a pool."""
    if pool in world.capacity:
        world.capacity[pool] += count
