"""Nodes that join a Ray cluster and leave it, seen in what Ray reports."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
import ray
from raynodes import Nodes, mentioning, node_type, nodes, pid_with
from rb_ray.nodes import joining
from rb_ray.nodes.cluster import RayCluster
from rb_ray.nodes.joining import RayNodes
from rb_ray.nodes.versions import versions

from rb_core.clock import SystemClock
from rb_core.errors import InvalidInput
from rb_core.ports import Bootstrap, NodeNews, Provider
from rb_core.testing.fakes import FakeProvider

WAITS = """\
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes another command once a file is there."""


def kinds(nodes: Nodes, name: str) -> list[NodeNews]:
    return [notice.kind for notice in nodes.said if notice.node == name]


def lost(nodes: Nodes, name: str) -> str:
    """Wait until a node is lost; the reason."""
    nodes.until(lambda: NodeNews.LOST in kinds(nodes, name))
    return next(notice.reason for notice in nodes.said if notice.node == name and notice.kind == NodeNews.LOST)


def gone(nodes: Nodes) -> None:
    """Wait until nothing is held, in Ray's eyes and in the machine's."""
    nodes.until(lambda: not nodes.alive() and not nodes.provider.owned(nodes.run))


@ray.remote(num_cpus=0)
def remembered(size: int) -> bytes:
    return b"." * size


def test_nodes_join_and_leave_over_the_stages(ray_nodes: Nodes):
    names = ray_nodes.launch(4)
    assert ray_nodes.alive() == names
    assert sorted(ray_nodes.cluster.members) == names
    assert {kinds(ray_nodes, name)[0] for name in names} == {NodeNews.RUNNING}
    ray_nodes.provider.release(names[2:])
    ray_nodes.until(lambda: ray_nodes.alive() == names[:2])
    ray_nodes.provider.release(names[1:])
    ray_nodes.until(lambda: ray_nodes.alive() == names[:1])
    ray_nodes.until(lambda: list(ray_nodes.provider.owned(ray_nodes.run)) == names[:1])
    assert list(ray_nodes.cluster.members) == names[:1]
    with pytest.raises(KeyError):
        ray_nodes.cluster.member(names[1])
    assert NodeNews.LOST not in {notice.kind for notice in ray_nodes.said}


def test_a_joined_node_holds_what_its_bundle_asks_for_and_nothing_more(ray_nodes: Nodes):
    (name,) = ray_nodes.launch(1, slots=2)
    member = ray_nodes.cluster.member(name)
    assert [slot.index for slot in ray_nodes.provider.slots(name)] == [0, 1]
    assert member.bundle(1)["CPU"] == 1
    both = ray.util.placement_group([member.bundle(1), member.bundle(1)])
    assert both.wait(30)
    third = ray.util.placement_group([member.bundle(1)])
    assert not third.wait(0.5)
    ray.util.remove_placement_group(both)
    assert third.wait(30)
    ray.util.remove_placement_group(third)


def test_a_killed_node_is_lost_within_seconds_and_its_machine_is_ended(ray_nodes: Nodes, capfd):
    (name,) = ray_nodes.launch(1)
    folder = str(Path(ray_nodes.row(name)["RayletSocketName"]).parent)
    assert mentioning(folder)
    ray_nodes.kill(name)
    assert lost(ray_nodes, name)
    gone(ray_nodes)
    assert name not in ray_nodes.cluster.members
    assert not mentioning(folder)
    # Ray would tell of it on standard output, where the program's own answer goes.
    assert capfd.readouterr().out == ""


@pytest.mark.long
def test_a_node_that_leaves_by_itself_is_lost(ray_nodes: Nodes):
    (name,) = ray_nodes.launch(1)
    os.kill(pid_with(f"start --block .*rb:{ray_nodes.run}:{name}"), signal.SIGTERM)
    assert lost(ray_nodes, name)
    gone(ray_nodes)


def test_a_busy_node_is_not_taken_away(ray_nodes: Nodes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joining, "KEPT_S", 1.0)
    (name,) = ray_nodes.launch(1)
    group = ray.util.placement_group([ray_nodes.cluster.member(name).bundle(1)])
    assert group.wait(30)
    ray_nodes.provider.release([name])
    began_s = ray_nodes.clock.now()
    ray_nodes.until(lambda: ray_nodes.clock.now() > began_s + 2.0)
    assert ray_nodes.alive() == [name]
    assert list(ray_nodes.provider.owned(ray_nodes.run)) == [name]
    ray.util.remove_placement_group(group)
    gone(ray_nodes)


@pytest.mark.long
def test_an_idle_node_that_ray_would_keep_is_released_all_the_same(ray_nodes: Nodes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joining, "KEPT_S", 1.0)
    (name,) = ray_nodes.launch(1)
    member = ray_nodes.cluster.member(name)
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(member.node_id, soft=False)
    kept = remembered.options(scheduling_strategy=there).remote(1 << 20)
    ray.wait([kept], fetch_local=False)
    ray_nodes.provider.release([name])
    began_s = ray_nodes.clock.now()
    gone(ray_nodes)
    assert ray_nodes.clock.now() > began_s + 1.0


def test_a_node_that_joins_late_is_ready_when_it_has(ray_cluster: RayCluster, ray_nodes: Nodes, tmp_path):
    gate = tmp_path / "open"
    own = ray_cluster.bootstrap

    def late(run, node, instance_type):
        boot = own(run, node, instance_type)
        return Bootstrap(argv=(sys.executable, "-c", WAITS, str(gate), *boot.argv), env=boot.env)

    ray_cluster.bootstrap = late
    try:
        ray_nodes.provider.launch(["late"], node_type(), run=ray_nodes.run)
        ray_nodes.hear("late", NodeNews.RUNNING)
        assert ray_nodes.inbox.get(ray_nodes.clock.now() + 1.0) is None
        with pytest.raises(KeyError):
            ray_nodes.provider.slots("late")
        gate.touch()
        ray_nodes.hear("late", NodeNews.READY)
    finally:
        del ray_cluster.bootstrap


def test_a_node_that_has_not_joined_can_be_released(ray_nodes: Nodes):
    ray_nodes.provider.launch(["early"], node_type(), run=ray_nodes.run)
    ray_nodes.hear("early", NodeNews.RUNNING)
    ray_nodes.provider.release(["early"])
    assert not ray_nodes.provider.owned(ray_nodes.run)
    assert not mentioning(f"rb:{ray_nodes.run}:early")


def test_a_node_of_other_versions_is_refused_with_both_named(ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joining, "versions", lambda: {**versions(), "torch": "1.0.0"})
    with nodes(ray_cluster) as own:
        own.provider.launch(["other"], node_type(), run=own.run)
        own.hear("other", NodeNews.RUNNING)
        own.until(lambda: len(own.said) == 2)
        assert own.said[1].kind == NodeNews.LOST
        assert "torch 2." in own.said[1].reason
        assert "this program has torch 1.0.0" in own.said[1].reason
        gone(own)


def test_a_token_is_shown_nowhere(ray_cluster: RayCluster):
    boot = ray_cluster.bootstrap("r", "n", node_type())
    assert boot.env["RAY_AUTH_TOKEN"]
    assert boot.env["RAY_AUTH_TOKEN"] not in repr(boot)
    assert not mentioning(boot.env["RAY_AUTH_TOKEN"])


def test_a_provider_whose_nodes_run_no_commands_is_refused():
    clock = SystemClock()
    with pytest.raises(InvalidInput, match=r"cloud\.provider.*such as 'local'"):
        RayNodes(partial(FakeProvider, clock), cluster=RayCluster(), clock=clock, inbox=clock.inbox())


def test_it_is_a_provider(ray_nodes: Nodes):
    assert isinstance(ray_nodes.provider, Provider)
