"""What is said of a node while it lives, and after another process has taken it over."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from ec2_world import CPU, GPU, REGION, RUN, SPOT, world
from test_ec2_launching import names

from rb_core.errors import InvalidInput, NoAnswer
from rb_core.ports import NodeNews
from rb_core.providers.ec2.lifeline import NodePhase, NodeReport


def test_running_is_placed_in_the_middle_of_what_is_not_known():
    with world(boot_s=42.0) as w:
        w.provider.launch(names(1), CPU, run=RUN)
        running, ready = w.wait(60.0)
        assert (running.kind, ready.kind) == (NodeNews.RUNNING, NodeNews.READY)
        assert running.instance == w.cloud.alive()[0].id
        assert running.zone == f"{REGION}a"
        assert running.ago_s == 2.5


def test_the_slots_of_a_node_are_its_gpus():
    with world() as w:
        w.provider.launch(names(1), GPU, run=RUN)
        w.provider.launch(names(1, 1), replace(GPU, slots=8), run=RUN)
        w.wait(10.0)
        assert [slot.device for slot in w.provider.slots(f"{RUN}-0")] == ["0", "1", "2", "3"]
        assert [slot.device for slot in w.provider.slots(f"{RUN}-1")] == list("00112233")


def test_one_that_ends_before_it_runs_is_lost_with_the_reason():
    with world(boot_s=10.0) as w:
        w.cloud.doomed_next.append("Client.VolumeLimitExceeded")
        w.provider.launch(names(1), CPU, run=RUN)
        (notice,) = w.wait(60.0)
        assert notice.kind is NodeNews.LOST
        assert "Client.VolumeLimitExceeded" in notice.reason
        assert not notice.reclaimed


def test_a_spot_instance_that_ec2_takes_back_was_reclaimed():
    with world() as w:
        w.provider.launch(names(1), SPOT, run=RUN)
        w.wait(10.0)
        w.cloud.interrupt(w.cloud.alive()[0].id, notice_s=0.0)
        (notice,) = w.wait(30.0)
        assert notice.kind is NodeNews.LOST
        assert notice.reclaimed
        assert w.provider.owned(RUN) == []


def test_one_that_is_stopped_is_lost_and_ended():
    with world() as w:
        w.provider.launch(names(1), CPU, run=RUN)
        w.wait(10.0)
        instance = w.cloud.alive()[0].id
        w.clients.control.stop_instances(InstanceIds=[instance])
        (notice,) = w.wait(60.0)
        assert notice.kind is NodeNews.LOST
        assert w.cloud.alive() == []
        assert w.provider.owned(RUN) == []


def test_a_look_without_an_answer_is_made_up_for():
    with world(boot_s=12.0) as w:
        w.provider.launch(names(1), CPU, run=RUN)
        w.cloud.fault("DescribeInstances", "error", code="RequestLimitExceeded", times=4)
        assert w.kinds(60.0) == [f"{RUN}-0 running", f"{RUN}-0 ready"]


def test_what_a_node_reports_is_passed_on_once():
    with world() as w:
        w.provider.launch(names(2), CPU, run=RUN)
        w.wait(10.0)
        report = NodeReport(node=f"{RUN}-0", instance="i-1", phase=NodePhase.RUNNING, leaves_in_s=100.0)
        w.provider._hear(report)
        w.provider._hear(report)
        w.provider._hear(replace(report, node=f"{RUN}-1", phase=NodePhase.ENDED, said="no disk", leaves_in_s=None))
        leaving, lost = w.wait(0.0)
        assert (leaving.kind, leaving.in_s) == (NodeNews.LEAVING, 100.0)
        assert (lost.kind, lost.reason) == (NodeNews.LOST, "its command ended: no disk")
        w.wait(30.0)
        assert len(w.cloud.alive()) == 1


def test_another_process_takes_over_what_the_log_tells_of():
    with world(boot_s=30.0) as w:
        w.provider.launch(names(3), CPU, run=RUN)
        w.wait(100.0)
        w.cloud.fail(w.cloud.alive()[2].id)
        w.resume()
        w.provider.adopt(dict.fromkeys(names(4), CPU), run=RUN)
        said = {(notice.node, notice.kind): notice for notice in w.wait(0.0)}
        assert sorted(said) == [
            (f"{RUN}-0", "ready"),
            (f"{RUN}-0", "running"),
            (f"{RUN}-1", "ready"),
            (f"{RUN}-1", "running"),
            (f"{RUN}-2", "lost"),
            (f"{RUN}-3", "lost"),
        ]
        assert said[f"{RUN}-0", "running"].ago_s == pytest.approx(60.0)
        assert math.isinf(said[f"{RUN}-3", "lost"].ago_s)
        assert w.provider.owned(RUN) == names(2)
        assert len(w.provider.slots(f"{RUN}-1")) == 2


@pytest.mark.parametrize("kind", ["drop_after", "drop_before"])
def test_a_call_of_an_earlier_process_is_looked_for_and_never_repeated(kind):
    with world(visible_s=12.0, boot_s=15.0) as w:
        w.cloud.fault("RunInstances", kind)
        with pytest.raises(NoAnswer):
            w.provider.launch(names(2), CPU, run=RUN)
        w.resume()
        assert w.provider.owned(RUN) == names(2)
        w.provider.adopt(dict.fromkeys(names(2), CPU), run=RUN)
        kinds = w.kinds(60.0)
        assert w.cloud.counts()["RunInstances"] == 1
        if kind == "drop_after":
            assert sorted(kinds) == sorted(f"{name} {news}" for name in names(2) for news in ("running", "ready"))
            assert len(w.events("LaunchGranted")) == 1
        else:
            assert kinds == [f"{name} lost" for name in names(2)]
            assert len(w.events("LaunchRefused")) == 1


def test_what_the_log_knows_nothing_of_goes_by_its_id_and_can_be_ended():
    with world() as w:
        w.provider.launch(names(1), CPU, run=RUN)
        w.journal.state.launches.clear()
        w.resume()
        (stranger,) = w.provider.owned(RUN)
        assert stranger == w.cloud.alive()[0].id
        w.provider.release([stranger])
        assert w.cloud.alive() == []


def test_a_run_is_not_resumed_in_another_account_or_region():
    with world() as w:
        w.provider.launch(names(1), CPU, run=RUN)
        ((token, launch),) = w.journal.state.launches.items()
        w.journal.state.launches[token] = replace(launch, request={**launch.request, "account": "999999999999"})
        before = w.cloud.counts()["DescribeInstances"]
        with pytest.raises(InvalidInput, match=r"account 999999999999.*account 123456789012"):
            w.resume()
        w.journal.state.launches[token] = replace(launch, request={**launch.request, "region": "eu-west-1"})
        with pytest.raises(InvalidInput, match=r"region eu-west-1, and is resumed in account .* us-east-1"):
            w.provider.record(w.fresh())
        assert w.cloud.counts()["DescribeInstances"] == before
        assert len(w.cloud.alive()) == 1
