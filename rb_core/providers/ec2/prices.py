"""What EC2 costs now: on demand from the AWS Price List, on spot by zone from the history of spot prices.

On demand: `pricing:GetProducts`, or without credentials the public file of a region, which holds the same rows. Spot:
`ec2:DescribeSpotPriceHistory`. Prices are in usd; what has no price in usd, or a price of 0, is left out.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import boto3

from rb_core.errors import InvalidInput, NoAnswer, UnreadablePrices
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.refusals import CallRefused, answering
from rb_core.providers.ec2.spot_history import SpotPrice, newest, spot_history

OFFERS_URL = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current"
"""Where the public files are, one for each region; some hundred megabytes each."""

_MACHINES = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""What a product must say of itself to be a plain Linux machine on demand; each leaves several prices of one type."""

_DISKS = {"productFamily": "Storage", "volumeApiName": "gp3"}

_COLUMNS = {
    "operatingSystem": "Operating System",
    "tenancy": "Tenancy",
    "preInstalledSw": "Pre Installed S/W",
    "capacitystatus": "CapacityStatus",
    "marketoption": "MarketOption",
    "productFamily": "Product Family",
    "volumeApiName": "Volume API Name",
    "instanceType": "Instance Type",
    "vcpu": "vCPU",
    "memory": "Memory",
    "gpu": "GPU",
    "unit": "Unit",
    "price": "PricePerUnit",
    "currency": "Currency",
    "term": "TermType",
}
"""What the attributes of a product are called in the public file."""

