"""The provider `ray`: nodes of a cluster that exists, taken and given back without being ended."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import ray
from raynodes import Nodes, node_type, nodes
from rb_ray.nodes import existing
from rb_ray.nodes.cluster import RayCluster
from rb_ray.nodes.existing import ExistingNodes
from rb_ray.nodes.gather import gather
from rb_ray.nodes.joining import RayNodes
from rb_ray.nodes.versions import versions

from rb_core.clock import SystemClock
from rb_core.errors import InvalidInput, LaunchFailure
from rb_core.hardware import Cloud
from rb_core.ports import Inbox, NodeNews, NodeNotice, Provider
from rb_core.providers.local import LocalProvider


class Taking:
    """A provider of a cluster's nodes, and what it says."""

    def __init__(self, cluster: RayCluster) -> None:
        self.clock = SystemClock()
        self.inbox: Inbox = self.clock.inbox()
        self.provider = gather(self.make, cluster=cluster, clock=self.clock, inbox=self.inbox)

    def make(self, inbox: Inbox) -> Provider:
        return ExistingNodes(clock=self.clock, inbox=inbox)

    def hear(self, count: int) -> list[NodeNotice]:
        heard = [self.inbox.get(self.clock.now() + 60.0) for _ in range(count)]
        return [notice for notice in heard if isinstance(notice, NodeNotice)]


@pytest.fixture(scope="module")
def two_nodes(ray_cluster: RayCluster) -> Iterator[Nodes]:
    """A cluster of two nodes of two CPUs."""
    with nodes(ray_cluster) as made:
        made.launch(2, slots=2)
        yield made


@pytest.fixture
def taking(ray_cluster: RayCluster, two_nodes: Nodes) -> Iterator[Taking]:
    made = Taking(ray_cluster)
    yield made
    made.provider.close()


def test_nodes_are_taken_and_left_as_they_were(taking: Taking, two_nodes: Nodes):
    ids = {two_nodes.row(name)["NodeID"] for name in two_nodes.alive()}
    taking.provider.launch(["a", "b"], node_type(2), run="r")
    said = taking.hear(4)
    assert sorted((notice.node, notice.kind) for notice in said) == [
        ("a", NodeNews.READY), ("a", NodeNews.RUNNING), ("b", NodeNews.READY), ("b", NodeNews.RUNNING),
    ]  # fmt: skip
    assert {two_nodes.cluster.member(name).node_id for name in ("a", "b")} == ids
    assert [slot.index for slot in taking.provider.slots("a")] == [0, 1]
    assert taking.provider.owned("r") == ("a", "b")
    with pytest.raises(LaunchFailure, match=r"1 node.* wanted, and 0 of the Ray cluster at 127"):
        taking.provider.launch(["a", "b", "c"], node_type(2), run="r")
    taking.provider.release(["a", "unheard-of"])
    taking.provider.launch(["c"], node_type(1), run="r")
    assert [notice.kind for notice in taking.hear(2)] == [NodeNews.RUNNING, NodeNews.READY]
    taking.provider.release(["b", "c"])
    assert taking.provider.owned("r") == ()
    assert not {"a", "b", "c"} & set(two_nodes.cluster.members)
    assert {two_nodes.row(name)["NodeID"] for name in two_nodes.alive()} == ids


def test_a_slot_has_its_share_of_its_node_and_of_no_other(taking: Taking, two_nodes: Nodes):
    taking.provider.launch(["a"], node_type(2), run="r")
    taking.hear(2)
    member = two_nodes.cluster.member("a")
    assert member.bundle(1)["CPU"] == 1
    whole = ray.util.placement_group([member.bundle(1), member.bundle(1)])
    assert whole.wait(30)
    (where,) = {*ray.util.placement_group_table(whole)["bundles_to_node_id"].values()}
    assert where == member.node_id
    more = ray.util.placement_group([member.bundle(1)])
    assert not more.wait(0.5)
    ray.util.remove_placement_group(whole)
    ray.util.remove_placement_group(more)


