"""Whether nodes reach the driver, with the pretended metadata of the driver's own instance."""

from __future__ import annotations

import pytest
from ec2_world import REGION, session
from faulty_ec2 import FaultyEC2

from rb_core.clock import ManualClock
from rb_core.inspection import Verdict
from rb_core.providers.ec2 import groups
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.reach import inspect_group, inspect_way
from rb_core.providers.ec2.settings import Ec2Settings


class Place:
    """An account with a VPC, our group in it, and a driver that is an instance or none."""

    def __init__(self, cloud: FaultyEC2, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cloud = cloud
        self.monkeypatch = monkeypatch
        self.clients = Clients(REGION, session=session(), endpoint=cloud.url)
        self.ec2 = self.clients.control
        self.vpc = self.ec2.describe_subnets(SubnetIds=[cloud.subnet()])["Subnets"][0]["VpcId"]

    def driver(self, group: str, subnet: str = "") -> str:
        """Have this program run on an instance of that group."""
        made = self.ec2.run_instances(
            ImageId=self.cloud.image(),
            InstanceType="t3.micro",
            MinCount=1,
            MaxCount=1,
            SubnetId=subnet or self.cloud.subnet(),
            SecurityGroupIds=[group],
        )
        instance = str(made["Instances"][0]["InstanceId"])
        self.cloud.tick()
        self.monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
        self.monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", self.cloud.metadata_url(instance))
        return instance

    def way(self, vpc: str = "", **settings: str):
        told = Ec2Settings(**settings)
        group = inspect_group(self.clients, told, vpc or self.vpc)[1]
        (found,) = inspect_way(told, vpc or self.vpc, group)
        return found


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch):
    with FaultyEC2(clock=ManualClock(), region=REGION) as cloud:
        yield Place(cloud, monkeypatch)


def test_a_driver_in_the_vpc_and_in_the_group_is_reached(place):
    instance = place.driver(groups.ensure(place.ec2, place.vpc, {}))
    found = place.way()
    assert found.verdict is Verdict.OK, found
    assert instance in found.said


def test_a_driver_in_the_vpc_and_not_in_the_group_is_told_how_to_join_it(place):
    group, own = groups.ensure(place.ec2, place.vpc, {}), place.cloud.group()
    instance = place.driver(own)
    found = place.way()
    assert found.verdict is Verdict.PROBLEM
    assert f"not in the nodes' group {group}" in found.said
    assert f"modify-instance-attribute --instance-id {instance} --groups {own} {group}" in found.remedy
    place.ec2.modify_instance_attribute(InstanceId=instance, Groups=[own, group])
    assert place.way().verdict is Verdict.OK


def test_before_there_is_a_group_no_driver_can_be_in_it(place):
    place.driver(place.cloud.group())
    found = place.way()
    assert found.verdict is Verdict.PROBLEM
    assert "yet to be made" in found.said


def test_a_driver_in_another_vpc_is_not_reached(place):
    groups.ensure(place.ec2, place.vpc, {})
    elsewhere = place.ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    subnet = place.ec2.create_subnet(VpcId=elsewhere, CidrBlock="10.77.0.0/24")["Subnet"]["SubnetId"]
    place.driver(groups.ensure(place.ec2, elsewhere, {}), subnet)
    found = place.way()
    assert found.verdict is Verdict.PROBLEM
    assert f"is in {elsewhere}, and nodes would be in {place.vpc}" in found.said
    assert f"name subnets of {elsewhere}" in found.remedy


@pytest.mark.parametrize(("admitted", "verdict"), [("127.0.0.0/24", Verdict.OK), ("10.8.0.0/24", Verdict.PROBLEM)])
def test_a_driver_in_a_vpn_is_reached_where_the_group_admits_its_range(place, monkeypatch, admitted, verdict):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    group = place.ec2.create_security_group(GroupName="tuning", Description="-", VpcId=place.vpc)["GroupId"]
    rule = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": admitted}]}
    place.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    found = place.way(driver_address="127.0.0.1", security_group=group)
    assert found.verdict is verdict, found
    if verdict is Verdict.PROBLEM:
        assert "127.0.0.1/32 or your VPN's range" in found.remedy
