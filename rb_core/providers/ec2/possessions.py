"""What one region of an account holds of ours, kind by kind. Every list is read to its last page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from rb_core.estate import Belonging, Inventory, Kind, Trouble
from rb_core.hardware import Market
from rb_core.providers.ec2 import listing
from rb_core.providers.ec2 import tags as tag
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.listing import InstanceState, SeenInstance
from rb_core.providers.ec2.paging import rows
from rb_core.providers.ec2.parameter import PREFIX
from rb_core.providers.ec2.trouble import ANSWERS, unseen

_ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")


def inventory(clients: Clients, *, run: str | None, also: Collection[str]) -> Inventory:
    """Everything of ours in the clients' region; what cannot be listed is a trouble and hides nothing else.

    Args:
        clients: of the region.
        run: only what is tagged as this run's.
        also: ids of instances to look at whatever their tags say.
    """
    found: list[Belonging] = []
    troubles: list[Trouble] = []
    kinds: dict[Kind, Callable[[], list[Belonging]]] = {
        Kind.NODE: lambda: _machines(clients, run, also),
        Kind.DISK: lambda: _disks(clients, run),
        Kind.REQUEST: lambda: _requests(clients, run),
        Kind.SECRET: lambda: _secrets(clients),
        Kind.GROUP: lambda: _groups(clients, run),
    }
    for kind, list_ in kinds.items():
        try:
            found += [each for each in list_() if run in (None, each.run) or each.ident in also]
        except ANSWERS as error:
            troubles.append(unseen(clients.region, kind, error))
    return Inventory(belongings=tuple(found), troubles=tuple(troubles))


def _machines(clients: Clients, run: str | None, also: Collection[str]) -> list[Belonging]:
    ec2 = clients.control
    tagged = listing.of_anyone(ec2) if run is None else listing.of_run(ec2, run)
    seen = {each.instance: each for each in tagged}
    missing = [instance for instance in also if instance not in seen]
    seen.update({each.instance: each for each in (listing.by_ids(ec2, missing) if missing else ())})
    return [_machine(clients.region, each) for each in seen.values() if each.state is not InstanceState.TERMINATED]


def _machine(region: str, seen: SeenInstance) -> Belonging:
    named = seen.tags.get(tag.NODES, "")
    return Belonging(
        kind=Kind.NODE,
        ident=seen.instance,
        region=region,
        run=seen.run,
        node="" if " " in named else named,
        shape=seen.instance_type,
        zone=seen.zone,
        market=(Market.SPOT if seen.spot else Market.ON_DEMAND).value,
        state=seen.state.value,
        ending=seen.state is InstanceState.SHUTTING_DOWN,
        since=seen.launched,
        expires=expiry(seen.expires),
    )


def _disks(clients: Clients, run: str | None) -> list[Belonging]:
    found = []
    for row in rows(clients.control, "ec2:DescribeVolumes", "describe_volumes", "Volumes", Filters=tag.filters(run)):
        # A disk that goes with its machine is part of it.
        if any(attachment.get("DeleteOnTermination") for attachment in row.get("Attachments", ())):
            continue
        found.append(
            _tagged(
                Kind.DISK,
                row["VolumeId"],
                clients.region,
                row.get("Tags", ()),
                shape=f"{row['Size']} GiB",
                zone=row["AvailabilityZone"],
                state=row["State"],
                ending=row["State"] in ("deleting", "deleted"),
                since=row["CreateTime"],
            )
        )
    return found


def _requests(clients: Clients, run: str | None) -> list[Belonging]:
    listed = rows(
        clients.control,
        "ec2:DescribeSpotInstanceRequests",
        "describe_spot_instance_requests",
        "SpotInstanceRequests",
        Filters=tag.filters(run),
    )
    return [
        _tagged(
            Kind.REQUEST,
            row["SpotInstanceRequestId"],
            clients.region,
            row.get("Tags", ()),
            shape=row.get("LaunchSpecification", {}).get("InstanceType", ""),
            market=Market.SPOT.value,
            state=row["State"],
            since=row.get("CreateTime"),
        )
        for row in listed
        # A persistent one would rent anew when its instance ends; a one-time one ends with it.
        if row["State"] == "open" or (row["State"] in ("active", "disabled") and row.get("Type") == "persistent")
    ]


def _secrets(clients: Clients) -> list[Belonging]:
    filters = [{"Key": "Name", "Option": "BeginsWith", "Values": [PREFIX]}]
    listed = rows(
        clients.service("ssm"),
        "ssm:DescribeParameters",
        "describe_parameters",
        "Parameters",
        ParameterFilters=filters,
    )
    return [
        Belonging(
            kind=Kind.SECRET,
            ident=row["Name"],
            region=clients.region,
            run=row["Name"].removeprefix(PREFIX),
            state="kept",
            since=row.get("LastModifiedDate"),
        )
        for row in listed
    ]


def _groups(clients: Clients, run: str | None) -> list[Belonging]:
    ec2 = clients.control
    listed = rows(
        ec2, "ec2:DescribeSecurityGroups", "describe_security_groups", "SecurityGroups", Filters=tag.filters(run)
    )  # fmt: skip
    return [
        _tagged(
            Kind.GROUP,
            row["GroupId"],
            clients.region,
            row.get("Tags", ()),
            shape=row["GroupName"],
            zone=row.get("VpcId", ""),
            state="in use" if used else "unused",
            used=used,
        )
        for row in listed
        for used in (_is_used(ec2, row["GroupId"]),)
    ]


def _is_used(ec2: Any, group: str) -> bool:
    filters = [
        {"Name": "instance.group-id", "Values": [group]},
        {"Name": "instance-state-name", "Values": list(_ALIVE)},
    ]
    return bool(rows(ec2, "ec2:DescribeInstances", "describe_instances", "Reservations", Filters=filters))


def _tagged(
    kind: Kind, ident: str, region: str, listed: Sequence[Mapping[str, str]], **attributes: Any
) -> Belonging:  # fmt: skip
    tags = {row["Key"]: row["Value"] for row in listed}
    return Belonging(
        kind=kind,
        ident=ident,
        region=region,
        run=tags.get(tag.RUN, ""),
        expires=expiry(tags.get(tag.EXPIRES, "")),
        **attributes,
    )


def expiry(text: str) -> datetime | None:
    """The time in an expiry tag; None where nothing can be made of it, as when somebody changed it."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
