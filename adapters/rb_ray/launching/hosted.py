"""Nodes of a run and the hosts on them: a host is made when its node is ready, and leaves before it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Inbox, NodeNews, NodeNotice, Notice, Provider, Record, Recording, Slot, Zoned
from rb_ray.nodes.between import Between


class HostedNodes:
    """A provider whose nodes have hosts. Ray keeps a node on which an actor is, so a host ends when its node goes.

    Args:
        make: makes the provider of the nodes.
        inbox: where notices go.
        ready: told a node's name when it is ready, before the notice is passed on.
        leaving: told a node's name before it is given back, or when it is lost.
    """

    def __init__(
        self,
        make: Callable[[Inbox], Provider],
        inbox: Inbox,
        *,
        ready: Callable[[str], None],
        leaving: Callable[[str], None],
    ) -> None:
        self._inbox = inbox
        self._leaving = leaving
        self._told = {NodeNews.READY: ready, NodeNews.LOST: leaving}
        self._nodes = make(Between(self._hear, inbox))
        self.name = self._nodes.name

    def check(self, cloud: Cloud) -> None:
        """As the provider of the nodes."""
        self._nodes.check(cloud)

    def record(self, record: Record) -> None:
        """As the provider of the nodes, where that keeps a record."""
        if isinstance(self._nodes, Recording):
            self._nodes.record(record)

    def together(self, wanted: bool) -> None:
        """As the provider of the nodes, where that has zones."""
        if isinstance(self._nodes, Zoned):
            self._nodes.together(wanted)

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """As the provider of the nodes."""
        self._nodes.launch(names, instance_type, run=run)

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """As the provider of the nodes."""
        self._nodes.adopt(nodes, run=run)

    def slots(self, name: str) -> Sequence[Slot]:
        """As the provider of the nodes."""
        return self._nodes.slots(name)

    def release(self, names: Sequence[str]) -> None:
        """Give nodes back, their hosts first."""
        for name in names:
            self._leaving(name)
        self._nodes.release(names)

    def owned(self, run: str) -> Sequence[str]:
        """As the provider of the nodes."""
        return self._nodes.owned(run)

    def close(self) -> None:
        """As the provider of the nodes."""
        self._nodes.close()

    def _hear(self, notice: Notice) -> None:
        """Tell of it, then pass it on."""
        if isinstance(notice, NodeNotice) and notice.kind in self._told:
            self._told[notice.kind](notice.node)
        self._inbox.put(notice)
