"""What can be rented: latencies, instance types, the billing rule, the cloud, and dated prices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from rb_core.check import non_empty, non_negative, positive, positive_int
from rb_core.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A duration with its spread, in seconds; `std` 0 is a constant."""

    mean: float
    std: float = 0.0

    def __post_init__(self) -> None:
        non_negative("mean", self.mean)
        non_negative("std", self.std)


class BillingMode(StrEnum):
    """What is paid for."""

    PER_INSTANCE = "per_instance"
    """Whole nodes, from running to release."""
    PER_FUNCTION = "per_function"
    """Only the time in which trials train, by the slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """The billing rule. `granularity_s` and `minimum_s` apply to PER_INSTANCE alone.

    Defaults: EC2 bills Linux on demand by the second with a minimum of 60 s on every start.
    """

    mode: BillingMode = BillingMode.PER_INSTANCE
    granularity_s: float = 1.0
    minimum_s: float = 60.0

    def __post_init__(self) -> None:
        positive("granularity_s", self.granularity_s)
        non_negative("minimum_s", self.minimum_s)


MAX_SLOTS = 4096
"""The largest number of slots of one node; the planners' work grows with it."""


class Market(StrEnum):
    """How an instance is bought."""

    ON_DEMAND = "on_demand"
    """At list price, kept until given back."""
    SPOT = "spot"
    """At a varying price, and the provider may take it back."""


class MarketPolicy(StrEnum):
    """In which market the nodes of a run are bought."""

    ON_DEMAND = "on_demand"
    """On demand, always."""
    SPOT = "spot"
    """On spot, always, whatever becomes of the deadline."""
    SPOT_THEN_ON_DEMAND = "spot_then_on_demand"
    """On spot while the deadline allows for its losses, on demand where it does not or spot has no capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One shape of node.

    Attributes:
        name: the provider's name of it.
        slots: training processes that it holds.
        usd_per_hour: price of the whole node in this market, disk and address included.
        speed: how fast its slots are, relative to the type that was profiled.
        market: how it is bought.
        disk_usd_per_hour: the part of the price that is for its disk.
        address_usd_per_hour: the part of the price that is for its public address.
        interruptions_per_hour: how often the provider takes such a node back, per node and hour; a Poisson rate.
        on_demand_usd_per_hour: what the whole node costs on demand, where it is bought on spot and may be bought on
            demand instead; None where it may not.
    """

    name: str
    slots: int
    usd_per_hour: float
    speed: float = 1.0
    market: Market = Market.ON_DEMAND
    disk_usd_per_hour: float = 0.0
    address_usd_per_hour: float = 0.0
    interruptions_per_hour: float = 0.0
    on_demand_usd_per_hour: float | None = None

    def __post_init__(self) -> None:
        non_empty("name", self.name)
        positive_int("slots", self.slots)
        if self.slots > MAX_SLOTS:
            raise InvalidInput("slots", f"must be at most {MAX_SLOTS}, got {self.slots}")
        non_negative("usd_per_hour", self.usd_per_hour)
        positive("speed", self.speed)
        non_negative("interruptions_per_hour", self.interruptions_per_hour)
        if self.on_demand_usd_per_hour is not None:
            non_negative("on_demand_usd_per_hour", self.on_demand_usd_per_hour)
        beside = non_negative("disk_usd_per_hour", self.disk_usd_per_hour)
        beside += non_negative("address_usd_per_hour", self.address_usd_per_hour)
        if beside > self.usd_per_hour:
            raise InvalidInput(
                "usd_per_hour",
                f"must be at least the {beside:g} of the disk and the address that it includes, "
                f"got {self.usd_per_hour:g}",
            )

    @property
    def usd_per_s(self) -> float:
        """Price of the whole node per second."""
        return self.usd_per_hour / 3600.0

    def on_demand(self) -> InstanceType:
        """The same type bought on demand.

        Raises:
            InvalidInput: its price on demand is not known.
        """
        if self.market is Market.ON_DEMAND:
            return self
        if self.on_demand_usd_per_hour is None:
            raise InvalidInput("on_demand_usd_per_hour", f"of {self.name!r} is not known; give it")
        return replace(
            self,
            market=Market.ON_DEMAND,
            usd_per_hour=self.on_demand_usd_per_hour,
            interruptions_per_hour=0.0,
            on_demand_usd_per_hour=None,
        )


