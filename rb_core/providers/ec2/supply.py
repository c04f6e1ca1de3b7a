"""Whether EC2 is likely to have what a run wants: zones, quota, and what was had before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rb_core.hardware import InstanceType, Market
from rb_core.inspection import Finding, Intent, Refusal, ok, problem, warning
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.instance_types import InstanceShape
from rb_core.providers.ec2.paging import rows
from rb_core.providers.ec2.refusals import answering
from rb_core.providers.ec2.settings import KEY
from rb_core.providers.ec2.spot_history import newest, spot_history

QUOTAS: Mapping[tuple[str, Market], str] = {
    ("p", Market.ON_DEMAND): "L-417A185B",
    ("p", Market.SPOT): "L-7212CCBC",
    ("g", Market.ON_DEMAND): "L-DB2E81BA",
    ("g", Market.SPOT): "L-3819A6DF",
    ("standard", Market.ON_DEMAND): "L-1216C47A",
    ("standard", Market.SPOT): "L-34B43A08",
}
"""Codes of AWS's quotas of vCPUs, by family and market; of P and G types a new account has 0."""

STANDARD = frozenset("acdhimrtz")
"""Families that share one quota."""

RECENT = timedelta(days=1)
"""Refusals of so long ago still say something."""


def inspect_zones(clients: Clients, instance_type: InstanceType, zones: Sequence[str]) -> Finding:
    """Whether the zones have a type. Raises as `answering`."""
    told = rows(
        clients.control,
        "ec2:DescribeInstanceTypeOfferings",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [instance_type.name]}],
    )
    offered = {row["Location"] for row in told}
    there = [zone for zone in dict.fromkeys(zones) if zone in offered]
    if not there:
        elsewhere = ", ".join(sorted(offered)) or "no zone of the region"
        return problem(
            "zones",
            f"{instance_type.name} is not offered in {', '.join(dict.fromkeys(zones))}; it is in {elsewhere}",
            f"name subnets of those zones in {KEY}.subnets, or another type or region",
        )
    return ok("zones", f"{instance_type.name} is offered in {', '.join(there)}")


def inspect_quota(clients: Clients, instance_type: InstanceType, shape: InstanceShape, intent: Intent) -> Finding:
    """Whether the account may hold so many vCPUs. What is held already is not counted. Raises as `answering`."""
    needed = intent.peak.get(instance_type.name, 0) * shape.vcpus
    wanted = f"{intent.peak.get(instance_type.name, 0)} {instance_type.name} take {needed} vCPUs"
    code = quota_code(instance_type)
    if not code:
        return _unknown(wanted, "this family has a quota of its own")
    with answering("servicequotas:GetServiceQuota"):
        quota = clients.service("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
    allowed = float(quota["Value"])
    said = f"{wanted}, and quota {code} allows {allowed:g} {instance_type.market.value} in {clients.region}"
    remedy = f"ask for more: Service Quotas, EC2, {code}; or plan with fewer nodes (max_nodes)"
    if allowed < shape.vcpus or (intent.planned and needed > allowed):
        return problem("quota", said, remedy)
    return warning("quota", said, remedy) if needed > allowed else ok("quota", said)


def quota_code(instance_type: InstanceType) -> str:
    """Code of the quota that a type counts against; empty where that is not known."""
    family = instance_type.name.rstrip().partition(".")[0]
    letters = family[: next((place for place, sign in enumerate(family) if sign.isdigit()), len(family))]
    kind = "g" if letters in ("g", "gr", "vt") else letters if letters == "p" else ""
    if not kind and letters[:1] in STANDARD and letters not in ("dl", "trn", "inf", "hpc", "mac"):
        kind = "standard"
    return QUOTAS.get((kind, instance_type.market), "")


def inspect_history(intent: Intent, region: str, now: datetime) -> Finding:
    """What earlier runs of this machine were refused lately."""
    names = {instance_type.name for instance_type in intent.cloud.instance_types}
    recent = [
        refusal
        for refusal in intent.refusals
        if refusal.at > now - RECENT
        and refusal.request.get("instance_type") in names
        and refusal.request.get("region") == region
    ]
    if not recent:
        return ok("capacity", "no launch of these types was refused to a run of this machine in the last 24 h")
    last = recent[-1]
    return warning(
        "capacity",
        f"{len(recent)} launch(es) of these types were refused in the last 24 h, the last one of {_pool(last)} at "
        f"{last.at:%H:%M} UTC: {last.reason}",
        "allow more zones or types, or another market",
    )


def inspect_spot(clients: Clients, instance_type: InstanceType, zones: Sequence[str], now: datetime) -> Finding:
    """What a type costs on spot now, against the price that is planned with. Raises as `answering`."""
    told = newest(spot_history(clients.control, [instance_type.name], now))
    prices = {zone: price.usd_per_hour for (_, zone), price in told.items() if zone in zones}
    if not prices:
        return problem(
            "spot price",
            f"{instance_type.name} has no spot price in {', '.join(dict.fromkeys(zones))}",
            "allow more zones, or buy it on demand",
        )
    beside = instance_type.disk_usd_per_hour + instance_type.address_usd_per_hour
    planned = instance_type.usd_per_hour - beside
    spread = ", ".join(f"{usd:g} in {zone}" for zone, usd in sorted(prices.items(), key=lambda each: each[1]))
    said = f"{instance_type.name} costs {spread} usd/h now, and {planned:g} is planned with"
    if min(prices.values()) > planned * 1.0001:
        return warning("spot price", said, "give today's price, or plan with a catalogue that asks for it")
    return ok("spot price", said)


def _pool(refusal: Refusal) -> str:
    request = refusal.request
    return f"{request.get('instance_type')} {request.get('market', '')} in {request.get('zone', '')}"


def _unknown(wanted: str, why: str) -> Finding:
    return warning("quota", f"{wanted}; the quota is unknown: {why}", "look at Service Quotas, EC2, for yourself")


def unknown_quota(why: str) -> Finding:
    """The quota could not be read."""
    return warning(
        "quota", f"unknown: {why}", "grant servicequotas:GetServiceQuota, or look at Service Quotas, EC2, for yourself"
    )
