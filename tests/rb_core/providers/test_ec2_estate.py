"""What an account holds, listed and ended against the shim: several regions, refusals, and what hides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from faulty_ec2 import FaultyEC2, use

from rb_core.clock import ManualClock
from rb_core.collecting import collect
from rb_core.estate import Kind, Known, Life
from rb_core.ports import Launch
from rb_core.providers.ec2 import tags as tag
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.estate import Ec2Estate, collect_run
from rb_core.providers.ec2.groups import ensure
from rb_core.providers.ec2.possessions import expiry

HERE, THERE = "us-east-1", "us-west-2"
SPOT_REQUEST = "spot-instances-request"
NOW = datetime(2026, 12, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def session():
    return boto3.Session()


@pytest.fixture
def world(monkeypatch, session):
    clock = ManualClock(epoch=NOW)
    with FaultyEC2(clock=clock, region=HERE, regions=[THERE], shutdown_s=20.0) as cloud:
        use(monkeypatch, cloud)
        yield World(cloud, clock, session)


class World:
    def __init__(self, cloud, clock, session):
        self.cloud, self.clock = cloud, clock
        self.clients = {region: Clients(region, session=session) for region in (HERE, THERE)}
        self.estate = Ec2Estate(*self.clients.values())

    def ec2(self, region=HERE):
        return self.clients[region].control

    def rent(self, run, *, region=HERE, expires_s=86400.0, **more) -> str:
        tags = {tag.RUN: run, tag.EXPIRES: (NOW + timedelta(seconds=expires_s)).strftime("%Y-%m-%dT%H:%M:%SZ")}
        told = self.ec2(region).run_instances(
            ImageId=self.cloud.image(region),
            InstanceType="t3.micro",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tag.listed({k: v for k, v in tags.items() if v})}],
            **more,
        )
        return told["Instances"][0]["InstanceId"]

    def collect(self, runs=None, **options):
        return collect(self.estate, [HERE, THERE], lambda: runs or {}, self.clock, **options)

    @property
    def alive(self):
        return {instance.id for instance in self.cloud.alive()}


def known(life, **more):
    return Known(life=life, **more)


def test_runs_that_are_over_are_ended_everywhere_and_nothing_else(world):
    lives, other = world.rent("lives"), world.rent("elsewhere", region=THERE)
    for run, region in (("closed", HERE), ("closed", THERE), ("abandoned", THERE)):
        world.rent(run, region=region)
    world.rent("nobody's", expires_s=-1.0)
    runs = {"lives": known(Life.LIVES), "closed": known(Life.CLOSED), "abandoned": known(Life.ABANDONED)}
    dry = world.collect(runs, dry_run=True)
    assert len(world.alive) == 6
    collected = world.collect(runs)
    assert (collected.troubles, collected.left) == ((), ())
    assert world.alive == {lives, other}
    assert len(dry.left) == len([found for found in collected.found if found.gone]) == 4
    alone = {found.belonging.ident: found.judgement.reason for found in collected.found if not found.judgement.ends}
    assert alone[lives] == "run lives lives; `rb-tune stop lives` ends it"
    assert alone[other] == (
        "the log of run elsewhere is not on this machine; it ends by itself at 2026-12-03 00:00 UTC; "
        "`rb-tune gc --run elsewhere` ends it at once"
    )
    before = world.cloud.counts()
    assert not world.collect(runs).troubles
    assert world.cloud.counts()["TerminateInstances"] == before["TerminateInstances"]


def test_an_unknown_run_is_ended_when_it_is_named(world):
    other = world.rent("other")
    world.rent("elsewhere")
    collected = world.collect(run="elsewhere")
    assert (collected.troubles, world.alive) == ((), {other})


def test_disks_secrets_and_groups_go_and_what_is_used_stays(world):
    ec2 = world.ec2()
    zone = world.cloud.zone_names(HERE)[0]
    own = [{"ResourceType": "volume", "Tags": tag.listed({tag.RUN: "closed"})}]
    disk = ec2.create_volume(AvailabilityZone=zone, Size=8, TagSpecifications=own)["VolumeId"]
    foreign = ec2.create_volume(AvailabilityZone=zone, Size=8)["VolumeId"]
    ssm = world.clients[HERE].service("ssm")
    for name in ("/rubberband/closed", "/rubberband/lives", "/other/closed"):
        ssm.put_parameter(Name=name, Value="x", Type="SecureString")
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    group = ensure(ec2, vpc, {})
    runs = {"lives": known(Life.LIVES), "closed": known(Life.CLOSED)}
    collected = world.collect(runs)
    assert collected.troubles == ()
    assert {found.belonging.ident for found in collected.found if found.gone} == {disk, "/rubberband/closed"}
    reasons = {found.belonging.kind: found.judgement.reason for found in collected.found if not found.judgement.ends}
    assert reasons[Kind.GROUP] == "run lives lives and may come to use it"
    used = world.rent("closed", SecurityGroupIds=[group])
    assert not world.collect({"closed": known(Life.CLOSED), "lives": known(Life.CLOSED)}).troubles
    assert used not in world.alive
    assert group not in {each["GroupId"] for each in ec2.describe_security_groups()["SecurityGroups"]}
    assert [each["VolumeId"] for each in ec2.describe_volumes()["Volumes"] if not each["Attachments"]] == [foreign]
    assert [each["Name"] for each in ssm.describe_parameters()["Parameters"]] == ["/other/closed"]


def test_a_group_that_is_still_in_use_is_tried_again(world):
    group = ensure(world.ec2(), world.ec2().describe_vpcs()["Vpcs"][0]["VpcId"], {})
    world.cloud.fault("DeleteSecurityGroup", "error", code="DependencyViolation", times=3)
    assert world.collect().troubles == ()
    assert world.clock.now() == 0.25 + 0.5 + 1.0 + 2.0
    assert group not in {each["GroupId"] for each in world.ec2().describe_security_groups()["SecurityGroups"]}
    ensure(world.ec2(), world.ec2().describe_vpcs()["Vpcs"][0]["VpcId"], {})
    world.cloud.fault("DeleteSecurityGroup", "error", code="DependencyViolation", times=None)
    (trouble,) = world.collect(patience_s=30.0).troubles
    assert "DependencyViolation" in trouble.problem
    assert trouble.remedy == "end what uses it, and run `rb-tune gc` again"


def test_denied_rights_in_one_region_leave_the_other_collected(world):
    here, _ = world.rent("closed"), world.rent("closed", region=THERE)
    world.cloud.fault(
        "TerminateInstances", "error", code="UnauthorizedOperation", times=None, when=lambda call: call.region == HERE
    )
    collected = world.collect({"closed": known(Life.CLOSED)})
    assert world.alive == {here}
    (trouble,) = collected.troubles
    assert (trouble.region, trouble.subject) == (HERE, here)
    assert "grant ec2:TerminateInstances, which `rb-tune policy driver` holds" in trouble.remedy
    assert trouble.remedy.endswith("it ends by itself at 2026-12-03 00:00 UTC")
    assert world.clock.now() < 60.0  # a refusal for good is not waited out


def test_what_cannot_be_listed_hides_nothing_else(world):
    world.rent("closed")
    world.cloud.access.denied.add("ssm:DescribeParameters")
    collected = world.collect({"closed": known(Life.CLOSED)})
    assert not world.alive
    assert {(trouble.region, trouble.subject) for trouble in collected.troubles} == {
        (HERE, "parameters"),
        (THERE, "parameters"),
    }


def test_a_group_stays_while_it_is_not_certain_that_nothing_uses_it(world):
    group = ensure(world.ec2(), world.ec2().describe_vpcs()["Vpcs"][0]["VpcId"], {})
    kept = world.rent("elsewhere")
    reasons = {each.belonging.ident: each.judgement.reason for each in world.collect().found}
    assert reasons[group] == f"{kept} stays, whose run may come to use it"
    world.collect(run="elsewhere")
    world.cloud.access.denied.add("ssm:DescribeParameters")
    reasons = {each.belonging.ident: each.judgement.reason for each in world.collect().found}
    assert reasons == {group: "parameters could not be listed, and one may use it"}
    world.cloud.access.denied.clear()
    assert [each.gone for each in world.collect().found] == [True]


def test_expired_credentials_are_told_for_each_region(world):
    world.rent("closed")
    world.cloud.expire_credentials()
    collected = world.collect({"closed": known(Life.CLOSED)})
    assert {trouble.region for trouble in collected.troubles} == {HERE, THERE}
    assert all("run `aws sso login`" in trouble.remedy for trouble in collected.troubles)
    assert len(world.alive) == 1


def test_protection_is_lifted(world):
    world.rent("closed", DisableApiTermination=True)
    assert world.collect({"closed": known(Life.CLOSED)}).troubles == ()
    assert not world.alive


def test_a_tag_that_somebody_changed_is_told_and_not_obeyed(world):
    changed, removed = world.rent("mine"), world.rent("mine")
    world.ec2().create_tags(Resources=[changed], Tags=tag.listed({tag.RUN: "theirs"}))
    world.ec2().delete_tags(Resources=[removed], Tags=[{"Key": tag.RUN}, {"Key": tag.EXPIRES}])
    runs = {"mine": known(Life.ABANDONED, rented={changed: "mine-0", removed: "mine-1"})}
    collected = world.collect(runs)
    assert world.alive == {changed, removed}
    assert {trouble.subject: trouble.problem for trouble in collected.troubles} == {
        changed: "is tagged as run 'theirs', but the log of run mine rented it",
        removed: "carries no run's tag any more, but the log of run mine rented it",
    }


def test_one_run_is_collected_by_its_log_though_it_cannot_be_seen_yet(world):
    class Dead:
        """The log of a driver that was killed right after its renting call."""

        t_s = 100.0

        @property
        def launches(self):
            return {"t": Launch(attempt="t", nodes=("killed-0",), request={"region": HERE}, t_s=99.0)}

    other = world.rent("other")
    world.cloud.visible_s = 25.0
    hidden = world.rent("killed")
    collected = collect_run(world.clients[HERE], world.clock, Dead(), run="killed")
    assert (collected.troubles, world.alive) == ((), {other})
    assert {found.belonging.ident for found in collected.found} == {hidden}


def test_regions_are_those_of_the_account(world, monkeypatch):
    assert world.estate.regions() == [HERE, THERE]
    monkeypatch.setenv("AWS_REGION", THERE)
    assert world.estate.usual_region() == THERE


@pytest.mark.parametrize("text", ["", "soon", "2026-12-02T00:00:00"])
def test_an_expiry_that_says_no_time_is_none(text):
    assert expiry(text) is None
    assert expiry("2026-12-02T00:00:00Z") == NOW


def test_standing_spot_requests_of_closed_runs_are_cancelled_and_others_are_not(world):
    spot = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}
    for run in ("closed", "lives"):
        own = [{"ResourceType": kind, "Tags": tag.listed({tag.RUN: run})} for kind in ("instance", SPOT_REQUEST)]
        world.ec2().run_instances(
            ImageId=world.cloud.image(), InstanceType="t3.micro", MinCount=1, MaxCount=1, TagSpecifications=own,
            InstanceMarketOptions=spot,
        )  # fmt: skip
    closed, lives = world.cloud.open_spot_requests()
    # None of ours is persistent: somebody has made these so, and they would rent anew.
    for request in world.cloud.backend(HERE).spot_instance_requests.values():
        request.type = "persistent"
    collected = world.collect({"lives": known(Life.LIVES), "closed": known(Life.CLOSED)})
    assert collected.troubles == ()
    gone = {found.belonging.ident: found.gone for found in collected.found if found.belonging.kind is Kind.REQUEST}
    assert gone == {closed: True, lives: False}
    assert world.cloud.open_spot_requests() == [lives]
    assert world.cloud.counts()["CancelSpotInstanceRequests"] == 1


def test_protection_in_a_batch_of_several_runs_keeps_nobody_else_alive(world):
    runs = {"first": known(Life.CLOSED), "second": known(Life.ABANDONED), "lives": known(Life.LIVES)}
    ids = {run: [world.rent(run) for _ in range(3)] for run in runs}
    for run in runs:
        world.ec2().modify_instance_attribute(InstanceId=ids[run][1], DisableApiTermination={"Value": True})
    collected = world.collect(runs)
    assert (collected.troubles, collected.left) == ((), ())
    assert world.alive == set(ids["lives"])
    told = world.ec2().describe_instance_attribute(InstanceId=ids["lives"][1], Attribute="disableApiTermination")
    assert told["DisableApiTermination"]["Value"]


def test_a_runs_id_is_no_pattern_for_other_runs(world):
    node = world.rent("ab-1")
    world.ec2().create_volume(
        AvailabilityZone=f"{HERE}a",
        Size=1,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tag.listed({tag.RUN: "ab-1"})}],
    )
    assert {each.kind for each in world.estate.look(HERE, run="ab-1").belongings} == {Kind.NODE, Kind.DISK}
    assert world.estate.look(HERE, run="ab-?").belongings == ()
    assert [each.ident for each in world.estate.look(HERE, run="ab-?", also=[node]).belongings] == [node]
