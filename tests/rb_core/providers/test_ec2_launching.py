"""Renting: what is written before a call, what is repeated, and where the next one goes."""

from __future__ import annotations

import re

import pytest
from ec2_world import CPU, GPU, REGION, RUN, SPOT, world

from rb_core.errors import InvalidInput, LaunchFailure, NoAnswer, UnusableLog

A, B, C = (f"{REGION}{letter}" for letter in "abc")


def names(count: int, first: int = 0) -> list[str]:
    return [f"{RUN}-{number}" for number in range(first, first + count)]


def runs(cloud) -> list[dict[str, str]]:
    return [call.params for call in cloud.calls if call.action == "RunInstances"]


def test_a_call_is_written_down_before_it_is_made_and_says_all_that_a_node_needs():
    with world(own=[("tags", {"team": "vision"}), ("instance_profile", "node"), ("zones", [B])]) as w:
        w.cloud.profile("node")
        seen = []
        w.clients.launch.meta.events.register(
            "before-send.ec2.RunInstances", lambda **_: seen.extend(w.events("LaunchAttempted"))
        )
        w.provider.launch(names(2), SPOT, run=RUN)
        assert [event.nodes for event in seen] == [tuple(names(2))]
        assert seen[0].request["account"] == "123456789012"
        assert (seen[0].request["region"], seen[0].request["zone"], seen[0].request["market"]) == (REGION, B, "spot")
        (asked,) = runs(w.cloud)
        assert asked["ClientToken"] == seen[0].attempt
        assert asked["InstanceInitiatedShutdownBehavior"] == "terminate"
        assert asked["MetadataOptions.HttpTokens"] == "required"
        assert asked["MetadataOptions.HttpPutResponseHopLimit"] == "1"
        assert asked["BlockDeviceMapping.1.Ebs.DeleteOnTermination"] == "true"
        assert asked["BlockDeviceMapping.1.Ebs.Encrypted"] == "true"
        assert asked["InstanceMarketOptions.SpotOptions.SpotInstanceType"] == "one-time"
        assert asked["InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior"] == "terminate"
        assert not any("MaxPrice" in key for key in asked)
        kinds = [asked[f"TagSpecification.{number}.ResourceType"] for number in range(1, 5)]
        assert kinds == ["instance", "volume", "network-interface", "spot-instances-request"]
        for instance in w.cloud.instances():
            tags = instance.tags
            assert (tags["rubberband:run"], tags["rubberband:attempt"], tags["team"]) == (
                RUN,
                seen[0].attempt,
                "vision",
            )
            assert tags["rubberband:expires"] == "2000-01-02T00:00:00Z"
            assert instance.user_data.splitlines()[1] == "shutdown -h +1440"
        (granted,) = w.events("LaunchGranted")
        assert sorted(granted.instances) == sorted(each.id for each in w.cloud.instances())


def test_nothing_is_rented_when_it_cannot_be_written_down():
    with world() as w:
        w.log.full = True
        with pytest.raises(UnusableLog):
            w.provider.launch(names(1), CPU, run=RUN)
        assert "RunInstances" not in w.cloud.counts()
        assert w.provider.owned(RUN) == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [("drop_after", ""), ("drop_before", ""), ("error", "RequestLimitExceeded"), ("error", "InternalError")],
)
def test_a_call_without_an_answer_is_repeated_as_it_was_and_obeyed_once(kind, code):
    with world() as w:
        w.cloud.fault("RunInstances", kind, code=code, times=2)
        for _ in range(2):
            with pytest.raises(NoAnswer):
                w.provider.launch(names(3), CPU, run=RUN)
        w.provider.launch(names(3), CPU, run=RUN)
        asked = runs(w.cloud)
        assert len(asked) == 3
        assert asked[0] == asked[1] == asked[2]
        assert len(w.cloud.alive()) == 3
        assert len(w.events("LaunchAttempted")) == len(w.events("LaunchGranted")) == 1


def test_what_was_given_back_while_there_was_no_answer_ends_when_there_is_one():
    with world(boot_s=10.0) as w:
        w.cloud.fault("RunInstances", "drop_after")
        with pytest.raises(NoAnswer):
            w.provider.launch(names(3), CPU, run=RUN)
        w.provider.release(names(2))
        w.provider.launch(names(1, 2), CPU, run=RUN)
        assert w.kinds(60.0) == [f"{RUN}-2 running", f"{RUN}-2 ready"]
        assert [each.launch_index for each in w.cloud.alive()] == [2]
        assert w.provider.owned(RUN) == names(1, 2)


def test_a_call_that_nobody_repeats_is_looked_for_until_the_grace_is_over():
    with world() as w:
        w.cloud.fault("RunInstances", "drop_before")
        with pytest.raises(NoAnswer):
            w.provider.launch(names(1), CPU, run=RUN)
        assert w.provider.owned(RUN) == names(1)
        assert w.kinds(29.0) == []
        assert w.kinds(10.0) == [f"{RUN}-0 lost"]
        assert w.provider.owned(RUN) == []
        assert len(w.events("LaunchRefused")) == 1


def test_no_capacity_is_asked_for_once_in_each_zone_and_what_there_is_is_taken():
    capacity = {("g4dn.12xlarge", A, "on_demand"): 0, ("g4dn.12xlarge", B, "on_demand"): 2}
    with world(capacity=capacity) as w:
        w.provider.launch(names(4), GPU, run=RUN)
        asked = [(event.request["zone"], event.request["count"]) for event in w.events("LaunchAttempted")]
        assert asked == [(A, 4), (B, 4), (C, 2)]
        assert w.cloud.counts()["RunInstances"] == 3
        tokens = {call["ClientToken"] for call in runs(w.cloud)}
        assert len(tokens) == 3
        assert sorted(each.zone for each in w.cloud.alive()) == [B, B, C, C]
        assert [event.reason.partition(":")[0] for event in w.events("LaunchRefused")] == [
            "InsufficientInstanceCapacity"
        ]