def _zero() -> Latency:
    return Latency(mean=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceDate:
    """Where prices came from, kept with what was planned and run by them.

    Attributes:
        book: name of the price book.
        dated: ISO date at which they were true.
    """

    book: str
    dated: str

    def __post_init__(self) -> None:
        non_empty("book", self.book)
        _iso_date("dated", self.dated)


def _iso_date(key: str, value: str) -> None:
    parts = value.split("-")
    shape = [len(part) for part in parts if part.isdecimal()]
    if shape != [4, 2, 2] or not (int(parts[0]) >= 1 and 1 <= int(parts[1]) <= 12 and 1 <= int(parts[2]) <= 31):
        raise InvalidInput(key, f"must be a date such as 2026-07-20, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Everything about the place where nodes come from.

    Attributes:
        instance_types: the types that may be used; their names differ.
        max_nodes: most nodes held at one time, by all chains together.
        launch_s: from the accepted request to running; not billed.
        init_s: from running to usable; billed.
        billing: the billing rule.
        dataset_gib: what each node downloads once.
        transfer_usd_per_gib: price of that download.
        provider: name of the provider that rents the nodes.
        region: where its nodes are; empty where the provider has no regions.
        market: in which market nodes are bought; types that are bought on spot say so themselves.
        prices: where the prices of its types came from; None where whoever wrote them down gave none.
        settings: what the provider is told besides, in plain values; the provider knows what they may be.
    """

    instance_types: tuple[InstanceType, ...]
    max_nodes: int = 64
    launch_s: Latency = field(default_factory=_zero)
    init_s: Latency = field(default_factory=_zero)
    billing: Billing = field(default_factory=Billing)
    dataset_gib: float = 0.0
    transfer_usd_per_gib: float = 0.0
    provider: str = "local"
    region: str = ""
    market: MarketPolicy = MarketPolicy.ON_DEMAND
    prices: PriceDate | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.instance_types:
            raise InvalidInput("instance_types", "must name at least one instance type")
        seen: set[str] = set()
        for number, instance_type in enumerate(self.instance_types):
            if instance_type.name in seen:
                raise InvalidInput(
                    f"instance_types[{number}].name", f"must be unique, got {instance_type.name!r} twice"
                )
            seen.add(instance_type.name)
        positive_int("max_nodes", self.max_nodes)
        non_negative("dataset_gib", self.dataset_gib)
        non_negative("transfer_usd_per_gib", self.transfer_usd_per_gib)
        non_empty("provider", self.provider)

    @property
    def noisy(self) -> bool:
        """Whether its latencies vary."""
        return self.launch_s.std > 0 or self.init_s.std > 0

    @property
    def interruptible(self) -> bool:
        """Whether nodes of any of its types may be taken back."""
        return any(instance_type.interruptions_per_hour > 0 for instance_type in self.instance_types)

    @property
    def data_usd(self) -> float:
        """What one node's download of the data set costs."""
        return self.dataset_gib * self.transfer_usd_per_gib

    def instance_type(self, name: str) -> InstanceType:
        """The type of that name.

        Raises:
            InvalidInput: no such type.
        """
        for instance_type in self.instance_types:
            if instance_type.name == name:
                return instance_type
        known = ", ".join(t.name for t in self.instance_types)
        raise InvalidInput("instance_type", f"must be one of the cloud's types ({known}), got {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """An instance type in one market and region, at one price.

    Attributes:
        instance_type: the shape, its price included: that of the machine alone, without disk and address.
        region: where.
        accelerator: name of its GPU, empty for CPU types.
        memory_gib: main memory.
        zone: the zone of the region that the price is for; empty where it is that of all, or of the dearest.
    """

    instance_type: InstanceType
    region: str
    accelerator: str = ""
    memory_gib: float = 0.0
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """Prices of one date, from a snapshot or as they are now; it refuses what it does not know rather than guess.

    Attributes:
        name: the catalogue's name, such as ``ec2``.
        dated: ISO date at which the prices were true; empty where they have none.
        source: who published them.
        offerings: all rows.
        launch_s: launch latency that a cloud of this book has unless told otherwise.
        init_s: its init latency.
        billing: its billing rule.
        provider: who rents what it lists; empty for the provider of the book's own name.
        disk_usd_per_gib_hour: what a node's disk costs.
        address_usd_per_hour: what a node's public address costs.
        lacks: what could not be learned, why, and what to do about it; told where it is asked for.
    """

    name: str
    dated: str
    source: str
    offerings: tuple[Offering, ...]
    launch_s: Latency = field(default_factory=_zero)
    init_s: Latency = field(default_factory=_zero)
    billing: Billing = field(default_factory=Billing)
    provider: str = ""
    disk_usd_per_gib_hour: float = 0.0
    address_usd_per_hour: float = 0.0
    lacks: str = ""

    def __post_init__(self) -> None:
        if self.dated:
            _iso_date("dated", self.dated)
        non_negative("disk_usd_per_gib_hour", self.disk_usd_per_gib_hour)
        non_negative("address_usd_per_hour", self.address_usd_per_hour)

    def __str__(self) -> str:
        """Its name and its date."""
        return f"{self.name} price book" + (f" of {self.dated}" if self.dated else "")

    @property
    def prices(self) -> PriceDate | None:
        """Its name and date; None where it has none."""
        return PriceDate(book=self.name, dated=self.dated) if self.dated else None

    def offering(
        self, name: str, *, region: str, market: Market = Market.ON_DEMAND, zones: Collection[str] = ()
    ) -> Offering:
        """The offering of a type in a region and market: of the dearest zone, for which of them has room is not known.

        Args:
            name: of the type.
            region: where.
            market: how it is bought.
            zones: the zones of the region that may be used; empty for all.

        Raises:
            InvalidInput: the book holds no such row; the message says which part is unknown.
        """
        of_type = [o for o in self.offerings if o.instance_type.name == name]
        if not of_type:
            raise InvalidInput(
                "instance_types",
                f"{name!r} is not in the {self}; "
                "`rb-tune catalog` lists what is, or give the type's slots and usd_per_hour yourself",
            )
        there = [o for o in of_type if o.region == region and o.instance_type.market is market]
        if not there:
            known = ", ".join(sorted({f"{o.region}/{o.instance_type.market}" for o in of_type}))
            raise InvalidInput(
                "instance_types",
                f"{name!r} has no {market} price in {region!r} in the {self}; it has one in {known}"
                + (f" ({self.lacks})" if self.lacks else ""),
            )
        usable = [o for o in there if not zones or o.zone in ("", *zones)]
        if not usable:
            raise InvalidInput(
                "instance_types",
                f"{name!r} has no {market} price in {' or '.join(sorted(zones))} in the {self}; it has one in "
                + ", ".join(sorted(o.zone for o in there)),
            )
        return max(usable, key=lambda o: o.instance_type.usd_per_hour)

    def by_name(self) -> Mapping[str, tuple[Offering, ...]]:
        """All offerings, grouped by the name of their type, in name order."""
        grouped: dict[str, list[Offering]] = {}
        for offering in sorted(self.offerings, key=lambda o: o.instance_type.name):
            grouped.setdefault(offering.instance_type.name, []).append(offering)
        return {name: tuple(rows) for name, rows in grouped.items()}
