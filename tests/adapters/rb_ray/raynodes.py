"""Real Ray nodes on this machine: a cluster of the tests' own, and nodes of the local provider that join it."""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rb_ray.nodes.cluster import RayCluster
from rb_ray.nodes.joining import RayNodes

from rb_core.clock import SystemClock
from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Inbox, NodeNews, NodeNotice, Provider
from rb_core.providers.local import LocalProvider

WAIT_S = 60.0
"""Longest wait for anything that takes a few seconds here; a test that reaches it has failed."""


def node_type(slots: int = 1) -> InstanceType:
    return InstanceType(name="box", slots=slots, usd_per_hour=1.0)


def local(clock: SystemClock, slots: int = 8) -> Callable[[Inbox], LocalProvider]:
    """Makes providers of nodes of this machine, which has so many slots for them."""
    cloud = Cloud(instance_types=(node_type(),), max_nodes=slots)
    return lambda inbox: LocalProvider(cloud=cloud, clock=clock, inbox=inbox, slots=slots)


class Heard:
    """Nodes of one run and what is said of them; a subclass has the provider.

    Attributes:
        clock: the time.
        inbox: where the notices of the nodes arrive.
        run: the run's id.
        provider: the nodes.
        said: all notices that were taken out so far.
    """

    _numbers = itertools.count()
    provider: Provider

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.inbox = self.clock.inbox()
        self.run = f"run{next(self._numbers)}"
        self.said: list[NodeNotice] = []
        self._names = itertools.count()

    def launch(self, count: int, slots: int = 1) -> list[str]:
        """Launch nodes and wait until all are ready."""
        names = [f"{self.run}-{next(self._names)}" for _ in range(count)]
        self.provider.launch(names, node_type(slots), run=self.run)
        for name in names:
            self.hear(name, NodeNews.READY)
        return names

    def hear(self, node: str, kind: NodeNews) -> NodeNotice:
        """Wait until this has been said of a node. Fails when it is lost instead."""
        limit_s = self.clock.now() + WAIT_S
        while True:
            for notice in self.said:
                if notice.node == node and notice.kind == kind:
                    return notice
                if notice.node == node and notice.kind == NodeNews.LOST:
                    raise AssertionError(f"{node} was lost: {notice.reason}")
            notice = self.inbox.get(limit_s)
            if notice is None:
                raise AssertionError(f"{node} was not {kind} within {WAIT_S:.0f} s; said so far: {self.said}")
            self.said.append(notice)

    def close(self) -> None:
        """Give all back."""
        self.provider.release(self.provider.owned(self.run))
        self.provider.close()


class Nodes(Heard):
    """Nodes that are each a Ray node of its own.

    Attributes:
        machines: the local provider behind.
    """

    def __init__(self, cluster: RayCluster, *, slots: int = 8) -> None:
        super().__init__()
        self.cluster = cluster
        made: list[Provider] = []

        def make(inbox: Inbox) -> Provider:
            made.append(local(self.clock, slots)(inbox))
            return made[0]

        self.provider = RayNodes(make, cluster=cluster, clock=self.clock, inbox=self.inbox)
        self.machines = made[0]

    def until(self, holds: Callable[[], bool], limit_s: float = WAIT_S) -> float:
        """Wait until something holds, and say how long that took."""
        began_s = self.clock.now()
        while not holds():
            gone_s = self.clock.now() - began_s
            if gone_s > limit_s:
                raise AssertionError(f"not within {limit_s:.0f} s")
            notice = self.inbox.get(self.clock.now() + 0.05)
            if notice is not None:
                self.said.append(notice)
        return self.clock.now() - began_s

    def alive(self) -> list[str]:
        """The run's nodes that are alive in Ray's eyes."""
        prefix = f"rb:{self.run}:"
        return sorted(
            resource.removeprefix(prefix)
            for row in self.cluster.table()
            if row["Alive"]
            for resource in row["Resources"]
            if resource.startswith(prefix)
        )

    def raylet(self, node: str) -> int:
        """The pid of a node's raylet."""
        socket = self.row(node)["RayletSocketName"]
        return pid_with(f"raylet_socket_name={re.escape(socket)}")

    def row(self, node: str) -> dict:
        """What Ray's table says of a node that is alive."""
        return next(row for row in self.cluster.table() if f"rb:{self.run}:{node}" in row["Resources"])

    def kill(self, node: str) -> None:
        """Kill a node as a broken machine would."""
        os.kill(self.raylet(node), signal.SIGKILL)


@contextmanager
def nodes(cluster: RayCluster, *, slots: int = 8) -> Iterator[Nodes]:
    """Nodes that are given back at the end; the cluster is left as it is."""
    made = Nodes(cluster, slots=slots)
    try:
        yield made
    finally:
        made.close()


def commands() -> dict[int, str]:
    """The command lines of all processes of this machine."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def pid_with(pattern: str) -> int:
    """The one process whose command line has this pattern."""
    (pid,) = mentioning(pattern)
    return pid


def mentioning(pattern: str) -> Sequence[int]:
    """All processes whose command line has this pattern."""
    return [pid for pid, command in commands().items() if re.search(pattern, command)]


def marked(mark: str) -> Sequence[int]:
    """All processes in whose environment this stands: a program's, and all that comes of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found
