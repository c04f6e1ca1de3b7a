"""Whether nodes will reach this program, and whether anybody else could reach the nodes."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from rb_core.inspection import Finding, ok, problem
from rb_core.providers.ec2 import groups
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.refusals import answering
from rb_core.providers.ec2.settings import KEY, Ec2Settings
from rb_core.providers.ec2.whereabouts import Whereabouts, whereabouts

WORLD = frozenset({"0.0.0.0/0", "::/0"})


def inspect_group(clients: Clients, settings: Ec2Settings, vpc: str) -> tuple[list[Finding], Mapping[str, Any] | None]:
    """What the nodes' security group lets in, and the group as EC2 describes it; None where it is yet to be made.

    Raises:
        CallRefused: it may not be looked at.
        NoAnswer: EC2 did not answer.
    """
    group = _group(clients, settings, vpc)
    if group is None and settings.security_group:
        return [
            problem(
                "security group",
                f"{settings.security_group} is not there in {clients.region}",
                f"name one of the subnets' VPC in {KEY}.security_group, or none",
            )
        ], None
    if group is None:
        return [ok("security group", f"none of ours in {vpc} yet; the first run makes one that opens nothing")], None
    found = []
    if group.get("VpcId") != vpc:
        found.append(
            problem(
                "security group",
                f"{group['GroupId']} is in {group.get('VpcId')}, and the subnets are in {vpc}",
                f"name a group of {vpc} in {KEY}.security_group",
            )
        )
    open_to = sorted({cidr for rule in group.get("IpPermissions", ()) for cidr in _ranges(rule)} & WORLD)
    if open_to:
        found.append(
            problem(
                "security group",
                f"{group['GroupId']} lets in {' and '.join(open_to)}: anybody who reaches a Ray port owns the nodes",
                "remove those rules",
            )
        )
    if not _admits_itself(group):
        found.append(
            problem(
                "security group",
                f"{group['GroupId']} lets nothing in from its own members, and nodes talk to each other",
                "add a rule that lets in all traffic from the group itself",
            )
        )
    return found or [ok("security group", f"{group['GroupId']} opens nothing to the world")], group


def inspect_way(settings: Ec2Settings, vpc: str, group: Mapping[str, Any] | None) -> list[Finding]:
    """Whether nodes of a group in a VPC reach this program."""
    if settings.driver_address:
        return [_by_address(settings.driver_address, group)]
    here = whereabouts()
    if here is None:
        return [
            problem(
                "reachability",
                "this machine is not in EC2, and nodes have to reach it",
                f"run this on an instance in {vpc}, or set {KEY}.driver_address to this machine's address in a VPN and "
                "let its range into the nodes' group (docs/ec2.md has both)",
            )
        ]
    return [_from_within(here, vpc, group)]


def _by_address(address: str, group: Mapping[str, Any] | None) -> Finding:
    try:
        number = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0]
        with closing(socket.create_server((address, 0))):
            pass
    except OSError as error:
        return problem(
            "reachability",
            f"driver_address {address} cannot be listened on here: {error.strerror or error}",
            f"set {KEY}.driver_address to an address of this machine that nodes reach",
        )
    ranges = [cidr for rule in (group or {}).get("IpPermissions", ()) for cidr in _ranges(rule)]
    if any(ipaddress.ip_address(number) in ipaddress.ip_network(cidr, strict=False) for cidr in ranges):
        return ok("reachability", f"this machine listens on {address}, whose range the nodes' group lets in")
    here = whereabouts()
    if here is not None and group is not None and group["GroupId"] in here.groups:
        return ok("reachability", f"this machine listens on {address} and is in the nodes' group")
    return problem(
        "reachability",
        f"the nodes' group lets nothing in from {address}: Ray's head talks to every node",
        f"make a group that lets in itself and {number}/32 or your VPN's range, and name it in {KEY}.security_group",
    )


def _from_within(here: Whereabouts, vpc: str, group: Mapping[str, Any] | None) -> Finding:
    if here.vpc != vpc:
        return problem(
            "reachability",
            f"this machine ({here.instance}) is in {here.vpc}, and nodes would be in {vpc}",
            f"name subnets of {here.vpc} in {KEY}.subnets, or run this in {vpc}",
        )
    if group is None:
        return problem(
            "reachability",
            f"the nodes' group in {vpc} is yet to be made, so this machine ({here.instance}) cannot be in it",
            f"make it (docs/ec2.md has the commands), give it to this machine and name it in {KEY}.security_group",
        )
    if group["GroupId"] in here.groups:
        return ok("reachability", f"this machine ({here.instance}, {here.address}) is in the nodes' VPC and group")
    return problem(
        "reachability",
        f"this machine ({here.instance}) is in {vpc}, but not in the nodes' group {group['GroupId']}",
        f"give it the group: aws ec2 modify-instance-attribute --instance-id {here.instance} --groups "
        f"{' '.join((*here.groups, group['GroupId']))}",
    )


def _group(clients: Clients, settings: Ec2Settings, vpc: str) -> Mapping[str, Any] | None:
    if not settings.security_group:
        return groups.find(clients.control, vpc)
    with answering("ec2:DescribeSecurityGroups"):
        filters = [{"Name": "group-id", "Values": [settings.security_group]}]
        found = clients.control.describe_security_groups(Filters=filters)["SecurityGroups"]
    return found[0] if found else None


def _ranges(rule: Mapping[str, Any]) -> Sequence[str]:
    return [
        *(each["CidrIp"] for each in rule.get("IpRanges", ())),
        *(each["CidrIpv6"] for each in rule.get("Ipv6Ranges", ())),
    ]


def _admits_itself(group: Mapping[str, Any]) -> bool:
    return any(
        rule.get("IpProtocol") == "-1" and pair.get("GroupId") == group["GroupId"]
        for rule in group.get("IpPermissions", ())
        for pair in rule.get("UserIdGroupPairs", ())
    )
