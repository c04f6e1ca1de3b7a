"""`rb-tune nodes`, `gc` and `policy` as a user calls them, against the shim, with logs and leases of their own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from click.testing import CliRunner
from faulty_ec2 import FaultyEC2, use

from rb_core.clock import SystemClock
from rb_core.eventlog import EventLog
from rb_core.events import LaunchAttempted, LaunchGranted, NodeRequested, RunEnded, RunEnding, RunStarted
from rb_core.lease import Lease
from rb_core.providers.ec2 import tags as tag
from rb_plugins import checking, estates
from rb_plugins.cli import main

HERE, THERE = "us-east-1", "us-west-2"
LONG_AGO = "2026-01-01T00:00:00+00:00"


class Account:
    """An account with machines of runs, and a home with their logs."""

    def __init__(self, cloud, home):
        self.cloud, self.home = cloud, home
        self.ec2 = {region: boto3.client("ec2", region_name=region) for region in (HERE, THERE)}

    def rent(self, run, *, region=HERE, expires_s=86400.0) -> str:
        expires = (datetime.now(UTC) + timedelta(seconds=expires_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = self.ec2[region].run_instances(
            ImageId=self.cloud.image(region),
            InstanceType="g4dn.xlarge",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[
                {
                    "ResourceType": "instance",
                    "Tags": tag.listed({tag.RUN: run, tag.EXPIRES: expires, tag.NODES: f"{run}-0"}),
                }
            ],
        )
        return told["Instances"][0]["InstanceId"]

    def log(self, run, *instances, closed=False, region=HERE, usd_per_hour=0.5):
        cloud = {"provider": "ec2", "region": region}
        with EventLog(self.home / "runs" / run / "events.jsonl") as log:
            at = {"t_s": 0.0, "utc": LONG_AGO}
            log.append(
                RunStarted(
                    run=run, problem={"cloud": cloud}, plan={"stages": []}, metric="m", mode="max", seed=0, target="t",
                    environment={}, **at,
                )
            )  # fmt: skip
            log.append(
                NodeRequested(
                    node=f"{run}-0",
                    chain=0,
                    stage=0,
                    instance_type="g4dn.xlarge",
                    slots=1,
                    usd_per_hour=usd_per_hour,
                    **at,
                )
            )
            log.append(LaunchAttempted(attempt="a", nodes=(f"{run}-0",), request={"region": region}, **at))
            log.append(LaunchGranted(attempt="a", instances=instances, **at))
            if closed:
                log.append(RunEnded(ending=RunEnding.DONE, **at))

    @property
    def alive(self):
        return {instance.id for instance in self.cloud.alive()}


@pytest.fixture
def account(tmp_path, monkeypatch):
    clock = SystemClock()
    with FaultyEC2(clock=clock, region=HERE, regions=[THERE]) as cloud:
        use(monkeypatch, cloud)
        monkeypatch.setenv("RB_HOME", str(tmp_path))
        yield Account(cloud, tmp_path)


def rb_tune(*arguments, status=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done


def answer(*arguments, status=0):
    return json.loads(rb_tune(*arguments, "--json", status=status).stdout)


def test_only_what_nobody_will_end_is_ended(account):
    lives, closed = account.rent("lives"), account.rent("closed")
    abandoned, expired = account.rent("abandoned", region=THERE), account.rent("nobody", expires_s=-5.0)
    other = account.rent("other", region=THERE)
    account.log("lives", lives)
    account.log("closed", closed, closed=True)
    account.log("abandoned", abandoned, region=THERE)
    with Lease(account.home / "runs" / "lives" / "lease.json", SystemClock()):
        seen = {each["id"]: each for each in answer("nodes")["belongings"]}
        assert {ident: (each["run"], each["life"]) for ident, each in seen.items()} == {
            lives: ("lives", "lives"),
            closed: ("closed", "closed"),
            abandoned: ("abandoned", "abandoned"),
            expired: ("nobody", "unknown"),
            other: ("other", "unknown"),
        }
        assert seen[lives]["node"] == "lives-0"
        assert 0 <= seen[lives]["cost_usd"] < 0.01
        dry = answer("gc", "--dry-run")
        assert {each["id"] for each in dry["to_end"]} == {closed, abandoned, expired}
        assert len(account.alive) == 5
        done = answer("gc")
        assert {each["id"] for each in done["ended"]} == {closed, abandoned, expired}
        assert {each["id"] for each in done["left_alone"]} == {lives, other}
        assert account.alive == {lives, other}
        refused = rb_tune("gc", "--run", "lives", status=2)
        assert (
            "--run: must be a run that nobody is at work on; lives lives, `rb-tune stop lives` ends it"
            in refused.stderr
        )
    assert {each["id"] for each in answer("gc", "--run", "other", "--all-regions")["ended"]} == {other}
    text = rb_tune("gc").stdout
    assert text.startswith("1 of 1 ended, 0 left alone\n")
    assert "run lives is abandoned" in text
    assert rb_tune("gc").stdout.startswith("0 of 0 ended, 0 left alone\n")
    assert not account.alive


def test_what_may_not_be_ended_is_named_with_its_remedy(account):
    here, there = account.rent("nobody", expires_s=-5.0), account.rent("nobody", region=THERE, expires_s=-5.0)
    account.cloud.fault(
        "TerminateInstances", "error", code="UnauthorizedOperation", times=None, when=lambda call: call.region == HERE
    )
    done = rb_tune("gc", "--all-regions", status=1)
    assert account.alive == {here}
    assert f"{here}  node  {HERE}  nobody  still there" in done.stdout
    assert f"{there}  node  {THERE}  nobody  ended" in done.stdout
    assert "error: 1 thing(s) of ours could not be looked at or ended:\n" in done.stderr
    assert "grant ec2:TerminateInstances, which `rb-tune policy driver` holds" in done.stderr


def test_a_region_is_needed(account, monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert "--region: is required, or --all-regions" in rb_tune("nodes", status=2).stderr
    assert "must be left out with --all-regions" in rb_tune("nodes", "--all-regions", "--region", HERE, status=2).stderr
    assert "must be a region of AWS" in rb_tune("nodes", "--region", "us-east-9", status=2).stderr.splitlines()[0]
    assert rb_tune("nodes", "--region", HERE).stdout.startswith(f"0 thing(s) of ours in {HERE}\n")


def test_without_credentials_nothing_is_known(account, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    done = rb_tune("gc", "--region", HERE, status=2)
    assert "there are no AWS credentials" in done.stderr


def test_a_policy_is_shown_and_printed():
    assert "read the run's secret" in rb_tune("policy", "node").stdout
    policy = answer("policy", "node")
    assert [statement["Sid"] for statement in policy["Statement"]] == ["ReadTheSecret"]
    policy = answer("policy", "driver", "--role", "mine", "--storage", "s3://bucket/kept")
    named = {statement["Sid"]: statement["Resource"] for statement in policy["Statement"]}
    assert named["GiveNodesTheirRole"] == "arn:aws:iam::*:role/mine"
    assert named["KeepCheckpoints"] == "arn:aws:s3:::bucket/kept/*"
    assert "--storage: must be an address such as s3://" in rb_tune("policy", "node", "--storage", "x", status=2).stderr
    assert "--role: must be the name of a role" in rb_tune("policy", "driver", "--role", "arn:x", status=2).stderr


def test_the_commands_are_there():
    assert {"nodes", "gc", "policy", "check"} <= set(main.commands)
    assert (estates.gc, checking.check) == (main.commands["gc"], main.commands["check"])


@pytest.mark.parametrize("run", ["", " ", "*", "digits-?"])
def test_only_one_run_is_collected_by_name(run):
    refused = CliRunner().invoke(main, ["gc", "--region", HERE, "--run", run])
    assert refused.exit_code == 2
    assert f"--run: must be the id of one run, with neither '*' nor '?', got {run!r}" in refused.stderr


def test_credentials_that_do_not_work_are_told_once(account):
    account.cloud.expire_credentials()
    done = rb_tune("nodes", "--region", HERE, status=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: nothing in {HERE} could be looked at: the AWS credentials have expired")
    assert line.endswith("or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    assert done.stdout == ""
