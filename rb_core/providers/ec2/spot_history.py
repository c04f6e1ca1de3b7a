"""What spot instances cost, by zone and time, as EC2 tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rb_core.providers.ec2.paging import rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPrice:
    """What a type costs on spot in one zone, from a time on.

    Attributes:
        instance_type: its name.
        zone: where.
        usd_per_hour: its price, without disk and address.
        since: when it came into force.
    """

    instance_type: str
    zone: str
    usd_per_hour: float
    since: datetime


def spot_history(ec2: Any, names: Sequence[str], since: datetime) -> tuple[SpotPrice, ...]:
    """The prices of types on spot since a time: of each zone the one in force then, and those that came after it.

    Args:
        ec2: a client that repeats its calls.
        names: types; empty for all.
        since: from when on.

    Raises:
        NoAnswer: EC2 did not answer.
        CallRefused: it may not be asked.
    """
    asked: dict[str, Any] = {"StartTime": since, "ProductDescriptions": ["Linux/UNIX"]}
    if names:
        asked["InstanceTypes"] = list(names)
    told = rows(ec2, "ec2:DescribeSpotPriceHistory", "describe_spot_price_history", "SpotPriceHistory", **asked)
    prices = (
        SpotPrice(
            instance_type=row["InstanceType"],
            zone=row["AvailabilityZone"],
            usd_per_hour=_usd(row["SpotPrice"]),
            since=row["Timestamp"],
        )
        for row in told
    )
    return tuple(price for price in prices if price.usd_per_hour > 0)


def newest(prices: Iterable[SpotPrice]) -> dict[tuple[str, str], SpotPrice]:
    """The last price of each type and zone."""
    last: dict[tuple[str, str], SpotPrice] = {}
    for price in sorted(prices, key=lambda each: each.since):
        last[price.instance_type, price.zone] = price
    return last


def in_force(prices: Iterable[SpotPrice], zone: str, when: datetime) -> SpotPrice | None:
    """The price of a zone at a time, among those of one type: before the first that is known, that one."""
    there = sorted((price for price in prices if price.zone == zone), key=lambda each: each.since)
    before = [price for price in there if price.since <= when]
    return before[-1] if before else next(iter(there), None)


def _usd(text: str) -> float:
    """A price; 0 where there is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0
