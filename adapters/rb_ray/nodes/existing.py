"""The provider `ray`: nodes of a Ray cluster that exists, taken for a run and given back as they were."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rb_core.errors import InvalidInput, LaunchFailure
from rb_core.hardware import Cloud, InstanceType
from rb_core.oneline import last_line
from rb_core.ports import Clock, Inbox, NodeNews, NodeNotice, Slot
from rb_ray import _compat
from rb_ray.nodes.cluster import RayCluster
from rb_ray.nodes.member import Member
from rb_ray.nodes.versions import mismatch, versions
from rb_ray.nodes.watch import Watch

ANSWER_S = 60.0
"""A node that has not told its versions by then is not taken."""

FREE_S = 30.0
"""A node that others still use by then is not taken."""

_PIN = 0.0001  # the least that Ray counts, of the resource that every node has by its address


@dataclass(slots=True, kw_only=True)
class _Taken:
    """A node of the cluster that a run holds.

    Attributes:
        run: the run.
        member: what it is in Ray's eyes.
        asked: the answer to the question for its versions, once there.
        asked_s: when that was asked.
        ready: whether it has answered as it should.
    """

    run: str
    member: Member
    asked: Any
    asked_s: float
    ready: bool = False


class ExistingNodes:
    """Hands out nodes of the cluster that the launcher `ray` uses. It starts none and ends none.

    A node is taken whole: one of S slots may be any that has S GPUs or, without GPUs, S CPUs; each slot then has its
    share of all that the node has. It is ready once nobody else uses any of that; nodes that nobody uses are taken
    first. A node whose versions differ from this program's is refused, with both named.
    """

    name = "ray"

    def __init__(self, *, clock: Clock, inbox: Inbox) -> None:
        """A provider that holds nothing, and knows no cluster yet.

        Args:
            clock: the time.
            inbox: where notices go.
        """
        self._clock = clock
        self._inbox = inbox
        self._lock = threading.RLock()
        self._cluster: RayCluster | None = None
        self._nodes: dict[str, _Taken] = {}
        self._watch: Watch | None = None

    def serve(self, cluster: RayCluster) -> None:
        """Take the nodes of this cluster; held from the first launch until `close`."""
        self._cluster = cluster

    def check(self, cloud: Cloud) -> None:
        """Raise `InvalidInput` when there is no such cluster, or it has too few nodes of some type."""
        with self._known() as cluster:
            for number, instance_type in enumerate(cloud.instance_types):
                fit = len(_fitting(cluster, instance_type))
                if fit == 0:
                    raise InvalidInput(
                        f"cloud.instance_types[{number}].slots",
                        f"must be at most the GPUs, or CPUs, of a node of the Ray cluster at {cluster.address}, "
                        f"got {instance_type.slots}",
                    )
                if cloud.max_nodes > fit:
                    raise InvalidInput(
                        "cloud.max_nodes",
                        f"must be at most {fit}, the nodes of the Ray cluster at {cluster.address} that hold a node of "
                        f"type {instance_type.name!r}, got {cloud.max_nodes}",
                    )

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Take one node for each new name. Idempotent by name.

        Raises:
            LaunchFailure: too few are free; none was taken.
        """
        cluster = self._hold()
        with self._lock:
            new = [name for name in dict.fromkeys(names) if name not in self._nodes]
            taken = {node.member.node_id for node in self._nodes.values()}
            free = [row for row in _fitting(cluster, instance_type) if row["NodeID"] not in taken]
            free.sort(key=lambda row: bool(_used(row["NodeID"], row["Resources"])))
            if len(new) > len(free):
                raise LaunchFailure(
                    f"{len(new)} node(s) of type {instance_type.name!r} are wanted, and {len(free)} of the Ray cluster "
                    f"at {cluster.address} are free for it; plan with fewer nodes (max_nodes)"
                )
            for name, row in zip(new, free, strict=False):
                member = _member(name, row, instance_type.slots)
                asked = _ask(member.node_id)
                self._nodes[name] = _Taken(run=run, member=member, asked=asked, asked_s=self._clock.now())
                self._inbox.put(NodeNotice(node=name, kind=NodeNews.RUNNING))

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """Say of each node whether it is still held: what another process held it gave back by ending."""
        for name in nodes:
            if name not in self._nodes:
                lost = "the process that held it has ended"
                self._inbox.put(NodeNotice(node=name, kind=NodeNews.LOST, reason=lost, ago_s=math.inf))

    def slots(self, name: str) -> Sequence[Slot]:
        """The slots of a ready node, in order. Raises KeyError for a name that is not held, or not ready."""
        with self._lock:
            node = self._nodes[name]
            if not node.ready:
                raise KeyError(name)
            return tuple(Slot(node=name, index=index) for index in range(node.member.slots))

    def release(self, names: Sequence[str]) -> None:
        """Leave nodes to others. Idempotent; unknown names are passed over."""
        with self._lock:
            for name in names:
                if self._nodes.pop(name, None) is not None and self._cluster is not None:
                    self._cluster.dismiss(name)

    def owned(self, run: str) -> Sequence[str]:
        """Names of all nodes that the run holds."""
        with self._lock:
            return tuple(name for name, node in self._nodes.items() if node.run == run)

    def close(self) -> None:
        """Let go of the cluster. Idempotent."""
        if self._watch is not None and self._cluster is not None:
            self._watch.close()
            self._watch = None
            self._cluster.__exit__()

    def _known(self) -> RayCluster:
        if self._cluster is None:
            raise InvalidInput(
                "cloud.provider", 'is "ray", whose nodes are for the launcher "ray" alone; set run.launcher = "ray"'
            )
        if not self._cluster.joins and not ray.is_initialized():
            raise InvalidInput(
                "cloud.provider",
                'is "ray", for the nodes of a cluster that exists; give the address of its head as RAY_ADDRESS, or '
                'use provider "local"',
            )
        return self._cluster

    def _hold(self) -> RayCluster:
        cluster = self._known()
        if self._watch is None:
            cluster.__enter__()
            self._watch = Watch(self._look, "ray-existing")
        return cluster

    def _look(self) -> None:
        cluster = self._known()
        alive = {row["NodeID"] for row in cluster.table() if row["Alive"]}
        with self._lock:
            held = list(self._nodes.items())
        for name, node in held:
            if node.member.node_id not in alive:
                self._lose(name, node, "Ray holds it for dead")
            elif not node.ready:
                self._hear(name, node)

    def _hear(self, name: str, node: _Taken) -> None:
        """See whether a node has told its versions, and is free."""
        if not ray.wait([node.asked], timeout=0)[0]:
            if self._clock.now() > node.asked_s + ANSWER_S:
                self._lose(name, node, f"it has not told its versions within {ANSWER_S:.0f} s")
            return
        try:
            unlike = mismatch(versions(), ray.get(node.asked))
        except RayError as error:
            reason = last_line(str(error))
            self._lose(name, node, f"it could not tell its versions, for which rubberband-tune must be there: {reason}")
            return
        if unlike:
            self._lose(name, node, f"it has {unlike}; make the versions alike")
            return
        used = _used(node.member.node_id, {"CPU": node.member.cpus, "GPU": node.member.gpus})
        if used:
            if self._clock.now() > node.asked_s + FREE_S:
                self._lose(name, node, f"others use {used} of it, still after {FREE_S:.0f} s")
            return
        with self._lock:
            if self._nodes.get(name) is node:
                node.ready = True
                self._known().admit(node.member)
                self._inbox.put(NodeNotice(node=name, kind=NodeNews.READY))

    def _lose(self, name: str, node: _Taken, reason: str) -> None:
        with self._lock:
            if self._nodes.get(name) is node:
                del self._nodes[name]
                self._known().dismiss(name)
                self._inbox.put(NodeNotice(node=name, kind=NodeNews.LOST, reason=reason))


