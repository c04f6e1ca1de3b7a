"""Lists of what is there: plugins with their names, price books with their rows."""

from __future__ import annotations

from typing import Any

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


def catalog_answer(book: PriceBook, region: str | None, market: str | None) -> dict[str, Any]:
    """What `rb-tune catalog --json` prints."""
    return {
        "schema": SCHEMA,
        "catalog": book.name,
        "dated": book.dated,
        "source": book.source,
        "offerings": [
            {
                "instance_type": offering.instance_type.name,
                "region": offering.region,
                "market": offering.instance_type.market.value,
                "usd_per_hour": offering.instance_type.usd_per_hour,
                "slots": offering.instance_type.slots,
                "accelerator": offering.accelerator,
                "memory_gib": offering.memory_gib,
            }
            for offering in _chosen(book, region, market)
        ],
    }


def catalog_table(book: PriceBook, region: str | None, market: str | None) -> Table:
    """The rows of a price book."""
    return Table(
        title=f"{book.name}, prices of {book.dated}, from {book.source}",
        columns=("instance type", "region", "market", "usd/h", "slots", "usd/slot-h", "accelerator", "GiB"),
        words=("region", "market", "accelerator"),
        rows=tuple(
            (
                offering.instance_type.name,
                offering.region,
                offering.instance_type.market.value,
                f"{offering.instance_type.usd_per_hour:.4f}",
                str(offering.instance_type.slots),
                f"{offering.instance_type.usd_per_hour / offering.instance_type.slots:.4f}",
                offering.accelerator or "CPU",
                f"{offering.memory_gib:g}",
            )
            for offering in _chosen(book, region, market)
        ),
    )


def _chosen(book: PriceBook, region: str | None, market: str | None) -> list[Offering]:
    regions = sorted({offering.region for offering in book.offerings})
    if region is not None and region not in regions:
        raise InvalidInput("--region", f"must be one of {', '.join(regions)}, got {region!r}")
    return [
        offering
        for offering in book.offerings
        if region in (None, offering.region) and market in (None, offering.instance_type.market.value)
    ]


def _registries(manager: Manager) -> list[tuple[str, Any]]:
    return [
        ("providers", manager.providers()),
        ("launchers", manager.launchers()),
        ("planners", manager.planners()),
        ("price_books", manager.price_books()),
    ]
