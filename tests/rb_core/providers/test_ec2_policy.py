"""The policies give what the code calls, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from rb_core.errors import InvalidInput
from rb_core.providers.ec2 import agent
from rb_core.providers.ec2.policy import SIDES, actions, policy, purposes

SOURCES = Path(agent.__file__).parent
SERVICES = {"ec2": "ec2", "ssm": "ssm", "sts": "sts", "pricing": "pricing", "service-quotas": "servicequotas"}

GOES_ALONG = {
    "ec2:CreateTags": "the tags of RunInstances and CreateSecurityGroup",
    "ssm:AddTagsToResource": "the tags of PutParameter",
    "iam:PassRole": "the instance profile of RunInstances",
}
"""Rights that no call has the name of, with the call that needs them."""


@pytest.fixture(scope="module")
def operations():
    """The right of each method of a client."""
    session = botocore.session.get_session()
    return {
        xform_name(name): f"{prefix}:{name}"
        for service, prefix in SERVICES.items()
        for name in session.get_service_model(service).operation_names
    }


def called(source: str, operations) -> set[str]:
    """Rights of all methods of clients that a module names, as an attribute or as a paginator's name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        name = node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else None
        if isinstance(name, str) and name in operations:
            found.add(operations[name])
    return found


def granted(side: str) -> set[str]:
    return {action for statement in policy(side, storage="s3://bucket/p")["Statement"] for action in actions(statement)}


def test_the_driver_may_do_what_its_code_calls_and_no_more(operations):
    calls = {right for file in SOURCES.glob("*.py") for right in called(file.read_text(encoding="utf-8"), operations)}
    assert {"ec2:RunInstances", "ec2:DescribeInstances", "ssm:PutParameter"} <= calls
    assert {right for right in granted("driver") if not right.startswith("s3:")} == calls | set(GOES_ALONG)


def test_a_call_that_is_not_allowed_is_seen(operations):
    assert called("ec2.stop_instances(InstanceIds=[])", operations) == {"ec2:StopInstances"}
    assert called("client.get_paginator('describe_addresses')", operations) == {"ec2:DescribeAddresses"}


def test_a_node_may_read_its_entry_and_its_checkpoints_alone():
    assert "AmazonSSM.GetParameter" in Path(agent.__file__).read_text(encoding="utf-8")
    assert {right for right in granted("node") if not right.startswith("s3:")} == {"ssm:GetParameter"}
    assert not any("s3" in right for right in map(str, policy("node")["Statement"]))


@pytest.mark.parametrize("side", SIDES)
def test_each_right_says_what_it_is_for(side):
    assert set(purposes(side)) == granted(side)
    assert all(purposes(side).values())


def test_what_ends_or_rents_is_bound_to_our_tags():
    bound = {"ec2:TerminateInstances", "ec2:DeleteVolume", "ec2:CancelSpotInstanceRequests"}
    for statement in policy("driver")["Statement"]:
        if bound & set(actions(statement)):
            assert statement["Condition"] == {"Null": {"aws:ResourceTag/rubberband:run": "false"}}
        if "ec2:RunInstances" in actions(statement) and "arn:aws:ec2:*:*:instance/*" in statement["Resource"]:
            assert statement["Condition"] == {"Null": {"aws:RequestTag/rubberband:run": "false"}}


def test_a_whole_bucket_and_no_bucket():
    named = {each["Sid"]: each for each in policy("node", storage="s3://bucket")["Statement"]}
    assert named["KeepCheckpoints"]["Resource"] == "arn:aws:s3:::bucket/*"
    assert named["ListCheckpoints"]["Condition"] == {"StringLike": {"s3:prefix": "*"}}
    with pytest.raises(InvalidInput, match="SIDE"):
        policy("guest")
