"""What a user may say about nodes on EC2, under `cloud.settings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rb_core.check import between, non_empty, positive_int
from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud
from rb_core.providers.ec2 import tags as tag

KEY = "cloud.settings"

IMAGE = "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
"""AWS's own Ubuntu with a GPU driver, for types with and without GPUs; resolved once for each run."""

LONGEST_LIFE_S = 30 * 24 * 3600.0
"""A node that outlives its run is paid for: nobody may ask for more than a month."""

SHORTEST_LIFE_S = 600.0
SHORTEST_LEASE_S = 60.0
SHORTEST_GRACE_S = 10.0
"""EC2 may show what was rented only seconds later: whoever waits less may take a node for lost that is paid for."""

MOST_TAGS = 40
"""EC2 allows 50 on one instance; the rest is ours."""

_RESOLVED = "resolve:ssm:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Settings:
    """Checked settings; each has a default.

    Attributes:
        image: what nodes boot from: an AMI's id, or ``resolve:ssm:`` and the name of a public parameter that holds one,
            which is looked up once for each run.
        subnets: where nodes may stand, in the order in which they are tried; empty for the default VPC's, one a zone.
        zones: the availability zones to use, in the order in which they are tried; empty for those of the subnets.
        security_group: the group of all nodes; empty for one of ours in the subnets' VPC, which lets nothing in but
            what comes from within the group.
        instance_profile: name of the profile whose role the nodes have; empty for none.
        volume_gib: size of the node's disk (gp3, encrypted, deleted with the node).
        public_ip: whether nodes get a public address; without one they need another way out, such as a NAT gateway.
        tags: the user's own, on everything that is rented.
        owner: whose run it is; empty for the one that AWS says is calling.
        setup: shell commands that a node runs before it joins, in order.
        python: the Python on the node that joins.
        driver_address: where nodes find this program: a host name or address in the VPC; empty to find out.
        lifetime_s: a node ends itself when it is so old, whatever happens.
        lease_s: and when it has not heard from the run for so long.
        grace_s: what was rented may be invisible for so long.
        short_grace: allows a `grace_s` that is too short for the real EC2, and may leave nodes behind there.
        max_attempts: how often a call that changes nothing is tried before the engine goes on without an answer.
    """

    image: str = IMAGE
    subnets: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    security_group: str = ""
    instance_profile: str = ""
    volume_gib: int = 100
    public_ip: bool = True
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    owner: str = ""
    setup: tuple[str, ...] = ()
    python: str = "python3"
    driver_address: str = ""
    lifetime_s: float = 24 * 3600.0
    lease_s: float = 600.0
    grace_s: float = 30.0
    short_grace: bool = False
    max_attempts: int = 3

    def __post_init__(self) -> None:
        _image(self.image)
        for number, subnet in enumerate(self.subnets):
            _prefixed(f"subnets[{number}]", subnet, "subnet-")
        for key, named in (("subnets", self.subnets), ("zones", self.zones)):
            if len(set(named)) != len(named):
                raise InvalidInput(key, f"must name each one once, got {list(named)}")
        if self.security_group:
            _prefixed("security_group", self.security_group, "sg-")
        if "/" in self.instance_profile or ":" in self.instance_profile:
            raise InvalidInput(
                "instance_profile", f"must be the profile's name and not its ARN, got {self.instance_profile!r}"
            )
        between("volume_gib", self.volume_gib, 1, 16384)
        non_empty("python", self.python)
        _tags(self.tags)
        _printable("owner", self.owner)
        if len(self.owner) > tag.LONGEST_VALUE:
            raise InvalidInput("owner", f"must be at most {tag.LONGEST_VALUE} characters, got {len(self.owner)}")
        between("lifetime_s", self.lifetime_s, SHORTEST_LIFE_S, LONGEST_LIFE_S)
        between("lease_s", self.lease_s, SHORTEST_LEASE_S, LONGEST_LIFE_S)
        if self.lease_s > self.lifetime_s:
            raise InvalidInput(
                "lease_s", f"must be at most the node's lifetime_s of {self.lifetime_s:g}, got {self.lease_s:g}"
            )
        between("grace_s", self.grace_s, 0, 600)
        if self.grace_s < SHORTEST_GRACE_S and not self.short_grace:
            raise InvalidInput(
                "grace_s",
                f"must be at least {SHORTEST_GRACE_S:g}, got {self.grace_s:g}: EC2 may show a node only after "
                "some seconds, and one that was given up by then is paid for; leave it out, or set "
                "short_grace = true where this is not the real EC2",
            )
        positive_int("max_attempts", self.max_attempts)

    @property
    def image_parameter(self) -> str:
        """Name of the public parameter that holds the image's id; empty where `image` is an id."""
        return self.image.removeprefix(_RESOLVED) if self.image.startswith(_RESOLVED) else ""

    @classmethod
    def of(cls, cloud: Cloud) -> Ec2Settings:
        """The settings of a cloud, checked.

        Raises:
            InvalidInput: one is unknown or out of its limits, or the cloud has no region.
        """
        region_of(cloud)
        known = {each.name for each in fields(cls)}
        for key in cloud.settings:
            if key not in known:
                raise InvalidInput(f"{KEY}.{key}", f"is not known; provider 'ec2' knows {', '.join(sorted(known))}")
        try:
            return cls(**{key: _READ.get(key, _text)(key, value) for key, value in cloud.settings.items()})
        except InvalidInput as error:
            raise error.under(KEY) from None


