"""What a run stands on is found bit by bit, and what it leaves for its nodes to read goes with the last of them."""

from __future__ import annotations

import pytest
from crash_ec2 import Case, Condition
from crash_ec2.ordeal import ordeal
from ec2_world import CPU, RUN, world
from test_ec2_launching import names

from rb_core.errors import NoAnswer
from rb_core.events import RunEnded


def test_what_was_found_stays_found_when_what_follows_has_no_answer():
    with world() as w:
        w.cloud.fault("DescribeSecurityGroups", "error", code="RequestLimitExceeded")
        with pytest.raises(NoAnswer):
            w.provider.launch(names(1), CPU, run=RUN)
        w.provider.launch(names(1), CPU, run=RUN)
        counts = w.cloud.counts()
        assert (counts["DescribeImages"], counts["DescribeSubnets"], counts["DescribeSecurityGroups"]) == (1, 1, 2)
        assert len(w.cloud.alive()) == 1


def test_a_run_that_ends_removes_its_secret_though_aws_is_busy():
    with ordeal(Case(condition=Condition.PLAIN)) as made:
        made.cloud.fault("DeleteParameter", "error", code="ThrottlingException", times=2)
        made.begin(None)
        made.wait(20.0)
        assert made.cloud.counts()["DeleteParameter"] == 3
        assert made.left() == []


def test_a_process_that_takes_up_a_run_without_nodes_removes_the_secret_of_the_one_before():
    with ordeal(Case(condition=Condition.PLAIN)) as made:
        made.begin(None)
        steps = made.driver.trace
    with ordeal(Case(condition=Condition.PLAIN)) as made:
        made.begin(steps.index(f"before {RunEnded.__name__} is written"))
        made.wait(20.0)
        assert made.left() == ["the secret /rubberband/crash-1 is left over"]
        made.begin(None)
        made.wait(20.0)
        assert made.over
        assert made.left() == []


def test_what_is_shown_before_its_call_is_answered_began_no_earlier_than_the_call():
    with world(boot_s=1.0) as w:
        w.wait(300.0)
        w.cloud.fault("RunInstances", "drop_after")
        with pytest.raises(NoAnswer):
            w.provider.launch(names(1), CPU, run=RUN)
        running, _ = w.wait(10.0)
        assert 0.0 <= running.ago_s <= 10.0
