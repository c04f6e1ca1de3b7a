"""The one place that reaches into moto: its backends, and what of AWS it knows."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from functools import cache
from typing import Any

from moto.core.base_backend import BackendDict
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.utils import filter_dict_attribute_mapping
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from faulty_ec2.wire import Answer

ACCOUNT = "123456789012"
ROOT_DEVICE = "/dev/sda1"

# Filters that EC2 has and that moto answers with a page of HTML.
filter_dict_attribute_mapping.setdefault("client-token", "client_token")
filter_dict_attribute_mapping.setdefault("instance-lifecycle", "lifecycle")

_app = DomainDispatcherApplication(create_backend_app)


def reset() -> None:
    """Forget everything of every account."""
    BackendDict.reset()


def ask(environ: Mapping[str, Any], body: bytes) -> Answer:
    """Let moto answer a call."""
    forwarded = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    got: list[Any] = []
    chunks = _app(forwarded, lambda status, headers, exc_info=None: got.extend((status, headers)))
    answer = b"".join(chunks)
    kept = tuple((k, v) for k, v in got[1] if k.lower() not in ("content-length", "content-type", "connection"))
    kind = next((v for k, v in got[1] if k.lower() == "content-type"), "text/xml")
    return Answer(status=int(got[0].split()[0]), body=answer, kind=kind, headers=kept)


def image_id(region: str) -> str:
    """The AMI that is known in a region. Ids differ between regions, as real ones do."""
    return "ami-0" + hashlib.sha256(region.encode()).hexdigest()[:16]


def backend(region: str) -> Any:
    """moto's EC2 of a region, with one AMI in it."""
    made = ec2_backends[ACCOUNT][region]
    image = image_id(region)
    if image not in made.amis:
        made.amis[image] = Ami(
            made,
            image,
            name="deep-learning-base",
            owner_id="898082745236",
            architecture="x86_64",
            virtualization_type="hvm",
            root_device_type="ebs",
            root_device_name=ROOT_DEVICE,
            region_name=f"{region}a",
            public=True,
        )
    return made


def role_arn(name: str) -> str:
    """The ARN of a role, made where it is new, as is the instance profile of its name that holds it."""
    iam = iam_backends[ACCOUNT]["aws"]
    if name not in {role.name for role in iam.get_roles()}:
        iam.create_role(name, "{}", "/", None, "", [], "3600")
        iam.create_instance_profile(name, "/", [])
        iam.add_role_to_instance_profile(name, name)
    return f"arn:aws:iam::{ACCOUNT}:role/{name}"


def role_of(profile: str) -> str:
    """The role in an instance profile, by the profile's name or ARN."""
    made = iam_backends[ACCOUNT]["aws"].get_instance_profile(profile.rpartition("/")[2])
    return str(made.roles[0].name) if made.roles else ""


@cache
def offered(region: str) -> frozenset[str]:
    """Instance types of a region."""
    return frozenset(offer["InstanceType"] for offer in INSTANCE_TYPE_OFFERINGS["region"].get(region, ()))


def vcpus(instance_type: str) -> int:
    """vCPUs of a type."""
    return int(INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"])