def test_when_no_zone_has_any_every_one_is_named_and_left_alone_for_three_minutes():
    capacity = {("g4dn.12xlarge", zone, "on_demand"): 0 for zone in (A, B)}
    with world(capacity=capacity, unsupported=[("g4dn.12xlarge", C)]) as w:
        with pytest.raises(LaunchFailure) as caught:
            w.provider.launch(names(2), GPU, run=RUN)
        said = str(caught.value)
        assert f"{A}: InsufficientInstanceCapacity" in said
        assert f"{C}: Unsupported" in said
        with pytest.raises(LaunchFailure, match="a short while ago"):
            w.provider.launch(names(2, 2), GPU, run=RUN)
        assert w.cloud.counts()["RunInstances"] == 3
        w.wait(181.0)
        w.cloud.capacity.clear()
        w.provider.launch(names(2, 4), GPU, run=RUN)
        assert len(w.cloud.alive()) == 2
        assert w.provider.owned(RUN) == names(2, 4)


def test_a_quota_gives_as_many_as_it_allows():
    with world(quota={("g", "on_demand"): 96}) as w:
        w.provider.launch(names(4), GPU, run=RUN)
        assert len(w.cloud.alive()) == 2
        assert w.kinds(0.0) == [f"{RUN}-2 lost", f"{RUN}-3 lost"]


def test_a_quota_of_nothing_is_the_users_to_change():
    with world(quota={("g", "on_demand"): 0, ("g", "spot"): 0}) as w:
        with pytest.raises(InvalidInput, match=r"cloud\.instance_types.*quota for 'g4dn\.12xlarge'.* is 0") as caught:
            w.provider.launch(names(1), GPU, run=RUN)
        assert caught.value.exit_status == 2
        with pytest.raises(LaunchFailure, match="MaxSpotInstanceCountExceeded"):
            w.provider.launch(names(1, 1), SPOT, run=RUN)
        assert w.provider.owned(RUN) == []
        assert w.cloud.instances() == []


def test_nodes_that_trials_span_stand_in_one_zone_and_rather_in_one_that_has_all():
    capacity = {("g4dn.12xlarge", A, "on_demand"): 3, ("g4dn.12xlarge", B, "on_demand"): 6}
    with world(capacity=capacity) as w:
        w.provider.together(True)
        w.provider.launch(names(5), GPU, run=RUN)
        assert {each.zone for each in w.cloud.alive()} == {B}
        w.provider.launch(names(3, 5), GPU, run=RUN)
        assert {each.zone for each in w.cloud.alive()} == {B}
        assert len(w.cloud.alive()) == 6
        assert w.kinds(0.0)[:2] == [f"{RUN}-6 lost", f"{RUN}-7 lost"]
        w.provider.release(names(6))
        w.wait(200.0)
        w.cloud.capacity[("g4dn.12xlarge", A, "on_demand")] = 0
        w.provider.launch(names(1, 8), GPU, run=RUN)
        assert [each.zone for each in w.cloud.alive()] == [B]


@pytest.mark.parametrize("code", ["IdempotentInstanceTerminated", "IdempotentParameterMismatch"])
def test_a_token_that_is_used_up_means_that_its_launch_is_gone(code):
    with world() as w:
        w.cloud.fault("RunInstances", "drop_before")
        with pytest.raises(NoAnswer):
            w.provider.launch(names(1), CPU, run=RUN)
        w.cloud.fault("RunInstances", "error", code=code)
        w.provider.launch(names(1), CPU, run=RUN)
        asked = runs(w.cloud)
        assert asked[0]["ClientToken"] == asked[1]["ClientToken"] != asked[2]["ClientToken"]
        assert len(w.cloud.alive()) == 1


def test_the_group_of_nodes_lets_in_nothing_from_outside_and_is_made_once():
    with world() as w:
        w.provider.launch(names(1), CPU, run=RUN)
        w.resume()
        w.provider.launch(names(1, 1), CPU, run=RUN)
        assert w.cloud.counts()["CreateSecurityGroup"] == 1
        made = w.clients.control.describe_security_groups(
            Filters=[{"Name": "group-name", "Values": ["rubberband-nodes"]}]
        )["SecurityGroups"]
        (rule,) = made[0]["IpPermissions"]
        assert not rule["IpRanges"]
        assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [made[0]["GroupId"]]
        w.clients.control.authorize_security_group_ingress(
            GroupId=made[0]["GroupId"], IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="0.0.0.0/0"
        )
        w.resume()
        with pytest.raises(InvalidInput, match="lets in more than traffic within itself"):
            w.provider.launch(names(1, 2), CPU, run=RUN)


def test_sixty_four_nodes_take_at_most_twenty_five_calls_their_wait_and_their_end_included():
    with world(boot_s=90.0) as w:
        w.provider.launch(names(64), CPU, run=RUN)
        said = w.kinds(100.0)
        assert len(said) == 128
        w.provider.release(names(64))
        assert w.provider.owned(RUN) == []
        calls = sum(w.cloud.counts().values())
        assert calls <= 25, w.cloud.counts()
        assert re.fullmatch("[0-9a-f]{32}", runs(w.cloud)[0]["ClientToken"])
