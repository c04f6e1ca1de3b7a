"""The key `cloud`: instance types with prices, a reference to a catalogue of them, or a file with either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from rb_core.check import positive_int
from rb_core.errors import InvalidInput
from rb_core.hardware import Billing, BillingMode, Cloud, InstanceType, Latency, Market, MarketPolicy, PriceBook
from rb_plugins.config.durations import Seconds
from rb_plugins.config.latency import LatencyTable, latency_table
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import naming, read_table

PriceBooks = Callable[[str], PriceBook]
"""The price book of a catalogue's name; raises `InvalidInput` under `catalog` when there is none."""


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
    settings: Mapping[str, Any] = field(default_factory=dict)

    def cloud(self, types: tuple[InstanceType, ...], book: PriceBook) -> Cloud:
        """The cloud of these types, with what is not given taken from the book."""
        return Cloud(
            instance_types=types,
            max_nodes=self.max_nodes,
            launch_s=book.launch_s if self.launch_s is None else self.launch_s,
            init_s=book.init_s if self.init_s is None else self.init_s,
            billing=self.billing.over(book.billing),
            dataset_gib=self.dataset_gib,
            transfer_usd_per_gib=self.transfer_usd_per_gib,
            provider=book.name if self.provider is None else self.provider,
            region=self.region,
            settings=self.settings,
        )


_NO_BOOK = PriceBook(name="local", dated="", source="", offerings=(), launch_s=Latency(mean=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTable(_AnyCloudTable):
    """Instance types that the file itself prices."""

    instance_types: tuple[InstanceType, ...]

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> Cloud:
        """The cloud.

        Raises:
            InvalidInput: a figure is out of its limits; the key is relative to `cloud`.
        """
        return self.cloud(self.instance_types, _NO_BOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogType:
    """A type that a catalogue knows, and how fast it is for the function at hand."""

    name: str
    speed: float = 1.0


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable(_AnyCloudTable):
    """Instance types by their names in a catalogue."""

    catalog: str
    region: str
    instance_types: tuple[Annotated[CatalogType, BeforeValidator(_named)], ...]
    market: Market = Market.ON_DEMAND
    cpus_per_slot: int = 1

    def __post_init__(self) -> None:
        positive_int("cpus_per_slot", self.cpus_per_slot)

    def value(self, price_books: PriceBooks) -> Cloud:
        """The cloud.

        Raises:
            InvalidInput: the catalogue, or a type in it, is not known; the key is relative to `cloud`.
        """
        book = price_books(self.catalog)
        types = []
        for number, wanted in enumerate(self.instance_types):
            try:
                types.append(self._type(wanted, book))
            except InvalidInput as error:
                raise InvalidInput(f"instance_types[{number}]", error.problem) from None
        return self.cloud(tuple(types), book)

    def _type(self, wanted: CatalogType, book: PriceBook) -> InstanceType:
        offering = book.offering(wanted.name, region=self.region, market=self.market)
        found = offering.instance_type
        slots = found.slots if offering.accelerator else found.slots // self.cpus_per_slot
        return InstanceType(
            name=found.name,
            slots=slots,
            usd_per_hour=found.usd_per_hour,
            speed=wanted.speed,
            market=found.market,
        )


def read_cloud(data: object, *, folder: Path, price_books: PriceBooks, key: str = "cloud") -> Cloud:
    """A cloud that is given inline, or as the path of a file relative to `folder`.

    Raises:
        InvalidInput: it is neither; a file's error carries the file's name as a note.
    """
    if not isinstance(data, str):
        return _read(data, price_books, key)
    path = folder / data
    with naming(path, key):
        return _read(read_table(path), price_books, "")


def _read(data: object, price_books: PriceBooks, key: str) -> Cloud:
    if not (isinstance(data, Mapping) and "catalog" in data):
        return shaped(CloudTable, data, key).value()
    table = shaped(CatalogTable, data, key)
    try:
        return table.value(price_books)
    except InvalidInput as error:
        raise (error.under(key) if key else error) from None


_MAY_BE_LEFT_OUT = ("disk_usd_per_hour", "address_usd_per_hour", "interruptions_per_hour", "on_demand_usd_per_hour")
"""What the canonical form says of a type only where there is something to say."""


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
                **{name: float(getattr(found, name)) for name in _MAY_BE_LEFT_OUT if getattr(found, name)},
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
        **({"market": cloud.market.value} if cloud.market is not MarketPolicy.ON_DEMAND else {}),
        **({"settings": dict(cloud.settings)} if cloud.settings else {}),
    }
