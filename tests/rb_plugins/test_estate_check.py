"""`rb-tune check`: one finding for each thing, and nothing changed, for this machine and against the shim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from faulty_ec2 import FaultyEC2, use

from rb_core.clock import ManualClock, SystemClock
from rb_core.hardware import Cloud, InstanceType, Market
from rb_core.inspection import Intent, Refusal, Verdict
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.inspection import inspect
from rb_core.providers.ec2.settings import Ec2Settings
from rb_core.providers.ec2.supply import quota_code
from rb_plugins import preflight
from rb_plugins.cli import main

REGION = "us-east-1"
MUTATING = {"CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "PutParameter", "DeleteParameter", "CreateTags"}
GPU = InstanceType(name="g4dn.xlarge", slots=1, usd_per_hour=0.526)


def check(path, status=0):
    done = CliRunner().invoke(main, ["check", str(path), "--json"], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return {each["subject"]: each for each in json.loads(done.stdout)["findings"]}, done


def test_all_is_well_on_this_machine(experiment):
    found, _ = check(experiment)
    assert {each["verdict"] for each in found.values()} == {"ok"}
    assert {"run directory", "planner", "launcher", "plan", "prices", "provider"} <= set(found)
    assert not (experiment.parent / "home").exists()


def test_what_this_machine_cannot_do_is_a_problem(altered):
    found, done = check(altered("max_nodes = 1", "max_nodes = 4000"), status=2)
    assert found["provider"]["verdict"] == "problem"
    assert "cloud.max_nodes: must be at most" in found["provider"]["said"]
    assert "error: 1 problem(s) would make this run fail:\n" in done.stderr


def test_a_launcher_that_nobody_gives_is_a_problem(altered):
    found, _ = check(altered('launcher = "process"', 'launcher = "srun"'), status=2)
    assert "must be the name of a launcher" in found["launcher"]["said"]


@pytest.fixture
def cloud(monkeypatch):
    with FaultyEC2(clock=SystemClock(), region=REGION) as cloud:
        use(monkeypatch, cloud)
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
        yield cloud


def test_the_provider_tells_of_aws_as_well(cloud, altered, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    cloud.access.denied.add("servicequotas:*")
    settings = f'provider = "ec2"\nregion = "{REGION}"\nsettings = {{image = "{cloud.image()}"}}\n'
    experiment = altered("[cloud]\n", f"[cloud]\n{settings}")
    experiment = altered('name = "core", slots = 1', 'name = "t3.micro", slots = 2')
    found, done = check(experiment, status=2)
    assert found["identity"]["verdict"] == "ok"
    assert 'must be "ray" with provider' in found["provider"]["said"]
    assert "rb-tune policy node" in found["instance profile"]["remedy"]
    assert found["prices"]["verdict"] == "warning"
    assert f"{found['reachability']['said']}; {found['reachability']['remedy']}" in done.stderr
    assert not cloud.instances()


def look(cloud, *, types=(GPU,), nodes=2, refusals=(), **settings):
    """All findings, by what was looked at; a type's are those of the last type."""
    given = {"image": cloud.image(), "instance_profile": cloud.profile(), **settings}
    made = Cloud(instance_types=types, region=REGION, provider="ec2", settings=given)
    intent = Intent(cloud=made, peak={each.name: nodes for each in types}, planned=True, refusals=refusals)
    found = inspect(Clients(REGION, max_attempts=1), Ec2Settings.of(made), intent, cloud.clock)
    assert not MUTATING & set(cloud.counts())
    assert not cloud.instances()
    return {each.subject: each for each in found}