def region_of(cloud: Cloud) -> str:
    """The region, which is the problem's to say: what a shell has set may be another one the next day.

    Raises:
        InvalidInput: the cloud names none.
    """
    if not cloud.region:
        raise InvalidInput(
            "cloud.region",
            'is missing; say where nodes are rented, such as region = "us-east-1" (AWS_REGION and AWS_DEFAULT_REGION '
            "are not looked at, since a run must be found again where it was begun)",
        )
    return cloud.region


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(key, f"must be a string, got {value!r}")
    return value


def _texts(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise InvalidInput(key, f"must be a list of strings, got {value!r}")
    return tuple(non_empty(f"{key}[{number}]", each) for number, each in enumerate(value))


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(key, f"must be true or false, got {value!r}")
    return value


def _seconds(key: str, value: object) -> float:
    return between(key, value, 0, LONGEST_LIFE_S)


def _own_tags(key: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidInput(key, f"must be a table of strings, got {value!r}")
    return {_text(key, name): _text(f"{key}.{name}", text) for name, text in value.items()}


_READ: Mapping[str, Callable[[str, object], Any]] = {
    "subnets": _texts,
    "zones": _texts,
    "setup": _texts,
    "public_ip": _flag,
    "short_grace": _flag,
    "volume_gib": positive_int,
    "max_attempts": positive_int,
    "tags": _own_tags,
    "lifetime_s": _seconds,
    "lease_s": _seconds,
    "grace_s": _seconds,
}


def _image(image: str) -> None:
    name = image.removeprefix(_RESOLVED)
    if name == image and not image.startswith("ami-"):
        raise InvalidInput(
            "image", f"must be an image's id (ami-...) or {_RESOLVED} and a public parameter's name, got {image!r}"
        )
    if name != image and not name.startswith("/"):
        raise InvalidInput("image", f"must have a public parameter's name, which begins with '/', got {image!r}")


def _prefixed(key: str, value: str, prefix: str) -> None:
    if not value.startswith(prefix):
        raise InvalidInput(key, f"must be an id that begins with {prefix!r}, got {value!r}")


def _printable(key: str, text: str) -> None:
    if not text.isprintable():
        raise InvalidInput(key, f"must have no control characters, which EC2 refuses, got {text!r}; leave them out")


def _tags(own: Mapping[str, str]) -> None:
    if len(own) > MOST_TAGS:
        raise InvalidInput("tags", f"must be at most {MOST_TAGS}, got {len(own)}")
    for name, value in own.items():
        _printable("tags", name)
        _printable(f"tags.{name}", value)
        lower = name.lower()
        if not 1 <= len(name) <= 128 or lower.startswith(("aws:", tag.PREFIX)) or name == tag.NAME:
            raise InvalidInput(
                "tags",
                f"must have names of 1 to 128 characters that do not begin with 'aws:' or {tag.PREFIX!r} and are not "
                f"{tag.NAME!r}, got {name!r}",
            )
        if len(value) > tag.LONGEST_VALUE:
            raise InvalidInput(f"tags.{name}", f"must be at most {tag.LONGEST_VALUE} characters, got {len(value)}")