_BY_NAME = 20
"""So many types are asked for by their names; of more, all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemandPrice:
    """A machine, and what it costs on demand.

    Attributes:
        instance_type: its name.
        usd_per_hour: its price, without disk and address.
        vcpus: its virtual processors.
        gpus: its GPUs; a part of one counts as one.
        memory_gib: its main memory.
    """

    instance_type: str
    usd_per_hour: float
    vcpus: int
    gpus: int
    memory_gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPrices:
    """What a region's list says.

    Attributes:
        machines: those that were asked for and are there.
        disk_usd_per_gib_month: a gp3 volume; None where it is not listed.
    """

    machines: tuple[OnDemandPrice, ...]
    disk_usd_per_gib_month: float | None


def default_region() -> str:
    """The region of the environment or of its profile; empty where there is none."""
    # boto3 itself passes over AWS_REGION, which other SDKs and the CLI read.
    return os.environ.get("AWS_REGION") or boto3.session.Session().region_name or ""


def is_region(name: str) -> bool:
    """Whether the SDK knows a region of that name."""
    session = boto3.session.Session()
    return any(name in session.get_available_regions("ec2", part) for part in session.get_available_partitions())


def has_credentials() -> bool:
    """Whether the SDK finds any credentials; they may have expired."""
    return boto3.session.Session().get_credentials() is not None


def list_prices(region: str, names: Sequence[str]) -> ListPrices:
    """Prices on demand, from the API.

    Args:
        region: of the nodes.
        names: types that are wanted; empty for all.

    Raises:
        InvalidInput: the call is refused.
        UnreadablePrices: it gets no answer.
    """
    client = Clients(_endpoint_region(region)).service("pricing")
    here = {"regionCode": region}
    wanted = [{"instanceType": name} for name in names] if 0 < len(names) <= _BY_NAME else [{}]
    with _asking("pricing:GetProducts"):
        products = [p for only in wanted for p in _products(client, {**here, **_MACHINES, **only})]
        disks = list(_products(client, {**here, **_DISKS}))
    machines = (_machine(product["product"]["attributes"], _usd(product, "Hrs")) for product in products)
    prices = (_usd(product, "GB-Mo") for product in disks)
    return _listed(machines, prices, names)


def public_prices(region: str, names: Sequence[str], *, offers_url: str = OFFERS_URL) -> ListPrices:
    """Prices on demand, from the public file of a region, which needs no credentials and takes minutes.

    Args:
        region: of the nodes.
        names: types that are wanted; empty for all.
        offers_url: where the files are.

    Raises:
        UnreadablePrices: there is no such file, it cannot be read, or it is not as it used to be.
    """
    url = f"{offers_url}/{region}/index.csv"
    machines: list[OnDemandPrice | None] = []
    disks: list[float | None] = []
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            for row in _rows(io.TextIOWrapper(answer, encoding="utf-8", newline="")):
                price = _number(row["price"]) if row["currency"] == "USD" and row["term"] == "OnDemand" else None
                if row["unit"] == "Hrs" and all(row[key] == value for key, value in _MACHINES.items()):
                    machines.append(_machine(row, price))
                elif row["unit"] == "GB-Mo" and all(row[key] == value for key, value in _DISKS.items()):
                    disks.append(price)
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise UnreadablePrices(
            f"the public prices of {region!r} cannot be read from {url} ({error}); see that the region exists and that "
            'this machine reaches it, or take the snapshot: catalog = "ec2"'
        ) from None
    return _listed(iter(machines), iter(disks), names)


def spot_prices(region: str, names: Sequence[str], now: datetime) -> tuple[SpotPrice, ...]:
    """The prices on spot of now, by type and zone; a type has none in a zone that does not sell it on spot.

    Zones that lie outside of the region's cities (local zones) are left out.

    Args:
        region: of the nodes.
        names: types that are wanted; empty for all.
        now: the wall clock.

    Raises:
        InvalidInput: the call is refused.
        UnreadablePrices: it gets no answer.
    """
    with _asking("ec2:DescribeSpotPriceHistory"):
        found = newest(spot_history(Clients(region).control, names, now))
    city = re.compile(re.escape(region) + "[a-z]")
    return tuple(price for (_, zone), price in sorted(found.items()) if city.fullmatch(zone))


def _endpoint_region(region: str) -> str:
    """The nearest of the three regions that answer for the prices of all."""
    return {"eu": "eu-central-1", "ap": "ap-south-1"}.get(region.partition("-")[0], "us-east-1")


def _products(client: Any, wanted: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    for page in client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters):
        # Each product is a text that holds JSON, not an object.
        yield from map(json.loads, page["PriceList"])


def _usd(product: Mapping[str, Any], unit: str) -> float | None:
    dimensions = (
        dimension
        for term in product.get("terms", {}).get("OnDemand", {}).values()
        for dimension in term["priceDimensions"].values()
        if dimension["unit"] == unit
    )
    prices = (_number(dimension["pricePerUnit"].get("USD")) for dimension in dimensions)
    return max((price for price in prices if price is not None), default=None)


def _rows(text: io.TextIOBase) -> Iterator[dict[str, str]]:
    """The rows of a public file, under the names of the attributes. Raises ValueError where it lacks one of them."""
    for _ in range(5):
        text.readline()
    rows = csv.reader(text)
    header = next(rows, [])
    missing = sorted(set(_COLUMNS.values()) - set(header))
    if missing:
        raise ValueError(f"it has no column {missing[0]!r}")
    places = {name: header.index(column) for name, column in _COLUMNS.items()}
    for row in rows:
        yield {name: row[place] for name, place in places.items()}


def _machine(attributes: Mapping[str, str], price: float | None) -> OnDemandPrice | None:
    if price is None:
        return None
    gpus = _number(attributes.get("gpu")) or 0.0
    return OnDemandPrice(
        instance_type=attributes["instanceType"],
        usd_per_hour=price,
        vcpus=int(attributes["vcpu"]),
        gpus=max(1, int(gpus)) if gpus else 0,
        memory_gib=_number(attributes["memory"].replace(",", "").removesuffix(" GiB")) or 0.0,
    )


def _listed(
    machines: Iterator[OnDemandPrice | None], disks: Iterator[float | None], names: Sequence[str]
) -> ListPrices:
    found: dict[str, OnDemandPrice] = {}
    for machine in machines:
        if machine is not None and (not names or machine.instance_type in names):
            known = found.get(machine.instance_type)
            if known is None or machine.usd_per_hour > known.usd_per_hour:
                found[machine.instance_type] = machine
    return ListPrices(
        machines=tuple(found[name] for name in sorted(found)),
        disk_usd_per_gib_month=max((price for price in disks if price is not None), default=None),
    )


def _number(text: str | None) -> float | None:
    """A figure above 0; None where there is none."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if number > 0 else None


@contextmanager
def _asking(action: str) -> Iterator[None]:
    try:
        with answering(action):
            yield
    except CallRefused as error:
        told = error.as_input()
        raise InvalidInput(told.key, f'{told.problem}; or take the snapshot: catalog = "ec2"') from error
    except NoAnswer as error:
        raise UnreadablePrices(
            f"prices cannot be had now ({error}); see that this machine reaches AWS, or take the snapshot: "
            'catalog = "ec2"'
        ) from error
