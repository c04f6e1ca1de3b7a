"""RunInstances as EC2 answers it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from faulty_ec2 import moto_side, pools, spot_requests
from faulty_ec2.instances import Record
from faulty_ec2.wire import Answer, Call, Refusal
from faulty_ec2.world import World

USER_DATA_BYTES = 16384
"""EC2's limit on user data, before it is encoded."""

_DEFAULT_TYPE = "m1.small"

Ask = Callable[[bytes], Answer]
"""Has moto answer the present call with another body."""


def launch(world: World, call: Call, ask: Ask) -> Answer:
    """Launch instances, or answer again for a token that has launched.

    Raises:
        Refusal: as EC2 would.
    """
    params, region = call.params, call.region
    market = "spot" if params.get("InstanceMarketOptions.MarketType") == "spot" else "on_demand"
    asked_zone = _asked_zone(world, call)
    earlier = world.tokens.find(region, asked_zone, params)
    if earlier is not None:
        answer, ids = earlier
        if all(world.records[name].state in ("shutting-down", "terminated") for name in ids):
            raise Refusal(
                "IdempotentInstanceTerminated",
                "The client token you have provided is associated with a terminated instance.",
            )
        return answer
    _check(world, call)
    kind = params.get("InstanceType", _DEFAULT_TYPE)
    least, most = int(params["MinCount"]), int(params["MaxCount"])
    zone = asked_zone or pools.choose_zone(world, region, kind, market, least)
    pools.check_quota(world, region, kind, market, most)
    count = pools.take(world, (kind, zone, market), least, most)
    body = {**params, "MinCount": str(count), "MaxCount": str(count)}
    if not asked_zone:
        body["Placement.AvailabilityZone"] = zone
    backend = world.backend(region)
    launched: list[Record] = []
    run = backend.run_instances

    def run_and_adopt(*args: Any, **kwargs: Any) -> Any:
        reservation = run(*args, **kwargs)
        launched.extend(_adopt(world, call, market, made) for made in reservation.instances)
        for made in reservation.instances[1:]:
            # moto gives the profile to the first of them alone.
            if role := _profile(call):
                backend.associate_iam_instance_profile(made.id, iam_instance_profile_name=role.rpartition("/")[2])
        return reservation

    # The answer is written from moto's objects, so they have to be right before that.
    backend.run_instances = run_and_adopt
    try:
        answer = ask(urlencode(body).encode())
    finally:
        del backend.run_instances
    if not launched:
        pools.give(world, (kind, zone, market), count)
        return answer
    world.records.update({record.id: record for record in launched})
    world.volumes.see(region, backend, world.now())
    if not launched[0].shown:
        name = next(name for name, held in backend.reservations.items() if launched[0].made in held.instances)
        world.hidden[name] = (region, backend.reservations.pop(name))
    world.tokens.keep(region, asked_zone, params, answer, tuple(record.id for record in launched))
    return answer


def _asked_zone(world: World, call: Call) -> str:
    subnet = call.params.get("SubnetId") or call.params.get("NetworkInterface.1.SubnetId")
    if not subnet:
        return str(call.params.get("Placement.AvailabilityZone", ""))
    found = world.backend(call.region).describe_subnets(filters={"subnet-id": [subnet]})
    if not found:
        raise Refusal("InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist")
    return str(found[0].availability_zone)


def _profile(call: Call) -> str:
    return str(call.params.get("IamInstanceProfile.Name") or call.params.get("IamInstanceProfile.Arn") or "")


def _check(world: World, call: Call) -> None:
    params, region = call.params, call.region
    if any(name.startswith("LaunchTemplate.") for name in params):
        raise Refusal("UnsupportedOperation", "launch templates are not imitated here")
    if params.get("InstanceMarketOptions.SpotOptions.SpotInstanceType") == "persistent":
        raise Refusal("UnsupportedOperation", "persistent spot requests are not imitated here")
    kind = params.get("InstanceType", _DEFAULT_TYPE)
    if kind not in moto_side.offered(region):
        raise Refusal("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
    image = params.get("ImageId", "")
    if image not in world.backend(region).amis:
        raise Refusal("InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
    zone = params.get("Placement.AvailabilityZone")
    if zone and zone not in world.zone_names(region):
        raise Refusal("InvalidParameterValue", f"Invalid availability zone: [{zone}]")
    try:
        user_data = base64.b64decode(params.get("UserData", ""), validate=True)
    except binascii.Error:
        raise Refusal("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if len(user_data) > USER_DATA_BYTES:
        raise Refusal("InvalidParameterValue", f"User data is limited to {USER_DATA_BYTES} bytes")
    if not 1 <= int(params["MinCount"]) <= int(params["MaxCount"]):
        raise Refusal("InvalidParameterValue", "MinCount must be at least 1 and at most MaxCount")
    if params.get("DryRun") == "true":
        raise Refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")


def _adopt(world: World, call: Call, market: str, made: Any) -> Record:
    params, now_s = call.params, world.now()
    made.launch_time = world.stamp()
    made.disable_api_termination = params.get("DisableApiTermination") == "true"
    for interface in made.nics.values():
        interface.delete_on_termination = True
    for volume in made.ec2_backend.volumes.values():
        if volume.attachment and volume.attachment.instance is made:
            volume.create_time = volume.attachment.attach_time = world.stamp()
    boots_s: float | None = now_s + world.boot_s
    if world.stuck_next > 0:
        world.stuck_next -= 1
        boots_s = None
    profile = _profile(call)
    record = Record(
        made=made,
        region=call.region,
        zone=made.placement.zone,
        type=made.instance_type,
        market=market,
        vcpus=moto_side.vcpus(made.instance_type),
        token=str(params.get("ClientToken", "")),
        launched_s=now_s,
        visible_s=now_s + world.visible_s,
        boots_s=boots_s,
        doom=world.doomed_next.pop(0) if world.doomed_next else "",
        role=moto_side.role_of(profile) if profile else "",
        public=bool(made.public_ip),
        shown=world.visible_s <= 0,
    )
    record.turn("pending")
    if market == "spot":
        record.spot_request = spot_requests.open_for(world, call.region, made, _tags(call, "spot-instances-request"))
    return record


def _tags(call: Call, resource: str) -> dict[str, str]:
    found = {}
    for name, value in call.params.items():
        head, _, last = name.rpartition(".")
        if last == "ResourceType" and value == resource:
            keys = [k for k in call.params if k.startswith(f"{head}.Tag.") and k.endswith(".Key")]
            found.update({call.params[k]: call.params[f"{k.removesuffix('Key')}Value"] for k in keys})
    return found
