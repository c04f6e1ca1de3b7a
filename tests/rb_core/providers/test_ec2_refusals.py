"""Bad input and bad luck with AWS itself: what is said, with which exit status, and that nothing is left."""

from __future__ import annotations

import sys

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ReadTimeoutError
from ec2_world import CPU, GPU, REGION, RUN, cloud_of, world
from test_ec2_launching import names

from rb_core.clock import ManualClock
from rb_core.errors import InvalidInput, NoAnswer
from rb_core.hardware import InstanceType
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.provider import Ec2Provider
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind, StrandedNodes, answering
from rb_core.providers.ec2.settings import Ec2Settings
from rb_core.providers.ec2.tether import driver_address
from rb_plugins.builtins import rubberband_register_providers


def ready(provider: Ec2Provider) -> Ec2Provider:
    provider.boot(lambda name, kind: pytest.fail("nothing is launched here"))
    return provider


def made(cloud=None, clients=None) -> Ec2Provider:
    clock = ManualClock()
    return Ec2Provider(cloud=cloud or cloud_of({}), clock=clock, inbox=clock.inbox(), clients=clients)


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(name, value)


def test_without_credentials_the_check_says_how_to_get_some(no_credentials):
    with pytest.raises(InvalidInput, match="no AWS credentials; set AWS_PROFILE") as caught:
        ready(made()).check(cloud_of({}))
    assert caught.value.exit_status == 2


def test_a_region_is_the_problems_to_say_and_never_the_shells(no_credentials):
    with pytest.raises(InvalidInput, match=r"cloud\.region: is missing.*AWS_REGION.* are not looked at"):
        made(cloud_of({}, region=""))
    assert made()._clients.control.meta.region_name == REGION


def test_a_wrong_region_is_refused_before_anybody_is_asked(no_credentials):
    with pytest.raises(InvalidInput, match=r"cloud\.region: must be a region of AWS.* 'us-nowhere-1'"):
        ready(made(cloud_of({}, region="us-nowhere-1"))).check(cloud_of({}))


def test_nodes_of_ec2_need_a_launcher_that_they_join():
    with pytest.raises(InvalidInput, match='must be "ray"'):
        made().check(cloud_of({}))


def test_without_boto3_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    clock = ManualClock()
    with pytest.raises(InvalidInput, match=r"pip install 'rubberband-tune\[aws\]'"):
        rubberband_register_providers()["ec2"](cloud=cloud_of({}), clock=clock, inbox=clock.inbox())


@pytest.mark.parametrize(
    ("code", "said"),
    [("AuthFailure", "AWS does not accept the credentials"), ("ExpiredToken", "the AWS credentials have expired")],
)
def test_wrong_and_expired_credentials_are_told_apart_and_rent_nothing(code, said):
    with world() as w:
        w.cloud.fault("DescribeInstanceTypes", "error", code=code, times=None)
        w.cloud.fault("GetCallerIdentity", "error", code=code, times=None)
        with pytest.raises(InvalidInput, match=said):
            w.provider.launch(names(1), CPU, run=RUN)
        assert w.cloud.counts()["RunInstances"] == 0


def test_credentials_that_expire_in_the_middle_leave_a_list_of_what_is_alive_and_until_when():
    with world() as w:
        w.provider.launch(names(2), CPU, run=RUN)
        w.wait(10.0)
        fault = w.cloud.fault("*", "error", code="ExpiredToken", times=None)
        w.wait(20.0)
        with pytest.raises(StrandedNodes) as caught:
            w.provider.release(names(2))
        ids = sorted(each.id for each in w.cloud.alive())
        assert sorted(caught.value.instances) == ids
        assert set(caught.value.instances.values()) == {"2000-01-02T00:00:00Z"}
        assert all(each in str(caught.value) for each in ids)
        assert caught.value.exit_status == 1
        assert len(w.events("Warned")) == 1
        fault.cancel()
        w.wait(30.0)
        assert w.cloud.alive() == []


def test_a_right_that_is_missing_is_named():
    with world() as w:
        w.cloud.fault("RunInstances", "error", code="UnauthorizedOperation")
        with pytest.raises(InvalidInput, match="may not do ec2:RunInstances") as caught:
            w.provider.launch(names(1), CPU, run=RUN)
        assert caught.value.exit_status == 2
        assert w.provider.owned(RUN) == []
        w.provider.launch(names(1, 1), CPU, run=RUN)
        w.cloud.fault("TerminateInstances", "error", code="UnauthorizedOperation")
        with pytest.raises(StrandedNodes, match="AWS refused ec2:TerminateInstances"):
            w.provider.release(names(1, 1))


