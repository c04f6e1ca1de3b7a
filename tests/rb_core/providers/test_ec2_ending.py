"""Ending: nothing that is ours stays, nothing that is not ours goes, and no instance keeps another alive."""

from __future__ import annotations

import threading

import pytest
from ec2_world import CPU, RUN, SPOT, world
from test_ec2_launching import names

from rb_core.errors import NoAnswer
from rb_core.providers.ec2.ending import end


def test_one_that_ec2_does_not_know_does_not_keep_the_others_alive():
    with world() as w:
        w.provider.launch(names(5), CPU, run=RUN)
        ids = [each.id for each in w.cloud.alive()]
        done = end(w.clients.control, [*ids[:3], "i-0123456789abcdef0", *ids[3:]])
        assert done.missing == ("i-0123456789abcdef0",)
        assert sorted(done.ended) == sorted(ids)
        assert w.cloud.alive() == []


def test_protection_is_lifted_where_the_instance_is_ours_and_that_is_said():
    with world() as w:
        w.provider.launch(names(3), CPU, run=RUN)
        first = w.cloud.alive()[0].id
        w.clients.control.modify_instance_attribute(InstanceId=first, DisableApiTermination={"Value": True})
        w.provider.release(names(3))
        assert w.provider.owned(RUN) == []
        w.wait(20.0)
        assert w.states() == ["terminated"] * 3
        assert [event.text for event in w.events("Warned")] == [
            f"the protection of {first} against being ended was lifted"
        ]


def test_what_is_not_visible_yet_is_still_ours_and_ends_when_it_is():
    with world(visible_s=12.0) as w:
        w.provider.launch(names(2), CPU, run=RUN)
        w.provider.release(names(2))
        assert w.provider.owned(RUN) == names(2)
        assert len(w.cloud.alive()) == 2
        w.wait(25.0)
        assert w.provider.owned(RUN) == []
        assert w.cloud.alive() == []


def test_without_the_grace_time_it_would_be_lost():
    with world(visible_s=12.0, own=[("grace_s", 0), ("short_grace", True)]) as w:
        w.provider.launch(names(2), CPU, run=RUN)
        w.provider.release(names(2))
        assert w.provider.owned(RUN) == []
        assert len(w.cloud.alive()) == 2


def test_a_vanished_instance_is_gone_and_a_new_one_that_is_not_seen_yet_is_not():
    with world(visible_s=12.0, boot_s=20.0) as w:
        w.provider.launch(names(1), CPU, run=RUN)
        assert w.kinds(30.0) == [f"{RUN}-0 running", f"{RUN}-0 ready"]
        w.cloud.vanish_s = 0.0
        w.cloud.fail(w.cloud.alive()[0].id)
        (notice,) = w.wait(120.0)
        assert "is not there any more" in notice.reason
        assert w.provider.owned(RUN) == []


def test_an_instance_that_somebody_else_has_taken_is_left_alone_and_named():
    with world() as w:
        w.provider.launch(names(2), CPU, run=RUN)
        w.wait(10.0)
        first = w.cloud.alive()[0].id
        w.clients.control.create_tags(Resources=[first], Tags=[{"Key": "rubberband:run", "Value": "another"}])
        w.provider.release(names(2))
        w.wait(90.0)
        assert [each.id for each in w.cloud.alive()] == [first]
        assert w.provider.owned(RUN) == []
        (event,) = w.events("Warned")
        assert first in event.text
        assert "it is left alone" in event.text


def test_a_held_instance_that_lost_our_tags_is_lost():
    with world() as w:
        w.provider.launch(names(1), CPU, run=RUN)
        w.wait(10.0)
        (instance,) = (each.id for each in w.cloud.alive())
        w.clients.control.delete_tags(Resources=[instance], Tags=[{"Key": "rubberband:run"}])
        (notice,) = w.wait(120.0)
        assert (notice.kind, notice.reason) == ("lost", f"instance {instance} has lost this run's tags")
        assert [each.id for each in w.cloud.alive()] == [instance]


def test_throttled_releases_are_made_up_for():
    with world() as w:
        w.provider.launch(names(3), CPU, run=RUN)
        w.wait(10.0)
        w.cloud.fault("TerminateInstances", "error", code="RequestLimitExceeded", times=2)
        with pytest.raises(NoAnswer):
            w.provider.release(names(3))
        w.wait(30.0)
        assert w.cloud.alive() == []


def test_spot_and_on_demand_go_in_one_call():
    with world() as w:
        w.provider.launch(names(2), CPU, run=RUN)
        w.provider.launch(names(2, 2), SPOT, run=RUN)
        w.provider.release(names(4))
        assert w.cloud.counts()["TerminateInstances"] == 1
        assert w.cloud.alive() == []
        assert w.cloud.open_spot_requests() == []


def test_nodes_may_be_given_back_from_another_thread():
    with world(boot_s=30.0) as w:
        w.provider.launch(names(4), CPU, run=RUN)
        thread = threading.Thread(target=w.provider.release, args=(names(2),))
        thread.start()
        thread.join()
        assert w.kinds(60.0) == [f"{RUN}-2 running", f"{RUN}-2 ready", f"{RUN}-3 running", f"{RUN}-3 ready"]
        assert w.provider.owned(RUN) == names(2, 2)


def test_every_page_of_a_list_is_read(monkeypatch):
    monkeypatch.setattr("rb_core.providers.ec2.listing.PAGE", 5)
    with world() as w:
        for first in range(12):
            w.provider.launch(names(1, first), CPU, run=RUN)
        before = w.cloud.counts()["DescribeInstances"]
        assert len(w.provider.owned(RUN)) == 12
        assert w.cloud.counts()["DescribeInstances"] == before + 3
        w.provider.release(names(12))
        assert w.cloud.alive() == []


def test_nothing_is_asked_when_nothing_is_held():
    with world() as w:
        w.provider.launch(names(1), CPU, run=RUN)
        w.provider.release(names(1))
        w.wait(60.0)
        before = sum(w.cloud.counts().values())
        w.wait(3600.0)
        assert sum(w.cloud.counts().values()) == before