def test_a_node_that_others_use_is_taken_last_and_ready_when_they_have_left(
    taking: Taking, two_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
):
    taking.provider.launch(["a", "b"], node_type(2), run="r")
    taking.hear(4)
    first, second = (two_nodes.cluster.member(name) for name in ("a", "b"))
    taking.provider.release(["a", "b"])
    others = ray.util.placement_group([first.bundle(1)])
    assert others.wait(30)
    two_nodes.until(lambda: existing._used(first.node_id, {"CPU": first.cpus}) == "1 CPU(s)")
    taking.provider.launch(["c", "d"], node_type(2), run="r")
    said = taking.hear(3)
    assert [notice.node for notice in said if notice.kind == NodeNews.READY] == ["c"]
    assert two_nodes.cluster.member("c").node_id == second.node_id
    ray.util.remove_placement_group(others)
    assert [(notice.node, notice.kind) for notice in taking.hear(1)] == [("d", NodeNews.READY)]
    assert two_nodes.cluster.member("d").node_id == first.node_id
    taking.provider.release(["c", "d"])
    others = ray.util.placement_group([first.bundle(2)])
    assert others.wait(30)
    two_nodes.until(lambda: existing._used(first.node_id, {"CPU": first.cpus}) == "2 CPU(s)")
    monkeypatch.setattr(existing, "FREE_S", 1.0)
    taking.provider.launch(["e", "f"], node_type(2), run="r")
    (lost,) = [notice for notice in taking.hear(4) if notice.kind == NodeNews.LOST]
    assert (lost.node, lost.reason) == ("f", "others use 2 CPU(s) of it, still after 1 s")
    ray.util.remove_placement_group(others)
    two_nodes.until(lambda: not existing._used(first.node_id, {"CPU": first.cpus}))


def test_a_node_of_other_versions_is_refused_with_both_named(taking: Taking, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(existing, "mismatch", lambda ours, theirs: f"{ours['ray']} and {theirs['ray']}")
    taking.provider.launch(["a"], node_type(2), run="r")
    ours = versions()["ray"]
    assert taking.hear(2)[1].reason == f"it has {ours} and {ours}; make the versions alike"
    assert taking.provider.owned("r") == ()


def test_what_an_earlier_process_held_is_lost(taking: Taking):
    taking.provider.adopt({"old": node_type(2)}, run="r")
    assert [(n.kind, n.ago_s) for n in taking.hear(1)] == [(NodeNews.LOST, math.inf)]


@pytest.mark.parametrize(
    ("slots", "most", "problem"),
    [
        (2, 3, r"cloud\.max_nodes: must be at most 2, the nodes of the Ray cluster at 127.*got 3"),
        (3, 1, r"cloud\.instance_types\[0\]\.slots: must be at most the GPUs, or CPUs, of a node.*got 3"),
    ],
)
def test_more_than_the_cluster_has_is_refused(taking: Taking, slots, most, problem):
    with pytest.raises(InvalidInput, match=problem):
        taking.provider.check(Cloud(instance_types=(node_type(slots),), max_nodes=most))
    taking.provider.check(Cloud(instance_types=(node_type(2),), max_nodes=2))


def test_without_the_launcher_ray_it_is_refused():
    clock = SystemClock()
    provider = ExistingNodes(clock=clock, inbox=clock.inbox())
    with pytest.raises(InvalidInput, match=r'for the launcher "ray" alone; set run\.launcher'):
        provider.check(Cloud(instance_types=(node_type(),)))


def test_without_a_cluster_it_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InvalidInput, match="the address of its head as RAY_ADDRESS"):
        Taking(RayCluster()).provider.check(Cloud(instance_types=(node_type(),)))


def test_machines_are_gathered_as_nodes_that_join():
    clock = SystemClock()
    cloud = Cloud(instance_types=(node_type(),))
    provider = gather(
        lambda inbox: LocalProvider(cloud=cloud, clock=clock, inbox=inbox, slots=1),
        cluster=RayCluster(),
        clock=clock,
        inbox=clock.inbox(),
    )
    assert isinstance(provider, RayNodes)
    provider.check(Cloud(instance_types=(node_type(),), max_nodes=1))
    provider.close()
