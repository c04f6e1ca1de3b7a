"""All that a run on EC2 needs, looked at before anything is rented."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import boto3
import botocore

from rb_core.errors import InvalidInput, NoAnswer, RubberBandError
from rb_core.hardware import InstanceType, Market
from rb_core.inspection import Finding, Intent, ok, problem, warning
from rb_core.ports import Bootstrap, Clock
from rb_core.providers.ec2 import images, pools, reach, request, supply
from rb_core.providers.ec2.access import inspect_credentials, inspect_ending, inspect_renting
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.ground import Ground
from rb_core.providers.ec2.identity import Identity
from rb_core.providers.ec2.images import Image
from rb_core.providers.ec2.instance_types import InstanceShape, describe
from rb_core.providers.ec2.parameter import PREFIX
from rb_core.providers.ec2.pools import Place
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind
from rb_core.providers.ec2.settings import KEY, Ec2Settings
from rb_core.providers.ec2.userdata import MOST_BYTES, user_data

T = TypeVar("T")

RUN = "check"
"""The run that a renting call is put together for, to be tried dry."""


def inspect(clients: Clients, settings: Ec2Settings, intent: Intent, clock: Clock) -> list[Finding]:
    """Look at everything. Changes nothing; what cannot be found out is a finding.

    Args:
        clients: of the run's region.
        settings: the user's.
        intent: the run.
        clock: the time.
    """
    found: list[Finding] = [ok("versions", f"boto3 {boto3.__version__}, botocore {botocore.__version__}")]
    try:
        clients.check()
        identity = Identity.ask(clients)
    except (InvalidInput, NoAnswer, CallRefused) as error:
        return [*found, _told("identity", error)]
    found.append(ok("identity", f"{identity.arn} in account {identity.account}, {clients.region}"))
    found += _look("credentials", lambda: [inspect_credentials(clients, settings, intent)])
    image = _try("image", found, lambda: images.find(clients, settings))
    places = _try("subnets", found, lambda: pools.places(clients.control, settings)) or ()
    found += _image(image) + _subnets(places, settings)
    zones = tuple(place.zone for place in places)
    for instance_type in intent.cloud.instance_types:
        found += _type(clients, instance_type, intent, clock, image=image, zones=zones)
    found.append(supply.inspect_history(intent, clients.region, clock.utc()))
    group = None
    if places:
        told = _try("security group", found, lambda: reach.inspect_group(clients, settings, places[0].vpc))
        if told is not None:
            found += told[0]
            group = told[1]
            found += reach.inspect_way(settings, places[0].vpc, group)
    found += _profile(settings)
    script = _script(settings, intent, clients.region, found)
    if image is not None and places:
        ground = Ground(identity=identity, image=image, places=places, group=str((group or {}).get("GroupId", "")))
        found += _rights(clients, settings, intent, ground, script, clock)
    return found


def _type(
    clients: Clients,
    instance_type: InstanceType,
    intent: Intent,
    clock: Clock,
    *,
    image: Image | None,
    zones: Sequence[str],
) -> list[Finding]:
    found: list[Finding] = []
    shape = _try("instance type", found, lambda: describe(clients.control, instance_type.name))
    if shape is None:
        return found
    found += _shape(instance_type, shape, image)
    if zones:
        found += _look("zones", lambda: [supply.inspect_zones(clients, instance_type, zones)])
    try:
        found.append(supply.inspect_quota(clients, instance_type, shape, intent))
    except (CallRefused, NoAnswer) as error:
        found.append(supply.unknown_quota(str(error)))
    if zones and instance_type.market is Market.SPOT:
        now = clock.utc()
        found += _look("spot price", lambda: [supply.inspect_spot(clients, instance_type, zones, now)])
    return found


def _shape(instance_type: InstanceType, shape: InstanceShape, image: Image | None) -> list[Finding]:
    found = []
    if image is not None and shape.architectures and image.architecture not in shape.architectures:
        found.append(
            problem(
                "architecture",
                f"image {image.id} is for {image.architecture}, and {shape.name} runs {', '.join(shape.architectures)}",
                f"name an image for {shape.architectures[0]} in {KEY}.image, or another type",
            )
        )
    market = instance_type.market.value.replace("_", "-")
    if shape.markets and market not in shape.markets:
        found.append(
            problem("market", f"{shape.name} is not sold {instance_type.market.value}", "choose another market or type")
        )
    most = shape.gpus or shape.vcpus
    if instance_type.slots > most:
        what = "GPUs" if shape.gpus else "vCPUs"
        said = f"{instance_type.slots} slots of {shape.name} share its {most} {what}"
        found.append(warning("slots", said, "a profile of that packing is needed, or fewer slots"))
    return found or [ok("instance type", f"{shape.name}: {shape.vcpus} vCPUs, {shape.gpus} GPUs")]


def _image(image: Image | None) -> list[Finding]:
    return [] if image is None else [ok("image", f"{image.id}, {image.architecture}")]


def _subnets(places: Sequence[Place], settings: Ec2Settings) -> list[Finding]:
    if not places:
        return []
    which = "given" if settings.subnets else "of the default VPC"
    return [ok("subnets", f"{len(places)} {which}, in {', '.join(dict.fromkeys(place.zone for place in places))}")]


def _profile(settings: Ec2Settings) -> list[Finding]:
    if settings.instance_profile:
        return []
    return [
        problem(
            "instance profile",
            f"none is given, and without a role nodes cannot read their run's entry below {PREFIX}",
            f"make a role with `rb-tune policy node` and name its profile in {KEY}.instance_profile",
        )
    ]


def _script(settings: Ec2Settings, intent: Intent, region: str, found: list[Finding]) -> str:
    """What nodes would be started with; empty, and a finding, where that is too long."""
    most = max((*intent.peak.values(), 1))
    nodes = [f"{RUN}-{number}" for number in range(most)]
    boots: Mapping[str, Bootstrap] = {node: Bootstrap(argv=("python", *("x" * 80,) * 8)) for node in nodes}
    try:
        script = user_data(
            run=RUN,
            attempt="0" * 32,
            nodes=nodes,
            bootstraps=boots,
            lifetime_s=settings.lifetime_s,
            lease_s=settings.lease_s,
            settings=settings,
            region=region,
            parameter=f"{PREFIX}{RUN}",
        )
    except InvalidInput as error:
        found.append(problem("user data", str(error), "shorten what is named"))
        return request.last_resort(settings.lifetime_s)
    found.append(ok("user data", f"about {len(script.encode())} of at most {MOST_BYTES} bytes"))
    return script


def _rights(
    clients: Clients, settings: Ec2Settings, intent: Intent, ground: Ground, script: str, clock: Clock
) -> list[Finding]:
    order = request.order(
        token=request.new_token(),
        nodes=[f"{RUN}-0"],
        instance_type=intent.cloud.instance_types[0],
        place=ground.places[0],
        least=1,
        run=RUN,
        ground=ground,
        settings=settings,
        expires=request.expiry(clock.utc(), settings.lifetime_s),
        user_data=script,
    )
    asked: dict[str, Any] = dict(order.parameters)
    if not ground.group:
        # It is yet to be made; the VPC's own stands in for it.
        asked["NetworkInterfaces"] = [
            {name: value for name, value in each.items() if name != "Groups"} for each in asked["NetworkInterfaces"]
        ]
    return [
        *_look("right to rent", lambda: [inspect_renting(clients, asked)]),
        *_look("right to end", lambda: [inspect_ending(clients)]),
    ]


def _look(subject: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(look())
    except (InvalidInput, NoAnswer, CallRefused) as error:
        return [_told(subject, error)]


def _try(subject: str, found: list[Finding], look: Callable[[], T]) -> T | None:
    try:
        return look()
    except (InvalidInput, NoAnswer, CallRefused) as error:
        found.append(_told(subject, error))
        return None


def _told(subject: str, error: RubberBandError) -> Finding:
    """A finding for what could not be looked at, or does not fit."""
    if isinstance(error, NoAnswer):
        return warning(subject, f"unknown, AWS gave no answer: {error}", "run this again")
    if isinstance(error, CallRefused) and error.kind is RefusalKind.RIGHTS:
        return warning(subject, f"unknown: this identity may not do {error.right}", "`rb-tune policy driver` has it")
    if isinstance(error, CallRefused):
        error = error.as_input()
    said, _, remedy = str(error).partition("; ")
    return problem(subject, said, remedy or "change it")
