"""The security group of nodes: one for each VPC, which outlives runs and lets nothing in from outside of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.providers.ec2 import tags as tag
from rb_core.providers.ec2.refusals import CallRefused, answering
from rb_core.providers.ec2.settings import KEY

NAME = "rubberband-nodes"
"""Name of the group, and the value of its tag."""


def ensure(ec2: Any, vpc: str, own_tags: Mapping[str, str]) -> str:
    """Id of the VPC's group for nodes, which is made where there is none. Idempotent.

    Args:
        ec2: a client that repeats its calls.
        vpc: id of the VPC.
        own_tags: the user's, for a new one.

    Raises:
        InvalidInput: the group that is there is not as it must be, or may not be made.
        NoAnswer: EC2 did not answer.
    """
    try:
        group = find(ec2, vpc)
        if group is None:
            return _make(ec2, vpc, own_tags)
        if open_to_others(group):
            raise InvalidInput(
                f"{KEY}.security_group",
                f"our group {group['GroupId']} ({NAME}) lets in more than traffic within itself; remove those rules, "
                "or name a group of your own here",
            )
        if not group.get("IpPermissions"):
            _open_within(ec2, group["GroupId"])
        return str(group["GroupId"])
    except CallRefused as refused:
        raise refused.as_input() from refused


def find(ec2: Any, vpc: str) -> Mapping[str, Any] | None:
    """The VPC's group for nodes as EC2 describes it; None where there is none. Raises as `answering`."""
    with answering("ec2:DescribeSecurityGroups"):
        groups = ec2.describe_security_groups(
            Filters=[{"Name": "vpc-id", "Values": [vpc]}, {"Name": f"tag:{tag.SHARED}", "Values": [NAME]}]
        )["SecurityGroups"]
    return groups[0] if groups else None


def open_to_others(group: Mapping[str, Any]) -> bool:
    """Whether the group lets in what does not come from within itself."""
    return any(
        rule.get("IpRanges")
        or rule.get("Ipv6Ranges")
        or rule.get("PrefixListIds")
        or any(pair.get("GroupId") != group["GroupId"] for pair in rule.get("UserIdGroupPairs", ()))
        for rule in group.get("IpPermissions", ())
    )


def _make(ec2: Any, vpc: str, own_tags: Mapping[str, str]) -> str:
    tags = {**own_tags, tag.SHARED: NAME, tag.NAME: NAME}
    try:
        with answering("ec2:CreateSecurityGroup"):
            made = ec2.create_security_group(
                GroupName=NAME,
                Description="Nodes of RubberBand: traffic within the group alone",
                VpcId=vpc,
                TagSpecifications=[{"ResourceType": "security-group", "Tags": tag.listed(tags)}],
            )
    except CallRefused as refused:
        if refused.code != "InvalidGroup.Duplicate":
            raise
        # Another run made it a moment ago, unless it is none of ours.
        group = find(ec2, vpc)
        if group is None:
            raise InvalidInput(
                f"{KEY}.security_group",
                f"{vpc} has a group {NAME!r} without our tag {tag.SHARED}; name it here if nodes may use it, or rename "
                "it",
            ) from refused
        return str(group["GroupId"])
    _open_within(ec2, made["GroupId"])
    return str(made["GroupId"])


def _open_within(ec2: Any, group: str) -> None:
    try:
        with answering("ec2:AuthorizeSecurityGroupIngress"):
            ec2.authorize_security_group_ingress(
                GroupId=group, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
            )
    except CallRefused as refused:
        if refused.code != "InvalidPermission.Duplicate":
            raise
