"""One renting call, put together once: what is repeated is the very same."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rb_core.hardware import InstanceType, Market
from rb_core.providers.ec2 import tags as tag
from rb_core.providers.ec2.ground import Ground
from rb_core.providers.ec2.images import Image
from rb_core.providers.ec2.pools import Place
from rb_core.providers.ec2.settings import Ec2Settings

HOPS = 1
"""Answers of the metadata service do not pass a container's bridge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """A renting call that can be made any number of times and is obeyed once.

    Attributes:
        token: what makes it one and the same call for EC2.
        nodes: names of the nodes, in the order of the launch index.
        instance_type: what is rented.
        place: where.
        expires: when the nodes end themselves at the latest, from `expiry`.
        parameters: what the call is given, `token` included.
    """

    token: str
    nodes: tuple[str, ...]
    instance_type: InstanceType
    place: Place
    expires: str
    parameters: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the parameters."""
        return hashlib.sha256(json.dumps(self.parameters, sort_keys=True).encode()).hexdigest()

    def record(self, ground: Ground, region: str, run: str) -> dict[str, Any]:
        """What the log says of it: enough to find what came of it, and nothing secret."""
        return {
            "run": run,
            "account": ground.identity.account,
            "region": region,
            "zone": self.place.zone,
            "subnet": self.place.subnet,
            "market": self.instance_type.market.value,
            "instance_type": self.instance_type.name,
            "image": ground.image.id,
            "count": self.parameters["MaxCount"],
            "least": self.parameters["MinCount"],
            "expires": self.expires,
            "digest": self.digest,
        }


def new_token() -> str:
    """A token that no call has or had; it is written down before it is used."""
    return uuid.uuid4().hex


def expiry(now: datetime, lifetime_s: float) -> str:
    """When a node that is launched now ends itself at the latest, but for the time that it takes to boot."""
    return datetime.fromtimestamp(math.ceil(now.timestamp() + lifetime_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def order(
    *,
    token: str,
    nodes: Sequence[str],
    instance_type: InstanceType,
    place: Place,
    least: int,
    run: str,
    ground: Ground,
    settings: Ec2Settings,
    expires: str,
    user_data: str,
) -> LaunchOrder:
    """Put a call together.

    Args:
        token: from `new_token`.
        nodes: names of the nodes that are wanted.
        instance_type: what to rent, and in which market.
        place: where.
        least: with fewer than so many EC2 is to grant none.
        run: id of the run.
        ground: account, image and group.
        settings: the user's.
        expires: from `expiry`.
        user_data: the script that nodes start with.
    """
    tags = {
        **own_tags(run, ground.identity.name, settings),
        tag.NAME: f"{run} node"[: tag.LONGEST_VALUE],
        tag.ATTEMPT: token,
        tag.NODES: _compact(nodes),
        tag.EXPIRES: expires,
    }
    spot = instance_type.market is Market.SPOT
    tagged = ("instance", "volume", "network-interface", *(("spot-instances-request",) if spot else ()))
    parameters: dict[str, Any] = {
        "ClientToken": token,
        "MinCount": least,
        "MaxCount": len(nodes),
        "ImageId": ground.image.id,
        "InstanceType": instance_type.name,
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "SubnetId": place.subnet,
                "Groups": [ground.group],
                "AssociatePublicIpAddress": settings.public_ip,
                "DeleteOnTermination": True,
            }
        ],
        "BlockDeviceMappings": _disks(ground.image, settings.volume_gib),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": HOPS,
            "InstanceMetadataTags": "disabled",
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tag.listed(tags)} for kind in tagged],
        "UserData": user_data,
    }
    if settings.instance_profile:
        parameters["IamInstanceProfile"] = {"Name": settings.instance_profile}
    if spot:
        # A request that stays open would rent again, untagged, whatever is ended. No price limit: it only interrupts.
        parameters["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
        }
    return LaunchOrder(
        token=token,
        nodes=tuple(nodes),
        instance_type=instance_type,
        place=place,
        expires=expires,
        parameters=parameters,
    )


def own_tags(run: str, owner: str, settings: Ec2Settings) -> dict[str, str]:
    """The tags of all that a run makes, those of its user included.

    Args:
        run: id of the run.
        owner: whose it is, where the settings do not say.
        settings: the user's.
    """
    return {**settings.tags, tag.RUN: run, tag.OWNER: (settings.owner or owner)[: tag.LONGEST_VALUE]}


def last_resort(lifetime_s: float) -> str:
    """The script of a node that runs no command: it ends itself when its time is over, and does nothing else."""
    return f"#!/bin/bash\nshutdown -h +{math.ceil(lifetime_s / 60.0)}\n"


def _disks(image: Image, root_gib: int) -> list[dict[str, Any]]:
    """Each disk of the image goes with the node, whatever the image says."""
    root = {"VolumeSize": root_gib, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    further = [{"DeviceName": name, "Ebs": {"Encrypted": True, "DeleteOnTermination": True}} for name in image.disks]
    return [{"DeviceName": image.root, "Ebs": root}, *further]


def _compact(nodes: Sequence[str]) -> str:
    text = nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more, to {nodes[-1]}"
    return text[: tag.LONGEST_VALUE]
