"""Nodes of a run and the hosts on them: a host is made when its node is ready, and leaves before it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rb_core.ports import Inbox, NodeNews, NodeNotice, Notice, Provider
from rb_ray.nodes.between import Between, Onward


class HostedNodes(Onward):
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
        super().__init__(make(Between(self._hear, inbox)))

    def release(self, names: Sequence[str]) -> None:
        """Give nodes back, their hosts first."""
        for name in names:
            self._leaving(name)
        super().release(names)

    def _hear(self, notice: Notice) -> None:
        """Tell of it, then pass it on."""
        if isinstance(notice, NodeNotice) and notice.kind in self._told:
            self._told[notice.kind](notice.node)
        self._inbox.put(notice)