def _fitting(cluster: RayCluster, instance_type: InstanceType) -> list[Mapping[str, Any]]:
    """The cluster's nodes that can be one of a type, one for each address, in the order of the addresses."""
    fit = {
        row["NodeManagerAddress"]: row
        for row in cluster.table()
        if row["Alive"] and (row["Resources"].get("GPU") or row["Resources"].get("CPU", 0.0)) >= instance_type.slots
    }
    return [fit[ip] for ip in sorted(fit)]


def _used(node_id: str, has: Mapping[str, float]) -> str:
    """What is taken of a node's CPUs and GPUs in Ray's eyes, in words; empty where nothing is."""
    known = _compat.free_resources().get(node_id)
    if known is None:
        return ""
    taken = {kind: has.get(kind, 0.0) - known.get(kind, 0.0) for kind in ("CPU", "GPU")}
    return " and ".join(f"{count:g} {kind}(s)" for kind, count in taken.items() if count > 0)


def _member(name: str, row: Mapping[str, Any], slots: int) -> Member:
    ip = row["NodeManagerAddress"]
    return Member(
        name=name,
        node_id=row["NodeID"],
        ip=ip,
        slots=slots,
        own={f"node:{ip}": _PIN},
        cpus=row["Resources"].get("CPU", 0.0),
        gpus=row["Resources"].get("GPU", 0.0),
    )


def _ask(node_id: str) -> Any:
    there = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return ray.remote(versions).options(num_cpus=0, max_retries=0, scheduling_strategy=there).remote()
