"""Profiling on types of EC2: what it rents is in its log before, and is gone afterwards."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import boto3
import pytest
from faulty_ec2 import CREDENTIALS, FaultyEC2

from rb_core.clock import ManualClock
from rb_core.eventlog import MemoryLog
from rb_core.events import LaunchAttempted, LaunchGranted, NodeRequested, NodeRunning, RunEnded
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.journal import Journal
from rb_core.profiler import profile
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.provider import Ec2Provider
from rb_core.startups import startups
from rb_core.survey import Bench, Survey
from rb_core.testing.fakes import FakeLauncher, FakeTraining

REGION = "us-east-1"
CPU = InstanceType(name="t3.micro", slots=2, usd_per_hour=0.0104)
GPU = InstanceType(name="g4dn.12xlarge", slots=4, usd_per_hour=3.912)
SECONDS = {CPU.name: 6.0, GPU.name: 1.5}
BENCHES = tuple(Bench(instance_type=kind, nodes=1, sizes=(1,)) for kind in (CPU, GPU))


@contextmanager
def world():
    clock = ManualClock()
    with FaultyEC2(clock=clock, region=REGION, boot_s=35.0) as shim:
        cloud = Cloud(
            instance_types=(CPU, GPU), provider="ec2", region=REGION, launch_s=Latency(mean=40.0),
            settings={"image": shim.image(), "zones": [f"{REGION}a", f"{REGION}b"]},
        )  # fmt: skip
        inbox, log = clock.inbox(), MemoryLog()
        clients = Clients(REGION, session=boto3.Session(**CREDENTIALS), endpoint=shim.url)
        provider = Ec2Provider(cloud=cloud, clock=clock, inbox=inbox, clients=clients)
        survey = Survey(
            run="profile-f", target="f", cloud=cloud, record={"provider": "ec2", "region": REGION}, provider=provider,
            journal=Journal(log, clock), clock=clock, inbox=inbox,
        )  # fmt: skip
        try:
            yield SimpleNamespace(cloud=shim, clock=clock, log=log, survey=survey)
        finally:
            provider.close()


def test_types_are_rented_by_the_log_measured_and_given_back():
    with world() as made:
        kinds = {}

        def iteration_s(run):
            kinds.update({e.node: e.instance_type for e in made.log.events if isinstance(e, NodeRequested)})
            return SECONDS[kinds[run.slots[0].node]]

        launcher = FakeLauncher(made.clock, FakeTraining(iteration_s=iteration_s, every_iteration=True))

        def measure(slots, sizes, budget_s):
            return profile(launcher, made.clock, configs=[{"x": 1}], slots=slots, sizes=sizes, budget_s=budget_s)

        measured = made.survey.conduct(BENCHES, measure, 300.0)
        assert measured.speeds[GPU.name].mean == pytest.approx(4.0)
        assert measured.usd > 0
        assert made.cloud.alive() == []
        events = [type(event) for event in made.log.events]
        assert events.count(LaunchAttempted) == events.count(LaunchGranted) == events.count(NodeRunning) == 2
        assert events[-1] is RunEnded
        starts = startups(made.log.events).starts
        assert [(start.pool.region, start.pool.instance_type) for start in starts] == [
            ("us-east-1", CPU.name),
            ("us-east-1", GPU.name),
        ]
        # Running is seen by polling, so by half of the time between two looks early or late.
        assert [start.launch_s for start in starts] == pytest.approx([35.0, 35.0], abs=5.0)
        assert all(start.pool.zone.startswith(REGION) for start in starts)


def test_an_interrupt_while_it_is_measured_leaves_nothing_alive():
    with world() as made:

        def interrupted(slots, sizes, budget_s):
            assert len(made.cloud.alive()) == 1
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            made.survey.conduct(BENCHES, interrupted, 300.0)
        assert made.cloud.alive() == []
        assert isinstance(made.log.events[-1], RunEnded)
