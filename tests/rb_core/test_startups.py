from __future__ import annotations

import math

import pytest

from rb_core.events import (
    LaunchAttempted,
    LaunchRefused,
    NodeLost,
    NodeReady,
    NodeRequested,
    NodeRunning,
    RunResumed,
    RunStarted,
)
from rb_core.hardware import Latency
from rb_core.startups import LEAST_STARTS, PRIOR_STARTS, Pool, Refusal, latency_of, startups


def started():
    return RunStarted(
        t_s=0, utc="u0", run="r", problem={"cloud": {"provider": "ec2", "region": "us-west-2"}}, plan={}, metric="",
        mode="max", seed=0, target="", environment={},
    )  # fmt: skip


def requested(node, t_s, kind="a", market="spot"):
    return NodeRequested(
        t_s=t_s, utc=f"u{t_s}", node=node, chain=0, stage=0, instance_type=kind, slots=1, usd_per_hour=1.0,
        market=market,
    )  # fmt: skip


def running(node, since_s, zone="us-west-2a"):
    return NodeRunning(t_s=since_s + 2, utc="u", node=node, since_s=since_s, zone=zone)


def ready(node, t_s):
    return NodeReady(t_s=t_s, utc="u", node=node)


POOL = Pool(provider="ec2", region="us-west-2", zone="us-west-2a", instance_type="a", market="spot")


def test_each_node_tells_how_long_it_took_to_run_and_to_be_ready():
    told = startups([started(), requested("n0", 10), running("n0", 45.0), ready("n0", 105)])
    (start,) = told.starts
    assert (start.pool, start.run, start.node, start.utc) == (POOL, "r", "n0", "u10")
    assert (start.launch_s, start.init_s) == (35.0, 60.0)


def test_nodes_that_never_ran_tell_nothing_and_those_never_ready_of_their_launch_alone():
    lost = NodeLost(t_s=50, utc="u", node="n1", reason="gone", until_s=50)
    told = startups([started(), requested("n0", 0), requested("n1", 0), running("n1", 30), lost])
    assert [(start.node, start.launch_s, start.init_s) for start in told.starts] == [("n1", 30, None)]


def test_nodes_that_were_starting_when_the_run_was_resumed_are_left_out():
    resumed = RunResumed(t_s=500, utc="u", problem={}, environment={}, clock="", clock_s=0)
    events = [
        started(), requested("n0", 0), requested("n1", 0), running("n0", 30), ready("n0", 90), resumed,
        running("n1", 30), ready("n1", 510), requested("n2", 520), running("n2", 550), ready("n2", 600),
    ]  # fmt: skip
    assert [(start.node, start.init_s) for start in startups(events).starts] == [("n0", 60), ("n2", 50)]


def test_refused_calls_name_their_pool():
    attempt = LaunchAttempted(t_s=1, utc="u", attempt="k", nodes=("n0",), request={"zone": "us-west-2a"})
    refused = LaunchRefused(t_s=2, utc="u2", attempt="k", reason="InsufficientInstanceCapacity")
    told = startups([started(), requested("n0", 0), attempt, refused])
    assert told.refusals == (Refusal(pool=POOL, run="r", utc="u2", reason="InsufficientInstanceCapacity"),)


def test_too_few_observations_change_nothing():
    assert latency_of(Latency(mean=30.0), [100.0] * (LEAST_STARTS - 1)) is None


def test_a_default_stands_for_some_observations_of_its_own_mean_and_spread():
    default, observed = Latency(mean=30.0, std=5.0), [60.0, 80.0] * 6
    latency = latency_of(default, observed)
    sample = [*observed, *(30.0 + 5.0 * math.sqrt(1.5) * sign for sign in (-1, 0, 1))]
    assert len(sample) == 12 + PRIOR_STARTS
    mean = sum(sample) / len(sample)
    assert latency.mean == pytest.approx(mean)
    assert latency.std == pytest.approx(math.sqrt(sum((value - mean) ** 2 for value in sample) / len(sample)))


def test_a_default_that_nobody_gave_counts_for_nothing_and_many_observations_outweigh_any():
    assert latency_of(Latency(mean=0.0), [50.0] * 8) == Latency(mean=50.0, std=0.0)
    assert latency_of(Latency(mean=30.0), [60.0] * 1000).mean == pytest.approx(60.0, rel=0.01)
