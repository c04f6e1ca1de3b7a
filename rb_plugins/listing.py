"""Lists of what is there: plugins with their names, price books with their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rb_core.check import positive
from rb_core.errors import InvalidInput
from rb_core.events import SCHEMA
from rb_core.hardware import Offering, PriceBook
from rb_core.report import Table
from rb_plugins.manager import Manager


def plugins_answer(manager: Manager) -> dict[str, Any]:
    """What `rb-tune plugins --json` prints."""
    names = {
        noun: {name: registry.plugin(name) for name in sorted(registry)} for noun, registry in _registries(manager)
    }
    return {
        "schema": SCHEMA,
        "plugins": [
            {
                "name": report.name,
                "distribution": report.distribution,
                "hooks": list(report.hooks),
                "problem": report.problem or None,
            }
            for report in manager.reports()
        ],
        **names,
    }


def plugins_tables(manager: Manager) -> list[Table]:
    """Plugins with their state, and the names that they give."""
    names = tuple(
        (noun.replace("_", " "), name, registry.plugin(name))
        for noun, registry in _registries(manager)
        for name in sorted(registry)
    )
    reports = tuple(
        (report.name, report.distribution, str(len(report.hooks)), report.problem or "in use")
        for report in manager.reports()
    )
    return [
        Table(
            title="Plugins", columns=("plugin", "package", "hooks", "state"), rows=reports, words=("package", "state")
        ),
        Table(title="Names", columns=("kind", "name", "plugin"), rows=names, words=("name", "plugin")),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which rows of a price book are wanted.

    Attributes:
        region: only this one; None for all.
        market: only this one; None for all.
        gpu: only types with GPUs.
        max_usd_per_hour: only types that cost at most so much; None for all.
    """

    region: str | None = None
    market: str | None = None
    gpu: bool = False
    max_usd_per_hour: float | None = None

    def __post_init__(self) -> None:
        if self.max_usd_per_hour is not None:
            positive("--max-usd-per-hour", self.max_usd_per_hour)

    def takes(self, offering: Offering) -> bool:
        """Whether a row is wanted."""
        return (
            self.region in (None, offering.region)
            and self.market in (None, offering.instance_type.market.value)
            and bool(offering.accelerator or not self.gpu)
            and (self.max_usd_per_hour is None or offering.instance_type.usd_per_hour <= self.max_usd_per_hour)
        )


def catalog_answer(book: PriceBook, wish: Wish) -> dict[str, Any]:
    """What `rb-tune catalog --json` prints."""
    return {
        "schema": SCHEMA,
        "catalog": book.name,
        "dated": book.dated,
        "source": book.source,
        "lacks": book.lacks,
        "offerings": [
            {
                "instance_type": offering.instance_type.name,
                "region": offering.region,
                "market": offering.instance_type.market.value,
                "usd_per_hour": offering.instance_type.usd_per_hour,
                "usd_per_slot_hour": _usd_per_slot_hour(offering),
                "slots": offering.instance_type.slots,
                "accelerator": offering.accelerator,
                "memory_gib": offering.memory_gib,
                "zones": zones,
            }
            for offering, zones in _chosen(book, wish)
        ],
    }


def catalog_table(book: PriceBook, wish: Wish) -> Table:
    """The rows of a price book: types with GPUs first, by the price of a slot."""
    rows = _chosen(book, wish)
    by_zone = any(zones for _, zones in rows)
    return Table(
        title=f"{book}, from {book.source}",
        columns=(
            *("instance type", "region", "market", "usd/h", "slots", "usd/slot-h", "accelerator", "GiB"),
            *(("by zone",) if by_zone else ()),
        ),
        words=("region", "market", "accelerator", "by zone"),
        rows=tuple(
            (
                offering.instance_type.name,
                offering.region,
                offering.instance_type.market.value,
                f"{offering.instance_type.usd_per_hour:.4f}",
                str(offering.instance_type.slots),
                f"{_usd_per_slot_hour(offering):.4f}",
                f"{offering.instance_type.slots} {offering.accelerator}" if offering.accelerator else "CPU",
                f"{offering.memory_gib:g}",
                *((_spread(zones),) if by_zone else ()),
            )
            for offering, zones in rows
        ),
    )


def _chosen(book: PriceBook, wish: Wish) -> list[tuple[Offering, dict[str, float]]]:
    """The wanted offerings, each at the price of its dearest zone, with what it costs in each zone where that is known.

    Of a type with different prices by zone, those above the highest wanted price are left out.
    """
    regions = sorted({offering.region for offering in book.offerings})
    if wish.region is not None and wish.region not in regions:
        raise InvalidInput("--region", f"must be one of {', '.join(regions)}, got {wish.region!r}")
    grouped: dict[tuple[str, str, str], list[Offering]] = {}
    for offering in filter(wish.takes, book.offerings):
        found = offering.instance_type
        grouped.setdefault((found.name, offering.region, found.market.value), []).append(offering)
    rows = [
        (
            max(rows, key=_usd_per_slot_hour),
            {o.zone: o.instance_type.usd_per_hour for o in sorted(rows, key=lambda row: row.zone) if o.zone},
        )
        for rows in grouped.values()
    ]
    return sorted(rows, key=lambda row: (not row[0].accelerator, _usd_per_slot_hour(row[0]), row[0].instance_type.name))


def _usd_per_slot_hour(offering: Offering) -> float:
    return offering.instance_type.usd_per_hour / offering.instance_type.slots


def _spread(zones: Mapping[str, float]) -> str:
    return ", ".join(f"{zone} {usd:.4f}" for zone, usd in sorted(zones.items(), key=lambda row: row[1]))


def _registries(manager: Manager) -> list[tuple[str, Any]]:
    return [
        ("providers", manager.providers()),
        ("launchers", manager.launchers()),
        ("planners", manager.planners()),
        ("price_books", manager.price_books()),
        ("estates", manager.estates()),
        ("depots", manager.depots()),
    ]
