"""The price books of EC2: `ec2`, the dated snapshot that is shipped with the package, and `aws`, the prices of now."""

from __future__ import annotations

import csv
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rb_core.clock import SystemClock
from rb_core.errors import InvalidInput, RubberBandError
from rb_core.hardware import Billing, InstanceType, Latency, Market, Offering, PriceBook

if TYPE_CHECKING:
    from rb_core.providers.ec2.prices import OnDemandPrice
    from rb_core.providers.ec2.spot_history import SpotPrice

DATED = "2026-07-20"
SOURCE = (
    "AWS Price List API (on demand, us-east-1, by way of Karpenter's generated table); "
    "SkyPilot's catalogue v8 (us-west-2, and spot in the dearest zone)"
)

LAUNCH_S = Latency(mean=22.6, std=2.0)
"""Accepted request to running. 4.8 s for the API's answer and 17.8 s from pending to running on m7i.large (mean
of three, brevdev/ec2-coldboot-research, January 2026); other types there lay within a second. No distribution
for GPU types has been published, and waits for capacity are not in it: the spread is a judgement."""

INIT_S = Latency(mean=164.0, std=72.0)
"""Running to usable: boot, drivers and the first import, for a deep-learning image. A lognormal of median 150 s
and 95th percentile 300 s; a judgement, not a measurement. A baked image is nearer to 45 s: set `init_s`."""

BILLING = Billing(granularity_s=1.0, minimum_s=60.0)
"""Linux, on demand and spot: per second, with a minimum of 60 s on every start (AWS, October 2017)."""

GIB_MONTH_HOURS = 30 * 24
"""Disks are priced by the month, and a month of theirs has 30 days (AWS, EBS pricing, its examples)."""

DISK_USD_PER_GIB_MONTH = 0.08
"""A gp3 volume with what it has by default, 3,000 operations and 125 MB a second; us-east-1 and us-west-2, 2026."""

ADDRESS_USD_PER_HOUR = 0.005
"""A public IPv4 address, in use or not, in every region (AWS, since 2024-02-01)."""

PROVIDER = "ec2"
"""Who rents what both books list."""

_logger = logging.getLogger(__name__)


def price_book() -> PriceBook:
    """The snapshot. Spot prices are those of the dearest zone of a region, so that a forecast may be beaten."""
    return PriceBook(
        name="ec2",
        dated=DATED,
        source=SOURCE,
        offerings=tuple(_offering(row) for row in _snapshot()),
        launch_s=LAUNCH_S,
        init_s=INIT_S,
        billing=BILLING,
        provider=PROVIDER,
        disk_usd_per_gib_hour=DISK_USD_PER_GIB_MONTH / GIB_MONTH_HOURS,
        address_usd_per_hour=ADDRESS_USD_PER_HOUR,
    )


def live_book(*, region: str = "", instance_types: Sequence[str] = (), offers_url: str = "") -> PriceBook:
    """The prices of now: on demand of the region, on spot of each of its zones where there are credentials.

    Args:
        region: whose prices are wanted; empty for that of the environment.
        instance_types: names of the types that are wanted; empty for all.
        offers_url: where the public files are; empty for where AWS has them.

    Raises:
        InvalidInput: there is no such region, none was given, AWS refuses to tell, or the extra is missing.
        UnreadablePrices: prices on demand cannot be had now.
    """
    if find_spec("boto3") is not None:
        from rb_plugins.importable import require

        require("boto3", key="catalog", user="'aws'", extra="aws")
    try:
        from rb_core.providers.ec2 import prices
    except ModuleNotFoundError as error:
        if error.name not in ("boto3", "botocore"):
            raise
        raise InvalidInput(
            "catalog", "'aws' needs boto3; pip install 'rubberband-tune[aws]', or take the snapshot: catalog = \"ec2\""
        ) from None
    region = region or prices.default_region()
    if not region:
        raise InvalidInput("region", "is required by the catalogue aws, since each region has prices of its own")
    if not prices.is_region(region):
        raise InvalidInput("region", f"must be a region of AWS, such as us-east-1; got {region!r}")
    now = SystemClock().utc()
    lacks = ""
    on_spot: tuple[SpotPrice, ...] = ()
    if prices.has_credentials():
        listed, source = prices.list_prices(region, instance_types), "AWS Price List API"
        try:
            on_spot, source = prices.spot_prices(region, instance_types, now), f"{source} and spot price history"
        except RubberBandError as error:
            lacks = str(error)
            _logger.warning("there are no spot prices: %s", error)
    else:
        _logger.warning(
            "no AWS credentials are found: prices on demand come from the public file of %s, which takes minutes, and "
            "there are none for spot",
            region,
        )
        url = offers_url or prices.OFFERS_URL
        listed, source = prices.public_prices(region, instance_types, offers_url=url), "AWS's public price file"
        lacks = "spot prices need AWS credentials with the right ec2:DescribeSpotPriceHistory"
    machines = {machine.instance_type: _live(machine, region) for machine in listed.machines}
    spot = [
        replace(
            machines[row.instance_type],
            zone=row.zone,
            instance_type=replace(
                machines[row.instance_type].instance_type, market=Market.SPOT, usd_per_hour=row.usd_per_hour
            ),
        )
        for row in on_spot
        if row.instance_type in machines
    ]
    return PriceBook(
        name="aws",
        dated=now.date().isoformat(),
        source=source,
        offerings=(*machines.values(), *spot),
        launch_s=LAUNCH_S,
        init_s=INIT_S,
        billing=BILLING,
        provider=PROVIDER,
        disk_usd_per_gib_hour=(listed.disk_usd_per_gib_month or DISK_USD_PER_GIB_MONTH) / GIB_MONTH_HOURS,
        address_usd_per_hour=ADDRESS_USD_PER_HOUR,
        lacks=lacks,
    )


def _live(machine: OnDemandPrice, region: str) -> Offering:
    return Offering(
        instance_type=InstanceType(
            name=machine.instance_type, slots=machine.gpus or machine.vcpus, usd_per_hour=machine.usd_per_hour
        ),
        region=region,
        accelerator=_accelerator(machine.instance_type) if machine.gpus else "",
        memory_gib=machine.memory_gib,
    )


def _accelerator(name: str) -> str:
    """The GPU of a type's family; the lists of prices give the number of GPUs alone."""
    family = name.partition(".")[0]
    known = (row["accelerator"] for row in _snapshot() if row["instance_type"].partition(".")[0] == family)
    return next(known, "") or "GPU"


@cache
def _snapshot() -> tuple[dict[str, str], ...]:
    text = files("rb_plugins").joinpath("data/ec2_prices.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _offering(row: dict[str, str]) -> Offering:
    return Offering(
        instance_type=InstanceType(
            name=row["instance_type"],
            slots=int(row["slots"]),
            usd_per_hour=float(row["usd_per_hour"]),
            market=Market(row["market"]),
        ),
        region=row["region"],
        accelerator=row["accelerator"],
        memory_gib=float(row["memory_gib"]),
    )
