"""Where this program runs, as the metadata service of its own machine tells; nothing outside of EC2."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rb_core.providers.ec2.agent import FAILURES, Metadata

ENDPOINT = "http://169.254.169.254"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """An instance, seen from within.

    Attributes:
        instance: its id.
        address: its private address.
        vpc: the VPC of its first interface.
        groups: ids of that interface's security groups.
    """

    instance: str
    address: str
    vpc: str
    groups: tuple[str, ...]


def whereabouts() -> Whereabouts | None:
    """This machine as an instance of EC2; None where it is none, or may not ask. Waits a few seconds at most.

    The SDKs' own variables AWS_EC2_METADATA_SERVICE_ENDPOINT and AWS_EC2_METADATA_DISABLED are obeyed.
    """
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    metadata = Metadata(os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or ENDPOINT)
    try:
        mac = _said(metadata, "mac")
        interface = f"network/interfaces/macs/{mac}"
        return Whereabouts(
            instance=_said(metadata, "instance-id"),
            address=_said(metadata, "local-ipv4"),
            vpc=_said(metadata, f"{interface}/vpc-id"),
            groups=tuple(_said(metadata, f"{interface}/security-group-ids").split()),
        )
    except FAILURES:
        return None


def _said(metadata: Metadata, path: str) -> str:
    found = metadata.get(path)
    if found is None:
        raise KeyError(path)
    return found[0].strip()
