"""The key `cloud`: instance types with prices, a reference to a catalogue of them, or a file with either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator

from rb_core.check import non_negative, positive_int
from rb_core.errors import InvalidInput
from rb_core.hardware import (
    Billing,
    BillingMode,
    Cloud,
    InstanceType,
    Latency,
    Market,
    MarketPolicy,
    PriceBook,
    PriceDate,
)
from rb_plugins.config.durations import Seconds
from rb_plugins.config.furnishing import Furnishing
from rb_plugins.config.latency import LatencyTable, latency_table
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import naming, read_table

INTERRUPTIONS_PER_HOUR = 0.1
"""How often a node on spot is taken back, per hour, unless the file says it: a judgement, since EC2 publishes nothing
but the share of a type's nodes that were taken back within a month, in five classes, and no rate by the hour."""


class PriceBooks(Protocol):
    """Where catalogues come from."""

    def __call__(self, name: str, /, *, region: str, instance_types: Sequence[str]) -> PriceBook:
        """The price book of a catalogue.

        Args:
            name: of the catalogue.
            region: whose prices are wanted.
            instance_types: which types are.

        Raises:
            InvalidInput: under `catalog`, there is none of that name; or it cannot be read.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingTable:
    """A `Billing` whose durations may be in words; None is the default of the cloud."""

    mode: BillingMode | None = None
    granularity_s: Seconds | None = None
    minimum_s: Seconds | None = None

    def __post_init__(self) -> None:
        self.over(Billing())

    def over(self, default: Billing) -> Billing:
        """The rule, with what is not given taken from `default`."""
        return Billing(
            mode=default.mode if self.mode is None else self.mode,
            granularity_s=default.granularity_s if self.granularity_s is None else self.granularity_s,
            minimum_s=default.minimum_s if self.minimum_s is None else self.minimum_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnyCloudTable:
    """What both kinds of cloud may say."""

    max_nodes: int = 64
    launch_s: LatencyTable | None = None
    init_s: LatencyTable | None = None
    billing: BillingTable = field(default_factory=BillingTable)
    dataset_gib: float = 0.0
    transfer_usd_per_gib: float = 0.0
    provider: str | None = None
    region: str = ""
    interruptions_per_hour: float = INTERRUPTIONS_PER_HOUR
    settings: Mapping[str, Any] = field(default_factory=dict)

    def cloud(
        self, types: tuple[InstanceType, ...], book: PriceBook, *, market: MarketPolicy, prices: PriceDate | None
    ) -> Cloud:
        """The cloud of these types, with what is not given taken from the book."""
        non_negative("interruptions_per_hour", self.interruptions_per_hour)
        return Cloud(
            instance_types=types,
            max_nodes=self.max_nodes,
            launch_s=book.launch_s if self.launch_s is None else self.launch_s,
            init_s=book.init_s if self.init_s is None else self.init_s,
            billing=self.billing.over(book.billing),
            dataset_gib=self.dataset_gib,
            transfer_usd_per_gib=self.transfer_usd_per_gib,
            provider=(book.provider or book.name) if self.provider is None else self.provider,
            region=self.region,
            market=market,
            prices=prices,
            settings=self.settings,
        )


_NO_BOOK = PriceBook(name="local", dated="", source="", offerings=(), launch_s=Latency(mean=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTable:
    """An `InstanceType` that a file prices; None is what the cloud says of all."""

    name: str
    slots: int
    usd_per_hour: float
    speed: float = 1.0
    market: Market | None = None
    disk_usd_per_hour: float = 0.0
    address_usd_per_hour: float = 0.0
    interruptions_per_hour: float | None = None
    on_demand_usd_per_hour: float | None = None

    def __post_init__(self) -> None:
        self.value(MarketPolicy.ON_DEMAND, 0.0)

    def value(self, policy: MarketPolicy, interruptions_per_hour: float) -> InstanceType:
        """The type, in the market of a policy unless it says otherwise itself.

        Args:
            policy: of the cloud.
            interruptions_per_hour: of a node on spot, unless the type says otherwise.
        """
        market = _market(policy) if self.market is None else self.market
        rate = interruptions_per_hour if market is Market.SPOT else 0.0
        return InstanceType(
            name=self.name,
            slots=self.slots,
            usd_per_hour=self.usd_per_hour,
            speed=self.speed,
            market=market,
            disk_usd_per_hour=self.disk_usd_per_hour,
            address_usd_per_hour=self.address_usd_per_hour,
            interruptions_per_hour=rate if self.interruptions_per_hour is None else self.interruptions_per_hour,
            on_demand_usd_per_hour=self.on_demand_usd_per_hour,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTable(_AnyCloudTable):
    """Instance types that the file itself prices."""

    instance_types: tuple[TypeTable, ...]
    market: MarketPolicy | None = None
    prices: PriceDate | None = None

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> Cloud:
        """The cloud.

        Raises:
            InvalidInput: a figure is out of its limits; the key is relative to `cloud`.
        """
        policy = self.market or MarketPolicy.ON_DEMAND
        types = tuple(wanted.value(policy, self.interruptions_per_hour) for wanted in self.instance_types)
        if policy is MarketPolicy.SPOT_THEN_ON_DEMAND:
            for number, found in enumerate(types):
                if found.market is Market.SPOT and found.on_demand_usd_per_hour is None:
                    raise InvalidInput(
                        f"instance_types[{number}].on_demand_usd_per_hour",
                        f"is required where market is {policy.value!r}: what {found.name!r} costs on demand",
                    )
        market = _policy(types) if self.market is None else self.market
        return self.cloud(types, _NO_BOOK, market=market, prices=self.prices)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogType:
    """A type that a catalogue knows, how fast it is for the function at hand, and how often it is taken back."""

    name: str
    speed: float = 1.0
    interruptions_per_hour: float | None = None


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable(_AnyCloudTable):
    """Instance types by their names in a catalogue."""

    catalog: str
    region: str
    instance_types: tuple[Annotated[CatalogType, BeforeValidator(_named)], ...]
    market: MarketPolicy = MarketPolicy.ON_DEMAND
    cpus_per_slot: int = 1

    def __post_init__(self) -> None:
        positive_int("cpus_per_slot", self.cpus_per_slot)

    def value(self, price_books: PriceBooks, *, rented: bool) -> Cloud:
        """The cloud.

        Args:
            price_books: where catalogues come from.
            rented: as `Furnishing.of` has it.

        Raises:
            InvalidInput: the catalogue, or a type in it, is not known; the key is relative to `cloud`.
        """
        names = [wanted.name for wanted in self.instance_types]
        book = price_books(self.catalog, region=self.region, instance_types=names)
        provider = self.provider or book.provider or book.name
        node = Furnishing.of(self.settings, provider=provider, rented=rented)
        types = []
        for number, wanted in enumerate(self.instance_types):
            try:
                types.append(self._type(wanted, book, node))
            except InvalidInput as error:
                raise InvalidInput(f"instance_types[{number}]", error.problem) from None
        return self.cloud(tuple(types), book, market=self.market, prices=book.prices)

    def _type(self, wanted: CatalogType, book: PriceBook, node: Furnishing) -> InstanceType:
        market = _market(self.market)
        offering = book.offering(wanted.name, region=self.region, market=market, zones=node.zones)
        found = offering.instance_type
        disk_usd_per_hour = node.disk_gib * book.disk_usd_per_gib_hour
        address_usd_per_hour = node.addresses * book.address_usd_per_hour
        beside_usd_per_hour = disk_usd_per_hour + address_usd_per_hour
        table = TypeTable(
            name=found.name,
            slots=found.slots if offering.accelerator else found.slots // self.cpus_per_slot,
            usd_per_hour=found.usd_per_hour + beside_usd_per_hour,
            speed=wanted.speed,
            disk_usd_per_hour=disk_usd_per_hour,
            address_usd_per_hour=address_usd_per_hour,
            interruptions_per_hour=wanted.interruptions_per_hour,
            on_demand_usd_per_hour=None
            if self.market is not MarketPolicy.SPOT_THEN_ON_DEMAND
            else book.offering(wanted.name, region=self.region).instance_type.usd_per_hour + beside_usd_per_hour,
        )
        return table.value(self.market, self.interruptions_per_hour)


def _market(policy: MarketPolicy) -> Market:
    """Where a policy buys first."""
    return Market.ON_DEMAND if policy is MarketPolicy.ON_DEMAND else Market.SPOT


def _policy(types: tuple[InstanceType, ...]) -> MarketPolicy:
    """The policy of a cloud that leaves it to its types."""
    spot = [found.market is Market.SPOT for found in types]
    return MarketPolicy.SPOT if spot and all(spot) else MarketPolicy.ON_DEMAND


def read_cloud(
    data: object, *, folder: Path, price_books: PriceBooks, rented: bool = False, key: str = "cloud"
) -> Cloud:
    """A cloud that is given inline, or as the path of a file relative to `folder`.

    Args:
        data: the cloud, or the path.
        folder: what the path is relative to.
        price_books: where catalogues come from.
        rented: whether its nodes will be rented, so that a catalogue's price has all that they come with.
        key: path of `data` within its file.

    Raises:
        InvalidInput: it is neither; a file's error carries the file's name as a note.
    """
    if not isinstance(data, str):
        return _read(data, price_books, rented, key)
    path = folder / data
    with naming(path, key):
        return _read(read_table(path), price_books, rented, "")


def _read(data: object, price_books: PriceBooks, rented: bool, key: str) -> Cloud:
    if not (isinstance(data, Mapping) and "catalog" in data):
        return shaped(CloudTable, data, key).value()
    table = shaped(CatalogTable, data, key)
    try:
        return table.value(price_books, rented=rented)
    except InvalidInput as error:
        raise (error.under(key) if key else error) from None


def _said_of(found: InstanceType) -> dict[str, float]:
    """What the canonical form says of a type only where there is something to say."""
    figures = {
        "disk_usd_per_hour": found.disk_usd_per_hour or None,
        "address_usd_per_hour": found.address_usd_per_hour or None,
        "interruptions_per_hour": found.interruptions_per_hour if found.market is Market.SPOT else None,
        "on_demand_usd_per_hour": found.on_demand_usd_per_hour,
    }
    return {name: float(figure) for name, figure in figures.items() if figure is not None}


def cloud_table(cloud: Cloud) -> dict[str, Any]:
    """The canonical form of a cloud."""
    return {
        "instance_types": [
            {
                "name": found.name,
                "slots": found.slots,
                "usd_per_hour": float(found.usd_per_hour),
                "speed": float(found.speed),
                "market": found.market.value,
                **_said_of(found),
            }
            for found in cloud.instance_types
        ],
        "max_nodes": cloud.max_nodes,
        "launch_s": latency_table(cloud.launch_s),
        "init_s": latency_table(cloud.init_s),
        "billing": {
            "mode": cloud.billing.mode.value,
            "granularity_s": float(cloud.billing.granularity_s),
            "minimum_s": float(cloud.billing.minimum_s),
        },
        "dataset_gib": float(cloud.dataset_gib),
        "transfer_usd_per_gib": float(cloud.transfer_usd_per_gib),
        "provider": cloud.provider,
        **({"region": cloud.region} if cloud.region else {}),
        **({"market": cloud.market.value} if cloud.market is not _policy(cloud.instance_types) else {}),
        **({"prices": asdict(cloud.prices)} if cloud.prices is not None else {}),
        **({"settings": dict(cloud.settings)} if cloud.settings else {}),
    }
