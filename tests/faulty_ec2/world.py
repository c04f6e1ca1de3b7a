"""The state of the pretended cloud: its settings, what it holds, and what happened that others are to be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from faulty_ec2 import moto_side
from faulty_ec2.instances import Instance, Record
from faulty_ec2.tokens import Tokens
from faulty_ec2.volumes import Volumes


class Timepiece(Protocol):
    """What the shim asks of a clock."""

    def now(self) -> float:
        """Seconds, from any origin."""
        ...

    def utc(self) -> datetime:
        """The wall clock."""
        ...


class World:
    """Settings and state. Settings are read at each call, so that a test can change them as it goes.

    Attributes:
        clock: the time of everything here.
        region: where unsigned calls and the oracles without a region are.
        regions: those that DescribeRegions tells of.
        zones: zones that there are; a region of which none is named has all of its own.
        boot_s: from launch to `running`.
        visible_s: from launch to being seen: until then describe or terminate by id is NotFound, lists are without it.
        shutdown_s: how long an instance is `shutting-down`.
        vanish_s: how long the record of a terminated instance stays.
        capacity: instances that are left, by (type, zone, market); without an entry, no end of them.
        quota: vCPUs by (family, market), family `standard`, `g`, `p` or the letters of the type; per region.
        unsupported: (type, zone) pairs that are not offered.
        stuck: ids of instances that never get running.
        stuck_next: so many of the instances that are launched next never get running.
        doomed_next: state reasons with which those that are launched next end instead of getting running.
        spot_usd_per_hour: spot prices by (type, zone), for DescribeSpotPriceHistory.
    """

    def __init__(
        self,
        *,
        clock: Timepiece,
        region: str = "us-east-1",
        regions: Sequence[str] = (),
        zones: Sequence[str] = (),
        boot_s: float = 0.0,
        visible_s: float = 0.0,
        shutdown_s: float = 0.0,
        vanish_s: float = 3600.0,
        capacity: Mapping[tuple[str, str, str], int] | None = None,
        quota: Mapping[tuple[str, str], int] | None = None,
        unsupported: Sequence[tuple[str, str]] = (),
        spot_usd_per_hour: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        self.clock = clock
        self.region = region
        self.regions = tuple(dict.fromkeys([region, *regions]))
        self.zones = tuple(zones)
        self.boot_s = boot_s
        self.visible_s = visible_s
        self.shutdown_s = shutdown_s
        self.vanish_s = vanish_s
        self.capacity = dict(capacity or {})
        self.quota = dict(quota or {})
        self.unsupported = set(unsupported)
        self.spot_usd_per_hour = dict(spot_usd_per_hour or {})
        self.stuck: set[str] = set()
        self.stuck_next = 0
        self.doomed_next: list[str] = []
        self.records: dict[str, Record] = {}
        self.hidden: dict[str, tuple[str, Any]] = {}
        self.tokens = Tokens()
        self.volumes = Volumes()
        self.happened: list[tuple[str, Instance]] = []
        self._backends: dict[str, Any] = {}

    def now(self) -> float:
        """The clock's seconds."""
        return self.clock.now()

    def stamp(self) -> datetime:
        """The wall clock as moto keeps it: UTC without saying so."""
        return self.clock.utc().astimezone(UTC).replace(tzinfo=None)

    def backend(self, region: str) -> Any:
        """moto's EC2 of a region, prepared."""
        if region not in self._backends:
            made = moto_side.backend(region)
            made.regions = [known for known in made.regions if known.name in self.regions]
            own = made.zones.get(region, [])
            kept = [zone for zone in own if zone.name in self.zones]
            made.zones = {**made.zones, region: kept or own}
            self._backends[region] = made
            self.volumes.see(region, made, self.now())
        return self._backends[region]

    def zone_names(self, region: str) -> list[str]:
        """The zones of a region."""
        return [zone.name for zone in self.backend(region).zones[region]]

    def shown(self, region: str, instance: str) -> Record | None:
        """The record of an instance that the region's listings show."""
        record = self.records.get(instance)
        return record if record is not None and record.shown and record.region == region else None

    def tell(self, what: str, record: Record) -> None:
        """Note that an instance began or ended, for the callbacks."""
        self.happened.append((what, record.view()))


Told = Callable[[Instance], None]
"""A callback that is told of an instance."""