def test_outside_of_ec2_nodes_find_no_way(cloud, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    found = look(cloud)
    assert found["identity"].verdict is Verdict.OK
    assert found["reachability"].verdict is Verdict.PROBLEM
    assert "not in EC2" in found["reachability"].said
    assert "driver_address" in found["reachability"].remedy
    assert found["right to rent"].verdict is Verdict.OK
    assert found["zones"].verdict is Verdict.OK
    assert found["quota"].verdict is Verdict.WARNING
    assert "unknown" in found["quota"].said
    assert found["user data"].verdict is Verdict.OK


def test_a_missing_profile_type_and_right_are_problems(cloud, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    cloud.access.denied.add("ec2:RunInstances")
    found = look(cloud, types=(InstanceType(name="x9.huge", slots=1, usd_per_hour=1.0),), instance_profile="")
    assert found["instance profile"].verdict is Verdict.PROBLEM
    assert "rb-tune policy node" in found["instance profile"].remedy
    assert found["instance type"].verdict is Verdict.PROBLEM
    assert found["right to rent"].verdict is Verdict.PROBLEM
    assert "rb-tune policy driver" in found["right to rent"].remedy


def test_an_unknown_image_and_a_wrong_region_are_problems(cloud):
    assert look(cloud, image="ami-0123")["image"].verdict is Verdict.PROBLEM
    made = Cloud(instance_types=(GPU,), region="us-east-9", provider="ec2")
    intent = Intent(cloud=made, peak={})
    (_, identity) = inspect(Clients("us-east-9"), Ec2Settings.of(made), intent, ManualClock())
    assert (identity.verdict, identity.subject) == (Verdict.PROBLEM, "identity")


def test_expired_credentials_are_a_problem(cloud):
    cloud.expire_credentials()
    found = look(cloud)
    assert found["identity"].verdict is Verdict.PROBLEM
    assert "expired" in found["identity"].said


def test_a_group_that_is_open_to_the_world_is_a_problem(cloud):
    ec2 = Clients(REGION).control
    group = ec2.create_security_group(GroupName="open", Description="x", VpcId=ec2.describe_vpcs()["Vpcs"][0]["VpcId"])
    ec2.authorize_security_group_ingress(
        GroupId=group["GroupId"],
        IpPermissions=[{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    )
    before = dict(cloud.counts())
    made = Cloud(instance_types=(GPU,), region=REGION, provider="ec2", settings={"security_group": group["GroupId"]})
    found = inspect(Clients(REGION), Ec2Settings.of(made), Intent(cloud=made, peak={}), cloud.clock)
    said = [each.said for each in found if each.subject == "security group" and each.verdict is Verdict.PROBLEM]
    assert any("lets in 0.0.0.0/0" in text for text in said)
    assert cloud.counts()["AuthorizeSecurityGroupIngress"] == before["AuthorizeSecurityGroupIngress"]


def test_what_was_refused_lately_is_told(cloud):
    past = Refusal(
        request={"instance_type": GPU.name, "region": REGION, "zone": "us-east-1a", "market": "on_demand"},
        reason="InsufficientInstanceCapacity",
        at=cloud.clock.utc(),
    )
    assert look(cloud)["capacity"].verdict is Verdict.OK
    told = look(cloud, refusals=(past,))["capacity"]
    assert told.verdict is Verdict.WARNING
    assert "g4dn.xlarge on_demand in us-east-1a" in told.said


@pytest.mark.parametrize(
    ("name", "market", "code"),
    [
        ("p4d.24xlarge", Market.ON_DEMAND, "L-417A185B"),
        ("p5.48xlarge", Market.SPOT, "L-7212CCBC"),
        ("g5.xlarge", Market.ON_DEMAND, "L-DB2E81BA"),
        ("vt1.3xlarge", Market.SPOT, "L-3819A6DF"),
        ("m5.large", Market.ON_DEMAND, "L-1216C47A"),
        ("trn1.2xlarge", Market.ON_DEMAND, ""),
    ],
)
def test_each_family_has_its_quota(name, market, code):
    assert quota_code(InstanceType(name=name, slots=1, usd_per_hour=1.0, market=market)) == code


@pytest.mark.parametrize(
    ("source", "target", "said", "remedy"),
    [
        (
            "import nowhere_to_be_found\n",
            "train_small.py:train",
            "could not be imported: ModuleNotFoundError: No",
            "mend it",
        ),
        ("", "nowhere_to_be_found:train", "could not be imported: ModuleNotFoundError: No module named", "mend it"),
        ("", "train_small.py:no_arguments", "must accept (config, trial), but its signature is ()", "change it"),
    ],
)
def test_a_target_that_cannot_be_had_is_told_in_the_words_of_a_run(altered, source, target, said, remedy):
    experiment = altered('target = "train_small.py:train"', f'target = "{target}"')
    code = experiment.parent / "train_small.py"
    code.write_text(f"{source}{code.read_text()}\n\ndef no_arguments():\n    pass\n")
    found, _ = check(experiment, status=2)
    assert found["target"]["verdict"] == "problem"
    assert said in found["target"]["said"]
    assert found["target"]["remedy"] == remedy
    run = CliRunner().invoke(main, ["run", str(experiment)])
    assert run.exit_code == 2
    assert f"error: {found['target']['said']}" in run.stderr


def test_a_target_that_takes_too_long_to_import_is_a_warning_and_ended(experiment, monkeypatch):
    code = experiment.parent / "train_small.py"
    mark = experiment.parent / "pid"
    code.write_text(
        f"{code.read_text()}\nimport os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    monkeypatch.setattr(preflight, "IMPORT_LIMIT_S", 3.0)
    found, _ = check(experiment)
    assert found["target"]["verdict"] == "warning"
    assert "train_small.py:train was not imported within 3 s" in found["target"]["said"]
    assert not mark.exists() or not Path(f"/proc/{mark.read_text()}").exists()
