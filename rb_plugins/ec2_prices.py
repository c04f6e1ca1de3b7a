"""The price book `ec2`, from the dated snapshot that is shipped with the package."""

from __future__ import annotations

import csv
from importlib.resources import files

from rb_core.hardware import Billing, InstanceType, Latency, Market, Offering, PriceBook

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


def price_book() -> PriceBook:
    """The snapshot. Spot prices are those of the dearest zone of a region, so that a forecast may be beaten."""
    text = files("rb_plugins").joinpath("data/ec2_prices.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return PriceBook(
        name="ec2",
        dated=DATED,
        source=SOURCE,
        offerings=tuple(_offering(row) for row in rows),
        launch_s=LAUNCH_S,
        init_s=INIT_S,
        billing=BILLING,
    )


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
