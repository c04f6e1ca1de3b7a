"""What AWS would bill: an oracle of its own, which shares no code with the bill that is tested."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from faulty_ec2.instances import Record
from faulty_ec2.volumes import VolumeSpan

MONTH_S = 30 * 86400
"""AWS bills disks by a month of 30 days."""

LEAST_S = 60
"""Least time that is billed of anything that is billed by the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One line.

    Attributes:
        what: `instance`, `disk` or `address`.
        id: of the instance or volume.
        seconds: billed.
        usd: amount.
        free: why nothing is asked for it; empty otherwise.
    """

    what: str
    id: str
    seconds: int
    usd: float
    free: str = ""


@dataclass(frozen=True, slots=True)
class Bill:
    """All lines."""

    charges: tuple[Charge, ...]

    @property
    def total_usd(self) -> float:
        """Their sum."""
        return math.fsum(charge.usd for charge in self.charges)

    def of(self, what: str) -> float:
        """The sum of the lines for `instance`, `disk` or `address`."""
        return math.fsum(charge.usd for charge in self.charges if charge.what == what)


def make_bill(
    records: Mapping[str, Record],
    volumes: Mapping[str, VolumeSpan],
    now_s: float,
    prices: Mapping[tuple[str, ...], float],
    disk_usd_per_gib_month: float,
    address_usd_per_hour: float,
) -> Bill:
    """Price everything that was ever there, up to now.

    Running time is billed by the second and for 60 s at least at each start; nothing is billed of a spot instance that
    AWS took back within an hour of its start, but for its disk and address. A disk is billed while it exists.

    Args:
        records: of instances.
        volumes: lives of volumes.
        now_s: the time up to which what still runs is billed.
        prices: dollars per hour by (type, market), or by (type, zone, market), which comes first.
        disk_usd_per_gib_month: of 30 days.
        address_usd_per_hour: of a public IPv4 address.

    Raises:
        KeyError: an instance ran whose price is not given.
    """
    charges = []
    for record in records.values():
        for begin_s, end_s in record.runs:
            seconds = _billed((now_s if end_s is None else end_s) - begin_s)
            price = prices[record.pool] if record.pool in prices else prices[record.type, record.market]
            free = ""
            if record.market == "spot" and record.reason == "Server.SpotInstanceTermination" and end_s is not None:
                free = "taken back within its first hour" if end_s - begin_s < 3600 else ""
            usd = 0.0 if free else seconds * price / 3600
            charges.append(Charge(what="instance", id=record.id, seconds=seconds, usd=usd, free=free))
            if record.public:
                usd = seconds * address_usd_per_hour / 3600
                charges.append(Charge(what="address", id=record.id, seconds=seconds, usd=usd))
    for span in volumes.values():
        seconds = _billed((now_s if span.end_s is None else span.end_s) - span.begin_s)
        usd = span.size_gib * disk_usd_per_gib_month * seconds / MONTH_S
        charges.append(Charge(what="disk", id=span.id, seconds=seconds, usd=usd))
    return Bill(tuple(charges))


def _billed(seconds: float) -> int:
    return max(LEAST_S, math.ceil(seconds - 1e-6))
