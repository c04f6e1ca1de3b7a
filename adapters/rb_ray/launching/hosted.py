"""Nodes of a run and the hosts on them: a host is made when its node is ready, and leaves before it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Inbox, NodeNews, NodeNotice, Notice, Provider, Slot


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
        self._leaving = leaving
        self._nodes = make(_Listening(inbox, {NodeNews.READY: ready, NodeNews.LOST: leaving}))
        self.name = self._nodes.name

    def check(self, cloud: Cloud) -> None:
        """As the provider of the nodes."""
        self._nodes.check(cloud)

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


class _Listening:
    """The inbox of the provider of the nodes."""

    def __init__(self, inbox: Inbox, told: Mapping[NodeNews, Callable[[str], None]]) -> None:
        self._inbox = inbox
        self._told = told

    def put(self, notice: Notice) -> None:
        """Tell of it, then pass it on."""
        if isinstance(notice, NodeNotice) and notice.kind in self._told:
            self._told[notice.kind](notice.node)
        self._inbox.put(notice)

    def get(self, until_s: float | None = None) -> Notice | None:
        """As the inbox behind."""
        return self._inbox.get(until_s)
