"""What nodes boot from, looked up once for each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind, answering
from rb_core.providers.ec2.settings import KEY, Ec2Settings

_SETTING = f"{KEY}.image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A machine image.

    Attributes:
        id: its id.
        architecture: the programs that it holds, such as ``x86_64``.
        root: name of the disk that it boots from.
        disks: names of the further disks that it brings.
        least_gib: size below which it does not fit.
    """

    id: str
    architecture: str
    root: str
    disks: tuple[str, ...] = ()
    least_gib: int = 0


def find(clients: Clients, settings: Ec2Settings, known: str = "") -> Image:
    """The image of a run.

    Args:
        clients: of the run's region.
        settings: which.
        known: id of the image that the run has used already; empty at its first launch.

    Raises:
        InvalidInput: there is none, it cannot be seen, or the nodes' disk is too small for it.
        NoAnswer: AWS did not answer.
    """
    image = known or (_resolved(clients, settings.image_parameter) if settings.image_parameter else settings.image)
    try:
        with answering("ec2:DescribeImages"):
            rows = clients.control.describe_images(ImageIds=[image])["Images"]
    except CallRefused as refused:
        if refused.kind is not RefusalKind.INPUT:
            raise refused.as_input() from refused
        rows = []
    if not rows:
        raise InvalidInput(
            _SETTING, f"must be an image that this account can use in {clients.region}, got {image!r}; ids differ "
            "between regions"
        )  # fmt: skip
    found = _image(rows[0])
    if settings.volume_gib < found.least_gib:
        raise InvalidInput(
            f"{KEY}.volume_gib", f"must be at least the {found.least_gib} of {image}, got {settings.volume_gib}"
        )
    return found


def _resolved(clients: Clients, parameter: str) -> str:
    try:
        with answering("ssm:GetParameter"):
            return str(clients.service("ssm").get_parameter(Name=parameter)["Parameter"]["Value"])
    except CallRefused as refused:
        if refused.code == "ParameterNotFound":
            raise InvalidInput(
                _SETTING, f"must name a parameter that {clients.region} has, got {parameter!r}"
            ) from None
        raise refused.as_input() from refused


def _image(row: Mapping[str, Any]) -> Image:
    root = row.get("RootDeviceName") or "/dev/sda1"
    disks = {disk["DeviceName"]: disk["Ebs"] for disk in row.get("BlockDeviceMappings", ()) if "Ebs" in disk}
    return Image(
        id=row["ImageId"],
        architecture=row.get("Architecture", "x86_64"),
        root=root,
        disks=tuple(name for name in disks if name != root),
        least_gib=int(disks.get(root, {}).get("VolumeSize", 0)),
    )
