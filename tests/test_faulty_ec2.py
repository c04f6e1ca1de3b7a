"""The pretended EC2 itself, through real clients."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from botocore.parsers import ResponseParserError
from faulty_ec2 import CREDENTIALS, FaultyEC2, use

from rb_core.clock import ManualClock

SESSION = boto3.Session(**CREDENTIALS)
GPU = "g4dn.xlarge"
SPOT = {"MarketType": "spot"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cloud(clock: ManualClock) -> Iterator[FaultyEC2]:
    with FaultyEC2(clock=clock) as made:
        yield made


@cache
def made_client(url: str, service: str, region: str, patience_s: float, **credentials: str) -> Any:
    config = Config(retries={"total_max_attempts": 1}, read_timeout=patience_s)
    return SESSION.client(service, region_name=region, endpoint_url=url, config=config, **credentials)


def client(
    cloud: FaultyEC2, service: str = "ec2", region: str = "us-east-1", patience_s: float = 60.0, **credentials: str
) -> Any:
    """One attempt a call, so that a test counts what it sends."""
    return made_client(cloud.url, service, region, patience_s, **credentials)


def run(cloud: FaultyEC2, count: int = 1, least: int | None = None, **more: Any) -> list[str]:
    """Launch; the ids."""
    region, patience_s = more.pop("region", "us-east-1"), more.pop("patience_s", 60.0)
    asked = {"ImageId": cloud.image(region), "InstanceType": GPU, "MinCount": least or count, "MaxCount": count, **more}
    answer = client(cloud, region=region, patience_s=patience_s).run_instances(**asked)
    return [made["InstanceId"] for made in answer["Instances"]]


def listed(cloud: FaultyEC2, **asked: Any) -> dict[str, str]:
    """Ids and states."""
    pages = client(cloud).get_paginator("describe_instances").paginate(**asked)
    return {
        made["InstanceId"]: made["State"]["Name"]
        for page in pages
        for reservation in page["Reservations"]
        for made in reservation["Instances"]
    }


@contextmanager
def refused(code: str, status: int = 400) -> Iterator[None]:
    with pytest.raises(ClientError) as caught:
        yield
    response = caught.value.response
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)


def to(clock: ManualClock, at_s: float) -> None:
    clock.advance(at_s)


# Tokens


def test_a_token_that_comes_again_launches_nothing_more(cloud):
    first = run(cloud, 2, ClientToken="a")
    assert run(cloud, 2, ClientToken="a") == first
    assert run(cloud, 2, ClientToken="b") != first
    assert len(cloud.alive()) == 4


def test_a_token_is_bound_to_its_request_and_its_zone(cloud):
    def run_in(letter: str, count: int = 1) -> list[str]:
        return run(cloud, count, ClientToken="a", Placement={"AvailabilityZone": f"us-east-1{letter}"})

    first = run_in("a")
    with refused("IdempotentParameterMismatch"):
        run_in("a", 2)
    assert run_in("b") != first


def test_the_token_of_a_terminated_launch_is_refused(cloud):
    (instance,) = run(cloud, ClientToken="a")
    client(cloud).terminate_instances(InstanceIds=[instance])
    with refused("IdempotentInstanceTerminated"):
        run(cloud, ClientToken="a")


def test_a_token_that_was_refused_may_launch_later(cloud):
    pool = (GPU, "us-east-1a", "on_demand")
    where = {"ClientToken": "a", "Placement": {"AvailabilityZone": "us-east-1a"}}
    cloud.capacity[pool] = 0
    with refused("InsufficientInstanceCapacity", 500):
        run(cloud, **where)
    cloud.capacity[pool] = 1
    assert len(run(cloud, **where)) == 1


# Capacity and quota


def test_a_pool_gives_what_it_has_from_min_to_max_count_and_takes_it_back(cloud):
    pool = (GPU, "us-east-1b", "spot")
    cloud.capacity[pool] = 5
    where = {"SubnetId": cloud.subnet("us-east-1b"), "InstanceMarketOptions": SPOT}
    with refused("InsufficientInstanceCapacity", 500):
        run(cloud, 8, **where)
    made = run(cloud, 8, 1, **where)
    assert len(made) == 5
    assert [i.launch_index for i in cloud.instances()] == [0, 1, 2, 3, 4]
    assert {(i.zone, i.market) for i in cloud.instances()} == {("us-east-1b", "spot")}
    client(cloud).terminate_instances(InstanceIds=made[:2])
    client(cloud).terminate_instances(InstanceIds=made[:2])
    assert cloud.capacity[pool] == 2


def test_without_a_zone_one_with_capacity_is_taken(cloud):
    cloud.capacity[GPU, "us-east-1a", "on_demand"] = 0
    run(cloud)
    assert [i.zone for i in cloud.alive()] == ["us-east-1b"]


def test_quotas_are_in_vcpus_of_a_family_and_market(cloud):
    cloud.quota = {("g", "on_demand"): 8, ("g", "spot"): 0}
    made = run(cloud, 2)
    with refused("VcpuLimitExceeded"):
        run(cloud)
    with refused("MaxSpotInstanceCountExceeded"):
        run(cloud, InstanceMarketOptions=SPOT)
    assert len(run(cloud, InstanceType="m5.large")) == 1
    client(cloud).terminate_instances(InstanceIds=made[:1])
    assert len(run(cloud)) == 1


def test_spot_instances_count_towards_the_quota_until_they_are_terminated(cloud, clock):
    cloud.shutdown_s, cloud.quota = 20.0, {("g", "spot"): 4}
    client(cloud).terminate_instances(InstanceIds=run(cloud, InstanceMarketOptions=SPOT))
    with refused("MaxSpotInstanceCountExceeded"):
        run(cloud, InstanceMarketOptions=SPOT)
    to(clock, 20.0)
    assert len(run(cloud, InstanceMarketOptions=SPOT)) == 1


# Launch requests that are wrong


def test_what_a_launch_may_not_ask_for(cloud):
    cloud.unsupported = {(GPU, "us-east-1e")}
    with refused("InvalidParameterValue"):
        run(cloud, InstanceType="p99.large")
    with refused("InvalidAMIID.NotFound"):
        run(cloud, ImageId=cloud.image("us-west-2"))
    with refused("Unsupported"):
        run(cloud, Placement={"AvailabilityZone": "us-east-1e"})
    with refused("InvalidParameterValue"):
        run(cloud, Placement={"AvailabilityZone": "us-west-2a"})
    with refused("InvalidSubnetID.NotFound"):
        run(cloud, SubnetId="subnet-0123456789abcdef0")
    with refused("UnsupportedOperation"):
        run(cloud, InstanceMarketOptions={**SPOT, "SpotOptions": {"SpotInstanceType": "persistent"}})
    with refused("InvalidParameterValue"):
        run(cloud, 1, 2)
    assert cloud.instances() == []


def test_user_data_has_16_kib_before_it_is_encoded(cloud):
    (instance,) = run(cloud, UserData="x" * 16384)
    assert len(next(i for i in cloud.alive() if i.id == instance).user_data) == 16384
    with refused("InvalidParameterValue"):
        run(cloud, UserData="x" * 16385)


def test_a_dry_run_checks_and_changes_nothing(cloud):
    with refused("DryRunOperation", 412):
        run(cloud, DryRun=True)
    with refused("InvalidParameterValue"):
        run(cloud, DryRun=True, InstanceType="p99.large")
    with refused("DryRunOperation", 412):
        client(cloud).describe_instances(DryRun=True)
    cloud.access.denied.add("ec2:RunInstances")
    with refused("UnauthorizedOperation", 403):
        run(cloud, DryRun=True)
    assert cloud.instances() == []


# Lifecycle


def test_an_instance_boots_in_its_time_and_shuts_down_in_its_time(cloud, clock):
    cloud.boot_s, cloud.shutdown_s, cloud.vanish_s = 40.0, 20.0, 100.0
    (instance,) = run(cloud)
    states = []
    for at_s in (39.0, 40.0, 90.0):
        to(clock, at_s)
        states.append(listed(cloud)[instance])
    client(cloud).terminate_instances(InstanceIds=[instance])
    for at_s in (109.0, 110.0, 209.0):
        to(clock, at_s)
        states.append(listed(cloud)[instance])
    assert states == ["pending", "running", "running", "shutting-down", "terminated", "terminated"]
    to(clock, 210.0)
    assert listed(cloud) == {}
    with refused("InvalidInstanceID.NotFound"):
        client(cloud).terminate_instances(InstanceIds=[instance])


def test_an_instance_is_not_seen_at_once(cloud, clock):
    cloud.visible_s = 12.0
    (instance,) = run(cloud)
    assert listed(cloud) == {}
    with refused("InvalidInstanceID.NotFound"):
        listed(cloud, InstanceIds=[instance])
    with refused("InvalidInstanceID.NotFound"):
        client(cloud).terminate_instances(InstanceIds=[instance])
    assert [(i.id, i.visible) for i in cloud.alive()] == [(instance, False)]
    to(clock, 12.0)
    assert listed(cloud, InstanceIds=[instance]) == {instance: "running"}


def test_one_that_ends_before_it_is_seen_leaves_nothing(cloud, clock):
    cloud.visible_s = 12.0
    (instance,) = run(cloud)
    cloud.fail(instance)
    assert (cloud.alive(), cloud.leaked_volumes(), listed(cloud)) == ([], [], {})
    to(clock, 12.0)
    assert listed(cloud) == {instance: "terminated"}


def test_some_never_get_running_and_some_end_instead(cloud, clock):
    cloud.boot_s, cloud.stuck_next, cloud.doomed_next = 40.0, 1, ["", "Client.VolumeLimitExceeded"]
    stuck, doomed, good = run(cloud, 3)
    to(clock, 1000.0)
    assert listed(cloud) == {stuck: "pending", doomed: "terminated", good: "running"}
    (made,) = client(cloud).describe_instances(InstanceIds=[doomed])["Reservations"][0]["Instances"]
    assert made["StateReason"]["Code"] == "Client.VolumeLimitExceeded"


def test_what_a_shutdown_within_means_is_said_at_launch(cloud):
    (ends,) = run(cloud, InstanceInitiatedShutdownBehavior="terminate")
    (stops,) = run(cloud)
    for instance in (ends, stops):
        urllib.request.urlopen(f"{cloud.url}/ctl/shutdown/{instance}", b"").read()
    assert listed(cloud) == {ends: "terminated", stops: "stopped"}
    assert [(i.id, i.reason) for i in cloud.alive()] == [(stops, "Client.InstanceInitiatedShutdown")]
    assert len(client(cloud).describe_volumes()["Volumes"]) == 1


def test_stopped_instances_start_again_and_spot_instances_do_not_stop(cloud, clock):
    (instance,) = run(cloud)
    to(clock, 10.0)
    client(cloud).stop_instances(InstanceIds=[instance])
    to(clock, 1000.0)
    client(cloud).start_instances(InstanceIds=[instance])
    assert listed(cloud) == {instance: "running"}
    to(clock, 1100.0)
    assert [c.seconds for c in cloud.bill({(GPU, "on_demand"): 1.0}).charges if c.what == "instance"] == [60, 100]
    with refused("UnsupportedOperation"):
        client(cloud).stop_instances(InstanceIds=run(cloud, InstanceMarketOptions=SPOT))


def test_callbacks_are_told_of_begin_and_end(clock):
    told: list[tuple[str, str]] = []
    with FaultyEC2(
        clock=clock,
        boot_s=5.0,
        on_boot=lambda i: told.append((i.id, i.user_data)),
        on_end=lambda i: told.append((i.id, i.reason)),
    ) as cloud:
        (instance,) = run(cloud, UserData="#!/bin/sh")
        assert told == []
        to(clock, 5.0)
        cloud.tick()
        client(cloud).terminate_instances(InstanceIds=[instance])
    assert told == [(instance, "#!/bin/sh"), (instance, "Client.UserInitiatedShutdown")]


# Ending


def test_one_bad_id_and_none_is_terminated(cloud):
    (instance,) = run(cloud)
    with refused("InvalidInstanceID.NotFound"):
        client(cloud).terminate_instances(InstanceIds=[instance, "i-0123456789abcdef0"])
    with refused("InvalidInstanceID.Malformed"):
        client(cloud).terminate_instances(InstanceIds=[instance, "node-1"])
    assert listed(cloud) == {instance: "running"}


def test_protection_guards_a_zone_and_can_be_taken_off(cloud):
    (guarded,) = run(cloud, DisableApiTermination=True, Placement={"AvailabilityZone": "us-east-1a"})
    (same,) = run(cloud, Placement={"AvailabilityZone": "us-east-1a"})
    (other,) = run(cloud, Placement={"AvailabilityZone": "us-east-1b"})
    everything = [other, guarded, same]
    with refused("OperationNotPermitted"):
        client(cloud).terminate_instances(InstanceIds=everything)
    assert listed(cloud) == {guarded: "running", same: "running", other: "terminated"}
    client(cloud).modify_instance_attribute(InstanceId=guarded, DisableApiTermination={"Value": False})
    client(cloud).terminate_instances(InstanceIds=everything)
    assert cloud.alive() == []


def test_a_volume_stays_unless_it_is_deleted_with_its_instance(cloud):
    def disk(name: str, deleted: bool) -> dict[str, Any]:
        return {"DeviceName": name, "Ebs": {"VolumeSize": 100, "VolumeType": "gp3", "DeleteOnTermination": deleted}}

    (instance,) = run(cloud, BlockDeviceMappings=[disk("/dev/sda1", True), disk("/dev/sdb", False)])
    assert cloud.leaked_volumes() == []
    client(cloud).terminate_instances(InstanceIds=[instance])
    (left,) = cloud.leaked_volumes()
    client(cloud).delete_volume(VolumeId=left)
    assert cloud.leaked_volumes() == []


def test_a_group_in_use_is_not_deleted(cloud, clock):
    cloud.shutdown_s = 20.0
    ec2 = client(cloud)
    group = ec2.create_security_group(GroupName="nodes", Description="nodes")["GroupId"]
    (instance,) = run(cloud, SecurityGroupIds=[group])
    for _ in range(2):
        with refused("DependencyViolation"):
            ec2.delete_security_group(GroupId=group)
        ec2.terminate_instances(InstanceIds=[instance])
    to(clock, 20.0)
    ec2.delete_security_group(GroupId=group)


# Spot


def test_a_spot_instance_has_a_request_that_ends_with_it(cloud):
    tags = [{"ResourceType": "spot-instances-request", "Tags": [{"Key": "run", "Value": "x"}]}]
    first, second = run(cloud, 2, InstanceMarketOptions=SPOT, TagSpecifications=tags)
    found = client(cloud).describe_spot_instance_requests(Filters=[{"Name": "tag:run", "Values": ["x"]}])
    requests = {r["InstanceId"]: r["SpotInstanceRequestId"] for r in found["SpotInstanceRequests"]}
    assert requests.keys() == {first, second}
    client(cloud).terminate_instances(InstanceIds=[first])
    assert cloud.open_spot_requests() == [requests[second]]
    client(cloud).cancel_spot_instance_requests(SpotInstanceRequestIds=[requests[second]])
    assert (cloud.open_spot_requests(), [i.id for i in cloud.alive()]) == ([], [second])


def test_an_interruption_comes_with_a_notice_without_or_not_at_all(cloud, clock):
    told, sudden, spared = run(cloud, 3, InstanceMarketOptions=SPOT)
    cloud.interrupt(told, 120.0)
    cloud.interrupt(sudden, 0.0)
    cloud.interrupt(spared, 120.0, comes_true=False)
    assert listed(cloud) == {told: "running", sudden: "terminated", spared: "running"}
    notice = {"action": "terminate", "time": "2000-01-01T00:02:00Z"}
    for instance in (told, spared):
        assert json.loads(metadata(cloud, instance, "meta-data/spot/instance-action")) == notice
    to(clock, 120.0)
    assert listed(cloud) == {told: "terminated", sudden: "terminated", spared: "running"}
    assert {i.id: i.reason for i in cloud.instances()}[told] == "Server.SpotInstanceTermination"
    with pytest.raises(ValueError, match="no spot instance"):
        cloud.interrupt(run(cloud)[0])


def test_spot_prices_are_those_that_were_set(cloud):
    cloud.spot_usd_per_hour = {(GPU, "us-east-1a"): 0.16, (GPU, "us-west-2a"): 0.2, ("g5.xlarge", "us-east-1a"): 0.4}
    found = client(cloud).describe_spot_price_history(InstanceTypes=[GPU])["SpotPriceHistory"]
    assert [(row["AvailabilityZone"], float(row["SpotPrice"])) for row in found] == [("us-east-1a", 0.16)]


# Metadata


def metadata(cloud: FaultyEC2, instance: str, path: str, lives_s: int = 60) -> str:
    base = cloud.metadata_url(instance)
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(lives_s)}
    asked = urllib.request.Request(f"{base}/latest/api/token", method="PUT", headers=headers)
    token = urllib.request.urlopen(asked).read().decode()
    return read(f"{base}/latest/{path}", token)


def read(url: str, token: str) -> str:
    asked = urllib.request.Request(url, headers={"X-aws-ec2-metadata-token": token})
    return str(urllib.request.urlopen(asked).read().decode())


@contextmanager
def http_error(status: int) -> Iterator[None]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        yield
    assert caught.value.code == status
    caught.value.close()


def test_each_instance_is_told_about_itself(cloud):
    first, second = run(cloud, 2, UserData="hello", InstanceMarketOptions=SPOT, SubnetId=cloud.subnet("us-east-1b"))
    assert metadata(cloud, first, "meta-data/instance-id") == first
    assert metadata(cloud, second, "meta-data/ami-launch-index") == "1"
    assert metadata(cloud, second, "meta-data/placement/availability-zone") == "us-east-1b"
    assert metadata(cloud, second, "meta-data/instance-life-cycle") == "spot"
    assert metadata(cloud, second, "user-data") == "hello"
    assert json.loads(metadata(cloud, second, "dynamic/instance-identity/document"))["region"] == "us-east-1"
    mac = metadata(cloud, second, "meta-data/network/interfaces/macs/").strip("/")
    assert metadata(cloud, second, f"meta-data/network/interfaces/macs/{mac}/subnet-id") == cloud.subnet("us-east-1b")
    for path in ("spot/instance-action", "events/recommendations/rebalance", "iam/security-credentials/"):
        with http_error(404):
            metadata(cloud, second, f"meta-data/{path}")
    cloud.rebalance(second)
    assert "noticeTime" in metadata(cloud, second, "meta-data/events/recommendations/rebalance")


def test_metadata_wants_a_session_that_is_its_own_and_young(cloud, clock):
    first, second = run(cloud, 2)
    url = f"{cloud.metadata_url(first)}/latest"
    with http_error(401):
        read(f"{url}/meta-data/instance-id", "")
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    asked = urllib.request.Request(f"{url}/api/token", method="PUT", headers=headers)
    token = urllib.request.urlopen(asked).read().decode()
    with http_error(401):
        read(f"{cloud.metadata_url(second)}/latest/meta-data/instance-id", token)
    assert read(f"{url}/meta-data/instance-id", token) == first
    to(clock, 60.0)
    with http_error(401):
        read(f"{url}/meta-data/instance-id", token)


def test_a_fault_of_the_metadata_service_is_one_of_no_other(cloud):
    (instance,) = run(cloud)
    fault = cloud.fault("imds", "error", code="InternalError", when=lambda call: "spot" in call.params["path"])
    with http_error(500):
        metadata(cloud, instance, "meta-data/spot/instance-action")
    with http_error(404):
        metadata(cloud, instance, "meta-data/spot/instance-action")
    assert fault.hits == 1


def node_credentials(cloud: FaultyEC2, instance: str) -> dict[str, str]:
    given = json.loads(metadata(cloud, instance, "meta-data/iam/security-credentials/node"))
    return {
        "aws_access_key_id": given["AccessKeyId"],
        "aws_secret_access_key": given["SecretAccessKey"],
        "aws_session_token": given["Token"],
    }


def test_a_node_reads_its_parameter_and_has_no_right_in_ec2(cloud):
    (instance,) = run(cloud, IamInstanceProfile={"Name": cloud.profile("node")})
    assert metadata(cloud, instance, "meta-data/iam/security-credentials/") == "node"
    client(cloud, "ssm").put_parameter(Name="/run/secret", Value="token", Type="SecureString")
    its = node_credentials(cloud, instance)
    read_it = client(cloud, "ssm", **its).get_parameter(Name="/run/secret", WithDecryption=True)
    assert read_it["Parameter"]["Value"] == "token"
    assert client(cloud, "sts", **its).get_caller_identity()["Account"] == "123456789012"
    with refused("UnauthorizedOperation", 403):
        client(cloud, **its).terminate_instances(InstanceIds=[instance])
    with refused("AccessDeniedException"):
        client(cloud, "ssm", **its).put_parameter(Name="/run/secret", Value="x", Type="String", Overwrite=True)


def test_a_node_that_signs_wrongly_is_refused(cloud):
    (instance,) = run(cloud, IamInstanceProfile={"Name": cloud.profile("node")})
    its = node_credentials(cloud, instance)
    with refused("InvalidSignatureException"):
        client(cloud, "ssm", **{**its, "aws_secret_access_key": "other"}).get_parameter(Name="/run/secret")
    with refused("UnrecognizedClientException"):
        client(cloud, "ssm", **{**its, "aws_session_token": "other"}).get_parameter(Name="/run/secret")
    s3 = client(cloud, "s3", **its)
    s3.create_bucket(Bucket="checkpoints")
    s3.put_object(Bucket="checkpoints", Key="a b/c+d", Body=b"state")
    assert s3.get_object(Bucket="checkpoints", Key="a b/c+d")["Body"].read() == b"state"


# Access


def test_credentials_that_expire_are_refused_as_each_service_does(cloud, clock):
    cloud.expire_credentials(100.0)
    (instance,) = run(cloud)
    to(clock, 100.0)
    with refused("RequestExpired"):
        client(cloud).terminate_instances(InstanceIds=[instance])
    with refused("ExpiredToken"):
        client(cloud, "sts").get_caller_identity()
    with refused("ExpiredTokenException"):
        client(cloud, "ssm").get_parameter(Name="/a")
    assert [i.id for i in cloud.alive()] == [instance]


def test_wrong_credentials_are_refused_as_each_service_does(cloud):
    cloud.access.wrong = True
    with refused("AuthFailure", 401):
        listed(cloud)
    with refused("InvalidClientTokenId", 403):
        client(cloud, "sts").get_caller_identity()


def test_a_denied_tag_denies_the_launch(cloud):
    cloud.access.denied = {"ec2:CreateTags/volume", "s3:*"}
    tags = [{"Key": "run", "Value": "x"}]
    run(cloud, TagSpecifications=[{"ResourceType": "instance", "Tags": tags}])
    with refused("UnauthorizedOperation", 403):
        run(cloud, TagSpecifications=[{"ResourceType": "volume", "Tags": tags}])
    with refused("AccessDenied", 403):
        client(cloud, "s3").list_buckets()


# Faults


def test_an_error_is_answered_so_often_and_changes_nothing(cloud):
    fault = cloud.fault("RunInstances", "error", code="RequestLimitExceeded", times=2, after=1)
    run(cloud)
    for _ in range(2):
        with refused("RequestLimitExceeded", 503):
            run(cloud)
    run(cloud)
    assert (fault.hits, len(cloud.alive()), cloud.counts()) == (2, 2, {"RunInstances": 4})
    assert [call.outcome for call in cloud.calls] == ["ok", *["RequestLimitExceeded"] * 2, "ok"]


def test_an_answer_is_lost_after_the_deed_or_before(cloud):
    cloud.fault("RunInstances", "drop_after")
    with pytest.raises(ConnectionClosedError):
        run(cloud, ClientToken="a")
    cloud.fault("RunInstances", "drop_before")
    with pytest.raises(ConnectionClosedError):
        run(cloud, ClientToken="b")
    (made,) = cloud.alive()
    assert run(cloud, ClientToken="a") == [made.id]
    assert [call.outcome for call in cloud.calls] == ["lost", "dropped", "ok"]


def test_an_answer_may_never_come(cloud):
    cloud.fault("RunInstances", "hang", when=lambda call: call.params["MaxCount"] == "2")
    run(cloud)
    with pytest.raises(ReadTimeoutError):
        run(cloud, 2, patience_s=0.1)
    assert len(cloud.alive()) == 3


def test_a_late_answer_comes(cloud):
    fault = cloud.fault("*", "delay", seconds=0.05, times=None)
    run(cloud)
    fault.cancel()
    run(cloud)
    assert (fault.hits, len(cloud.alive())) == (1, 2)


def test_a_fault_without_sense_is_refused(cloud):
    with pytest.raises(ValueError, match="takes a code"):
        cloud.fault("RunInstances", "error")
    with pytest.raises(ValueError, match="nonsense"):
        cloud.fault("RunInstances", "nonsense")


# Listing


def test_whoever_turns_no_page_sees_the_first_100_launches(cloud):
    for _ in range(101):
        cloud.backend("us-east-1").run_instances(cloud.image(), 1, None, [], is_instance_type_default=True)
    once = client(cloud).describe_instances()
    assert (len(once["Reservations"]), "NextToken" in once, len(listed(cloud))) == (100, True, 101)
    with refused("InvalidParameterCombination"):
        client(cloud).describe_instances(InstanceIds=list(listed(cloud))[:1], MaxResults=5)


def test_filters_that_moto_lacks(cloud):
    (spot,) = run(cloud, InstanceMarketOptions=SPOT, ClientToken="a")
    run(cloud, ClientToken="b")
    assert list(listed(cloud, Filters=[{"Name": "client-token", "Values": ["a"]}])) == [spot]
    assert list(listed(cloud, Filters=[{"Name": "instance-lifecycle", "Values": ["spot"]}])) == [spot]


def test_regions_are_apart_and_only_those_that_were_named(clock):
    with FaultyEC2(clock=clock, regions=("us-west-2",), zones=("us-east-1b", "us-east-1c")) as cloud:
        regions = client(cloud).describe_regions()["Regions"]
        assert {region["RegionName"] for region in regions} == {"us-east-1", "us-west-2"}
        zones = client(cloud).describe_availability_zones()["AvailabilityZones"]
        assert [zone["ZoneName"] for zone in zones] == ["us-east-1b", "us-east-1c"]
        with refused("InvalidParameterValue"):
            run(cloud, Placement={"AvailabilityZone": "us-east-1a"})
        (west,) = run(cloud, region="us-west-2")
        with refused("InvalidInstanceID.NotFound"):
            client(cloud).terminate_instances(InstanceIds=[west])
        assert [(i.id, i.region) for i in cloud.alive()] == [(west, "us-west-2")]


# The bill


@pytest.mark.parametrize(("ran_s", "billed_s"), [(1, 60), (59.5, 60), (60, 60), (60.2, 61), (3600, 3600)])
def test_running_time_is_billed_by_the_second_from_running_on(cloud, clock, ran_s, billed_s):
    cloud.boot_s, cloud.shutdown_s = 40.0, 25.0
    (instance,) = run(cloud)
    to(clock, 40.0 + ran_s)
    client(cloud).terminate_instances(InstanceIds=[instance])
    to(clock, 10000.0)
    bill = cloud.bill({(GPU, "on_demand"): 3.6})
    assert bill.of("instance") == pytest.approx(billed_s * 0.001)
    assert bill.of("address") == pytest.approx(billed_s * 0.005 / 3600)
    assert bill.of("disk") == pytest.approx(8 * 0.08 * max(60, -(-(65 + ran_s) // 1)) / (30 * 86400))
    assert bill.total_usd == pytest.approx(sum(charge.usd for charge in bill.charges))


def test_what_never_ran_is_billed_for_its_disk_alone(cloud, clock):
    cloud.boot_s = 40.0
    (instance,) = run(cloud)
    to(clock, 39.0)
    client(cloud).terminate_instances(InstanceIds=[instance])
    assert {charge.what for charge in cloud.bill({}).charges} == {"disk"}


@pytest.mark.parametrize(("lived_s", "usd"), [(3599, 0.0), (3600, 3.6)])
def test_spot_that_is_taken_back_in_its_first_hour_is_free(cloud, clock, lived_s, usd):
    taken, own = run(cloud, 2, InstanceMarketOptions=SPOT)
    to(clock, lived_s - 120.0)
    cloud.interrupt(taken, 120.0)
    to(clock, lived_s)
    client(cloud).terminate_instances(InstanceIds=[own])
    bill = {c.id: c.usd for c in cloud.bill({(GPU, "spot"): 3.6}).charges if c.what == "instance"}
    assert bill == {taken: pytest.approx(usd), own: pytest.approx(lived_s * 0.001)}


def test_prices_may_differ_between_zones_and_must_be_known(cloud, clock):
    run(cloud, Placement={"AvailabilityZone": "us-east-1b"})
    to(clock, 3600.0)
    prices = {(GPU, "on_demand"): 1.0, (GPU, "us-east-1b", "on_demand"): 2.0}
    assert cloud.bill(prices).of("instance") == pytest.approx(2.0)
    with pytest.raises(KeyError):
        cloud.bill({})


def test_without_a_public_address_none_is_billed(cloud, clock):
    private = {"DeviceIndex": 0, "SubnetId": cloud.subnet(), "AssociatePublicIpAddress": False}
    run(cloud, NetworkInterfaces=[private])
    to(clock, 100.0)
    assert cloud.bill({(GPU, "on_demand"): 1.0}).of("address") == 0.0


# Up and down


def test_only_one_is_up_at_a_time_and_each_begins_empty(clock):
    with FaultyEC2(clock=clock) as cloud:
        run(cloud)
        with pytest.raises(RuntimeError, match="is up in this process"), FaultyEC2(clock=clock):
            pass
        assert len(listed(cloud)) == 1
    with FaultyEC2(clock=clock) as cloud:
        assert listed(cloud) == {}


def test_use_leads_every_client_there(cloud, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "of-the-user")
    use(monkeypatch, cloud)
    assert os.environ["AWS_DEFAULT_REGION"] == "us-east-1"
    boto3.Session().client("ec2").describe_regions()
    assert cloud.calls[-1].action == "DescribeRegions"
    assert cloud.calls[-1].key == CREDENTIALS["aws_access_key_id"]


def test_a_callback_that_fails_does_not_pass_unseen(clock):
    def fail(_: object) -> None:
        raise OSError("no namespaces")

    with pytest.raises(ResponseParserError) as caught, FaultyEC2(clock=clock, on_boot=fail) as cloud:
        run(cloud)
    assert "no namespaces" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="callback"), FaultyEC2(clock=clock, on_boot=fail) as cloud:
        suppressed(run, cloud)


def suppressed(call: Callable[[FaultyEC2], object], cloud: FaultyEC2) -> None:
    with suppress(ResponseParserError):
        call(cloud)
