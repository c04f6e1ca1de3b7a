"""TerminateInstances, StopInstances, StartInstances and DeleteSecurityGroup as EC2 answers them."""

from __future__ import annotations

import re

from faulty_ec2 import lifecycle
from faulty_ec2.instances import CODES, Record
from faulty_ec2.wire import Answer, Call, Refusal, ec2_xml
from faulty_ec2.world import World


def terminate(world: World, call: Call) -> Answer:
    """End instances: none where one id is unknown; in a zone with a protected one, none of that zone's.

    Raises:
        Refusal: as EC2 would; instances of other zones than the protected one's are terminated all the same.
    """
    records = _named(world, call)
    guarded = [record for record in records if record.made.disable_api_termination in (True, "true")]
    shut = {record.zone for record in guarded}
    items = ""
    for record in records:
        if record.zone not in shut:
            before = record.state
            lifecycle.end(world, record, world.now(), lifecycle.USER)
            after = "shutting-down" if before != "terminated" else "terminated"
            items += _changed(record, before, after)
    if guarded:
        raise Refusal(
            "OperationNotPermitted",
            f"The instance '{guarded[0].id}' may not be terminated. Modify its 'disableApiTermination' instance "
            "attribute and try again.",
        )
    return ec2_xml(call.action, f"<instancesSet>{items}</instancesSet>")


def stop(world: World, call: Call) -> Answer:
    """Stop instances; a spot instance of a one-time request cannot be stopped."""
    records = _named(world, call)
    for record in records:
        if record.market == "spot":
            raise Refusal(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{record.id}' because it is associated with a one-time Spot "
                "Instance request. You can only stop Spot Instances associated with persistent Spot requests.",
            )
    items = ""
    for record in records:
        before = record.state
        lifecycle.halt(world, record, world.now(), lifecycle.USER)
        items += _changed(record, before, "stopping")
    return ec2_xml(call.action, f"<instancesSet>{items}</instancesSet>")


def start(world: World, call: Call) -> Answer:
    """Start stopped instances again."""
    records = _named(world, call)
    items = ""
    for record in records:
        if record.state not in ("stopped", "running", "pending"):
            raise Refusal(
                "IncorrectInstanceState",
                f"The instance '{record.id}' is not in a state from which it can be started.",
            )
        before = record.state
        if before == "stopped":
            record.turn("pending")
            record.boots_s = world.now() + world.boot_s
        items += _changed(record, before, "pending")
    return ec2_xml(call.action, f"<instancesSet>{items}</instancesSet>")


def check_group_unused(world: World, call: Call) -> None:
    """Refuse to delete a security group that an instance is still in.

    Raises:
        Refusal: DependencyViolation.
    """
    backend = world.backend(call.region)
    for record in world.records.values():
        if record.region != call.region or record.state == "terminated":
            continue
        groups = [*record.made.security_groups, *(g for nic in record.made.nics.values() for g in nic.group_set)]
        for group in groups:
            if call.params.get("GroupId") == group.id or call.params.get("GroupName") == group.name:
                raise Refusal("DependencyViolation", f"resource {group.id} has a dependent object")
    group = backend.get_security_group_from_id(call.params.get("GroupId", ""))
    if group is not None and group.name == "default":
        raise Refusal("CannotDelete", "the default security group cannot be deleted by a user")


def _named(world: World, call: Call) -> list[Record]:
    names = list(dict.fromkeys(call.listed("InstanceId")))
    if not names:
        raise Refusal("MissingParameter", "The request must contain the parameter InstanceId")
    for name in names:
        if not re.fullmatch(r"i-[0-9a-f]{8}([0-9a-f]{9})?", name):
            raise Refusal("InvalidInstanceID.Malformed", f'Invalid id: "{name}"')
    gone = [name for name in names if (record := world.shown(call.region, name)) is None or record.vanished]
    if gone:
        text = f"ID '{gone[0]}' does" if len(gone) == 1 else f"IDs '{', '.join(gone)}' do"
        raise Refusal("InvalidInstanceID.NotFound", f"The instance {text} not exist")
    return [world.records[name] for name in names]


def _changed(record: Record, before: str, after: str) -> str:
    return (
        f"<item><instanceId>{record.id}</instanceId>"
        f"<currentState><code>{CODES[after]}</code><name>{after}</name></currentState>"
        f"<previousState><code>{CODES[before]}</code><name>{before}</name></previousState></item>"
    )
