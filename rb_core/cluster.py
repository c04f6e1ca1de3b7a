"""The nodes of one chain: wanted, requested and usable, and given back whatever happens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rb_core.errors import LeakedNodes, UnusableLog
from rb_core.events import NodeLost, NodeReady, NodeReleased, NodeRequested, NodeRunning
from rb_core.hardware import InstanceType
from rb_core.journal import Journal
from rb_core.ports import NodeNotice, Provider, Slot

Admit = Callable[[int, InstanceType], None]
"""Asked before nodes are requested: raises when these would break a limit of the run."""

_ATTEMPTS = 3
_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class HeldNode:
    """A node that is requested or usable.

    Attributes:
        name: its name.
        instance_type: what it is.
        running: whether it runs, and is billed.
        slots: its slots, empty until it is usable.
    """

    name: str
    instance_type: InstanceType
    running: bool = False
    slots: tuple[Slot, ...] = ()


class Cluster:
    """The nodes of one chain, or of chains that follow each other.

    Use it as a context manager: leaving the ``with`` block gives every node back, whatever happened in it, and
    asks the provider whether it agrees.
    """

    def __init__(self, provider: Provider, journal: Journal, *, run: str, names: Iterator[str], admit: Admit) -> None:
        """A cluster without nodes.

        Args:
            provider: where nodes come from.
            journal: where every step is written before it is taken.
            run: id of the run, the tag of its nodes.
            names: names for new nodes; shared by all clusters of the run.
            admit: asked before each request.
        """
        self._provider = provider
        self._journal = journal
        self._run = run
        self._names = names
        self._admit = admit
        self._requested: dict[str, HeldNode] = {}
        self._usable: dict[str, HeldNode] = {}
        self._ever: set[str] = set()
        self._chain = 0

    @property
    def usable(self) -> Sequence[HeldNode]:
        """Nodes that can hold trials, in the order in which they became usable."""
        return tuple(self._usable.values())

    @property
    def requested(self) -> Sequence[HeldNode]:
        """Nodes that are asked for and not yet usable, in the order of their requests."""
        return tuple(self._requested.values())

    def __contains__(self, name: str) -> bool:
        return name in self._usable or name in self._requested

    def resize(self, instance_type: InstanceType, count: int, *, chain: int) -> None:
        """Hold `count` nodes of a type: keep, then release the rest, then request what is missing.

        Kept are first the usable ones in the order in which they became usable, then those still starting in the
        order of their requests. Returns without waiting for new nodes.

        Args:
            instance_type: the type of all nodes from now on.
            count: how many.
            chain: the chain that they are for.

        Raises:
            LaunchFailure: the missing nodes cannot be had, or would exceed `max_nodes`.
            BudgetExceeded: they could bring the bill above `max_usd`.
            UnusableLog: a step could not be written, and was not taken.
        """
        self._chain = chain
        held = [*self._usable.values(), *self._requested.values()]
        kept = [node for node in held if node.instance_type == instance_type][:count]
        keep = {node.name for node in kept}
        self._release([node.name for node in held if node.name not in keep], "not needed for the next stage")
        if len(kept) < count:
            self._request(instance_type, count - len(kept))

    def release_all(self, reason: str) -> None:
        """Give every node back.

        Raises:
            UnusableLog: this could not be written; nothing was given back.
        """
        self._release([*self._usable, *self._requested], reason)

    def replace(self, lost: HeldNode) -> None:
        """Request one node in the place of a lost one. Raises what `resize` raises."""
        self._request(lost.instance_type, 1)

    def took(self, notice: NodeNotice) -> HeldNode | None:
        """Take a notice of the provider in: the node when it became usable or was lost, else None.

        Notices of nodes that are not held any more, and repeated ones, change nothing.
        """
        node = self._usable.get(notice.node) or self._requested.get(notice.node)
        if node is None:
            return None
        if notice.kind == "lost":
            self._journal.write(NodeLost, node=node.name, reason=notice.reason)
            self._forget(node.name)
            return node
        if not node.running:
            self._journal.write(NodeRunning, node=node.name)
            node.running = True
        if notice.kind == "ready" and node.name in self._requested:
            self._journal.write(NodeReady, node=node.name)
            node.slots = tuple(self._provider.slots(node.name))
            self._usable[node.name] = self._requested.pop(node.name)
            return node
        return None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        """Give every node back and check that none is left.

        Raises:
            LeakedNodes: the provider still owns some.
        """
        names = [*self._usable, *self._requested]
        for name in names:
            self._journal.attempt(NodeReleased, node=name, reason="the run ended")
        interrupt: BaseException | None = None
        left: Sequence[str] = names
        for _ in range(_ATTEMPTS):
            try:
                if left:
                    self._provider.release(left)
                left = [name for name in self._provider.owned(self._run) if name in self._ever]
                if not left:
                    break
            except Exception:
                _logger.exception("nodes could not be given back")
            except BaseException as raised:
                # Ctrl-C while nodes are given back: give them back first.
                interrupt = raised
        for name in names:
            self._forget(name)
        if left:
            raise LeakedNodes(
                left, f"look for them at provider {self._provider.name!r} by the tag {self._run!r} and end them there"
            )
        if interrupt is not None:
            raise interrupt

    def _release(self, names: Sequence[str], reason: str) -> None:
        if not names:
            return
        self._journal.write_all(NodeReleased, [{"node": name, "reason": reason} for name in names])
        self._provider.release(names)
        for name in names:
            self._forget(name)

    def _request(self, instance_type: InstanceType, count: int) -> None:
        self._admit(count, instance_type)
        nodes = [HeldNode(name=next(self._names), instance_type=instance_type) for _ in range(count)]
        row = {
            "chain": self._chain,
            "instance_type": instance_type.name,
            "slots": instance_type.slots,
            "usd_per_hour": instance_type.usd_per_hour,
        }
        names = [node.name for node in nodes]
        # Held before they are logged: an interrupt at any point then finds them and gives them back.
        self._ever.update(names)
        self._requested.update(zip(names, nodes, strict=True))
        try:
            self._journal.write_all(NodeRequested, [{"node": name, **row} for name in names])
        except UnusableLog:
            for name in names:
                self._forget(name)
            raise
        self._provider.launch(names, instance_type, run=self._run)

    def _forget(self, name: str) -> None:
        self._usable.pop(name, None)
        self._requested.pop(name, None)
