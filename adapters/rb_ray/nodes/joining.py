"""Nodes of any provider of machines as nodes of a Ray cluster: they join when they are up, and leave drained."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rb_core.errors import InvalidInput, LaunchFailure, NoAnswer, RubberBandError
from rb_core.hardware import InstanceType
from rb_core.ports import (
    Bootstrap,
    Clock,
    Inbox,
    Machines,
    NodeNews,
    NodeNotice,
    Notice,
    Provider,
    Slot,
)
from rb_ray import _compat
from rb_ray.nodes.between import Between, Onward
from rb_ray.nodes.bootstrap import node_resource
from rb_ray.nodes.cluster import RayCluster
from rb_ray.nodes.member import Member
from rb_ray.nodes.versions import mismatch, told, versions
from rb_ray.nodes.watch import Watch

KEPT_S = 5.0
"""A node that none of our slots is in use on, and that Ray will not let go all the same, is taken after so long."""

LEAVING_S = 5.0
"""A node that was drained is taken after so long, whether Ray has seen it leave or not."""

SILENT_S = 15.0
"""A cluster whose head has not answered for so long is gone."""

CLOSING_S = 15.0
"""How long `close` waits for nodes that are still on their way out."""


@dataclass(slots=True, kw_only=True)
class _Node:
    """A node that is held.

    Attributes:
        run: its run.
        instance_type: what it is.
        up: whether its own provider holds it for ready.
        member: what it is in Ray's eyes, once it has joined.
    """

    run: str
    instance_type: InstanceType
    up: bool = False
    member: Member | None = None


@dataclass(slots=True, kw_only=True)
class _Parting:
    """A node that has been given back and is not gone yet.

    Attributes:
        run: its run.
        member: what it is in Ray's eyes; None where there is nothing to drain.
        idle_s: since when nothing of ours has been seen on it; None while it is in use.
        drained_s: when Ray agreed that it goes; None before.
    """

    run: str
    member: Member | None
    idle_s: float | None = None
    drained_s: float | None = None


class RayNodes(Onward):
    """A provider whose nodes are ready once they have joined the Ray cluster, and lost once Ray holds them for dead.

    A node with other versions than this program's is lost, with both named. Nodes that are given back are drained
    first, in a thread: one on which slots are in use stays until they are free.

    Args:
        make: makes the provider of the machines, which puts its notices into the inbox that it is given.
        cluster: what they join; held from the first launch until `close`.
        clock: the time.
        inbox: where notices go.

    Raises:
        InvalidInput: this provider's nodes cannot run a command, or do not reach the cluster.
    """

    def __init__(self, make: Callable[[Inbox], Provider], *, cluster: RayCluster, clock: Clock, inbox: Inbox) -> None:
        super().__init__(make(Between(self._hear, inbox)))
        machines = self.behind
        if not isinstance(machines, Machines):
            self.behind.close()
            raise InvalidInput(
                "cloud.provider", f"must be one whose nodes can join a Ray cluster, such as 'local', got {self.name!r}"
            )
        try:
            cluster.serve(machines.reach)
        except InvalidInput:
            self.behind.close()
            raise
        machines.boot(self._bootstrap)
        self._cluster = cluster
        self._clock = clock
        self._inbox = inbox
        self._lock = threading.RLock()
        self._nodes: dict[str, _Node] = {}
        self._parting: dict[str, _Parting] = {}
        self._watch: Watch | None = None
        self._heard_s = 0.0
        self._gone = ""
        self._versions = versions()

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Request one node for each name. Idempotent by name.

        Raises:
            LaunchFailure: nothing was requested.
            InvalidInput: the cluster cannot be joined.
            RubberBandError: the cluster is gone, and with it all nodes that could be had.
        """
        self._hold()
        if self._gone:
            raise RubberBandError(
                f"the Ray cluster at {self._cluster.address} is gone: {self._gone}; start it again, and resume the run"
            )
        with self._lock:
            new = [name for name in names if name not in self._nodes]
            self._nodes.update({name: _Node(run=run, instance_type=instance_type) for name in new})
        try:
            self.behind.launch(names, instance_type, run=run)
        except LaunchFailure:
            with self._lock:
                for name in new:
                    self._nodes.pop(name, None)
            raise

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """Take over nodes of an earlier process of the run; they are ready when they are found in the cluster."""
        self._hold()
        with self._lock:
            for name, instance_type in nodes.items():
                self._nodes.setdefault(name, _Node(run=run, instance_type=instance_type))
        self.behind.adopt(nodes, run=run)

    def slots(self, name: str) -> Sequence[Slot]:
        """The slots of a ready node, in order. Raises KeyError for a name that is not held, or not ready."""
        with self._lock:
            if self._nodes[name].member is None:
                raise KeyError(name)
        return self.behind.slots(name)

    def release(self, names: Sequence[str]) -> None:
        """Give nodes back; returns before they are gone. Idempotent."""
        unjoined = []
        with self._lock:
            for name in names:
                node = self._nodes.pop(name, None)
                if node is not None:
                    self._cluster.dismiss(name)
                    self._parting[name] = _Parting(run=node.run, member=node.member)
                    if node.member is None:
                        unjoined.append(name)
                elif name not in self._parting:
                    unjoined.append(name)
        if unjoined:
            self.behind.release(unjoined)
            with self._lock:
                for name in unjoined:
                    self._parting.pop(name, None)

    @property
    def draining(self) -> Sequence[str]:
        """Nodes that have been given back and on which Ray may still start something."""
        with self._lock:
            return [name for name, node in self._parting.items() if node.member is not None and node.drained_s is None]

    def close(self) -> None:
        """Wait, for a while, until what was given back is gone, and let go of the cluster."""
        if self._watch is None:
            self.behind.close()
            return
        self._watch.close()
        self._watch = None
        limit_s = self._clock.now() + CLOSING_S
        pause = threading.Event()
        try:
            while self._parting and self._clock.now() < limit_s:
                with suppress(OSError):
                    self._look()
                pause.wait(0.1)
        finally:
            self.behind.close()
            self._cluster.__exit__()

    def _hold(self) -> None:
        if self._watch is None:
            self._cluster.__enter__()
            self._gone, self._heard_s = "", self._clock.now()
            self._cluster.on_end(self._mourn)
            self._watch = Watch(self._look, "ray-nodes")

    def _bootstrap(self, name: str, instance_type: InstanceType) -> Bootstrap:
        with self._lock:
            run = self._nodes[name].run
        return self._cluster.bootstrap(run, name, instance_type)

    def _hear(self, notice: Notice) -> None:
        """What the machines' provider has to say of one of them."""
        if not isinstance(notice, NodeNotice):
            self._inbox.put(notice)
            return
        with self._lock:
            node = self._nodes.get(notice.node)
            if node is None:
                self._parting.pop(notice.node, None)
                return
            if notice.kind == NodeNews.READY:
                node.up = True
                return
            if notice.kind == NodeNews.LOST:
                del self._nodes[notice.node]
                self._cluster.dismiss(notice.node)
            self._inbox.put(notice)

    def _look(self) -> None:
        """Compare what is held with what Ray's table says, and see to those that are on their way out."""
        table = self._table()
        alive = [row for row in table if row["Alive"]]
        by_id = {row["NodeID"]: row for row in table}
        with self._lock:
            held = list(self._nodes.items())
            parting = list(self._parting.items())
        for name, node in held:
            if self._gone:
                self._lose(name, node, f"its Ray cluster is gone: {self._gone}; start it again, and resume the run")
            elif node.member is None:
                row = _row(alive, node_resource(node.run, name))
                if node.up and row is not None:
                    self._join(name, node, row)
            elif not (row := by_id.get(node.member.node_id, {})).get("Alive"):
                said = row.get("DeathReasonMessage") or "it is not in the cluster any more"
                self._lose(name, node, f"Ray holds it for dead: {said}")
        for name, leaving in parting:
            self._part(name, leaving, by_id)

    def _mourn(self, said: str) -> None:
        """The cluster's head has ended."""
        self._gone = said
        with self._lock:
            held = list(self._nodes.items())
        for name, node in held:
            self._lose(name, node, f"its Ray cluster is gone: {said}")

    def _table(self) -> Sequence[Mapping[str, Any]]:
        """Ray's table of nodes; empty once the cluster is gone."""
        if self._gone:
            return ()
        try:
            table = self._cluster.table()
        except Exception as error:
            if self._clock.now() < self._heard_s + SILENT_S:
                raise
            self._gone = f"its head has not answered for {SILENT_S:.0f} s ({error})"
            return ()
        self._heard_s = self._clock.now()
        return table

    def _join(self, name: str, node: _Node, row: Mapping[str, Any]) -> None:
        unlike = mismatch(self._versions, told(row["Labels"]))
        if unlike:
            self._lose(name, node, f"it has {unlike}; make the versions alike")
            return
        slots = node.instance_type.slots
        member = Member(
            name=name,
            node_id=row["NodeID"],
            ip=row["NodeManagerAddress"],
            slots=slots,
            own={node_resource(node.run, name): 1.0},
            cpus=row["Resources"].get("CPU", 0.0),
            gpus=row["Resources"].get("GPU", 0.0),
        )
        with self._lock:
            if self._nodes.get(name) is node:
                node.member = member
                self._cluster.admit(member)
                self._inbox.put(NodeNotice(node=name, kind=NodeNews.READY))

    def _lose(self, name: str, node: _Node, reason: str) -> None:
        """Give up a node, and end its machine."""
        with self._lock:
            if self._nodes.get(name) is not node:
                return
            del self._nodes[name]
            self._cluster.dismiss(name)
            self._parting[name] = _Parting(run=node.run, member=None)
            self._inbox.put(NodeNotice(node=name, kind=NodeNews.LOST, reason=reason))
        self._take(name)

    def _part(self, name: str, node: _Parting, by_id: Mapping[str, Mapping[str, Any]]) -> None:
        """One step of a node's way out."""
        member, now_s = node.member, self._clock.now()
        if member is None or not by_id.get(member.node_id, {}).get("Alive"):
            self._take(name)
        elif node.drained_s is not None:
            if now_s > node.drained_s + LEAVING_S:
                self._take(name)
        elif _compat.drain(self._cluster.address, member.node_id, "it is not needed any more"):
            node.drained_s = now_s
        elif _in_use(member):
            node.idle_s = None
        elif node.idle_s is None:
            node.idle_s = now_s
        elif now_s > node.idle_s + KEPT_S:
            self._take(name)

    def _take(self, name: str) -> None:
        """Have the machine ended; where nobody answers, the next look tries again."""
        try:
            self.behind.release([name])
        except NoAnswer:
            return
        with self._lock:
            self._parting.pop(name, None)


def _row(table: Sequence[Mapping[str, Any]], resource: str) -> Mapping[str, Any] | None:
    return next((row for row in table if resource in row["Resources"]), None)


def _in_use(member: Member) -> bool:
    """Whether a slot of the node is taken in Ray's eyes."""
    free = _compat.free_resources().get(member.node_id, {})
    return any(free.get(resource, 0.0) < each * member.slots for resource, each in member.own.items())