def test_the_right_that_aws_names_is_the_one_that_is_told():
    said = "You are not authorized to perform: ec2:CreateTags on resource: x. Encoded authorization failure message: qq"
    with pytest.raises(CallRefused) as caught, answering("ec2:RunInstances"):
        raise ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": said}}, "RunInstances")
    assert caught.value.right == "ec2:CreateTags"
    assert "qq" not in str(caught.value.as_input())


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("image", "ami-0123456789abcdef0", r"cloud\.settings\.image: must be an image that this account can use"),
        ("image", "resolve:ssm:/none/such", r"cloud\.settings\.image: must name a parameter that us-east-1 has"),
        ("subnets", ["subnet-0123456789abcdef0"], r"cloud\.settings\.subnets: must name subnets of this region"),
        ("zones", ["us-east-1z"], r"cloud\.settings\.zones\[0\]: must be a zone of the subnets"),
    ],
)
def test_what_is_not_there_is_named_by_its_setting(key, value, said):
    with world(own=[(key, value)]) as w:
        with pytest.raises(InvalidInput, match=said):
            w.provider.launch(names(1), CPU, run=RUN)
        assert w.cloud.counts()["RunInstances"] == 0


def test_a_type_that_ec2_does_not_have_is_named():
    with world() as w:
        unknown = InstanceType(name="z9.enormous", slots=1, usd_per_hour=1.0)
        with pytest.raises(InvalidInput, match=r"cloud\.instance_types: must name types.*'z9\.enormous'"):
            w.provider.launch(names(1), unknown, run=RUN)
        arm = InstanceType(name="t4g.micro", slots=2, usd_per_hour=0.01)
        with pytest.raises(InvalidInput, match=r"cloud\.settings\.image: must be for arm64"):
            w.provider.launch(names(1), arm, run=RUN)
        assert w.provider.owned(RUN) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"imgae": "ami-1"}, r"cloud\.settings\.imgae: is not known; provider 'ec2' knows .*image"),
        ({"image": "ubuntu"}, r"cloud\.settings\.image: must be an image's id"),
        ({"subnets": "subnet-1"}, r"cloud\.settings\.subnets: must be a list of strings"),
        ({"subnets": ["net-1"]}, r"cloud\.settings\.subnets\[0\]: must be an id that begins with 'subnet-'"),
        ({"zones": ["a", "a"]}, r"cloud\.settings\.zones: must name each one once"),
        ({"instance_profile": "arn:aws:iam::1:x/y"}, r"cloud\.settings\.instance_profile: must be the profile's name"),
        ({"volume_gib": 0}, r"cloud\.settings\.volume_gib: must be a positive integer, got 0"),
        ({"public_ip": "yes"}, r"cloud\.settings\.public_ip: must be true or false"),
        ({"tags": {"rubberband:run": "x"}}, r"cloud\.settings\.tags: must have names"),
        ({"tags": {"team": 3}}, r"cloud\.settings\.tags\.team: must be a string, got 3"),
        ({"lifetime_s": 10}, r"cloud\.settings\.lifetime_s: must be a number from 600"),
        ({"lease_s": 7200, "lifetime_s": 3600}, r"cloud\.settings\.lease_s: must be at most the node's lifetime_s"),
    ],
)
def test_settings_are_checked_by_name(settings, said):
    with pytest.raises(InvalidInput, match=said):
        Ec2Settings.of(cloud_of(settings))


def test_a_timeout_is_no_refusal_and_a_missing_key_is_no_timeout():
    with pytest.raises(NoAnswer), answering("ec2:RunInstances"):
        raise ReadTimeoutError(endpoint_url="https://ec2")
    with pytest.raises(CallRefused) as caught, answering("ec2:RunInstances"):
        raise NoCredentialsError
    assert caught.value.kind is RefusalKind.CREDENTIALS


def test_renting_calls_are_made_once_and_others_are_repeated():
    clients = Clients(REGION, session=boto3.Session("a", "b"))
    assert clients.launch.meta.config.retries["total_max_attempts"] == 1
    assert clients.control.meta.config.retries["total_max_attempts"] == 3
    with world(capacity={("g4dn.12xlarge", f"{REGION}a", "on_demand"): 0}, own=[("zones", [f"{REGION}a"])]) as w:
        with pytest.raises(Exception, match="InsufficientInstanceCapacity"):
            w.provider.launch(names(1), GPU, run=RUN)
        assert w.cloud.counts()["RunInstances"] == 1


@pytest.mark.parametrize(("name", "value"), [("AWS_ENDPOINT_URL", "garbage"), ("AWS_DEFAULTS_MODE", "often")])
def test_what_the_sdk_does_not_take_is_bad_input(monkeypatch, no_credentials, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match=f"{value}.*AWS_ENDPOINT_URL"):
        Clients(REGION).control  # noqa: B018


def test_a_runs_id_is_no_pattern():
    with world() as w:
        w.provider.launch(names(1), CPU, run=RUN)
        w.wait(60)
        assert w.provider.owned(RUN)
        for pattern in ("*", "sha-?"):
            assert w.provider.owned(pattern) == []
        w.provider.release(names(1))


@pytest.mark.parametrize("address", ["a..b", "a" * 64])
def test_a_drivers_address_that_is_no_name_at_all(address):
    with pytest.raises(InvalidInput, match=f"driver_address: must be an address of this machine.*{address!r}"):
        driver_address(Ec2Settings(driver_address=address))
