"""Nodes that are parts of this machine, priced as if they were rented."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rb_core.errors import InvalidInput, LaunchFailure
from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Clock, Inbox, NodeNews, NodeNotice, Slot, Timer
from rb_core.providers.machine import devices


@dataclass(slots=True, kw_only=True)
class _LocalNode:
    run: str
    places: tuple[int, ...]
    ready: bool = False
    timers: list[Timer] = field(default_factory=list)


class LocalProvider:
    """Cuts this machine into nodes of slots: a GPU each when it has any, else a core each.

    A node runs after the cloud's mean launch latency and is ready after its mean init latency, as if it had to be
    rented; both are 0 unless the user says otherwise. No slot is ever part of two nodes.
    """

    name = "local"

    def __init__(self, *, cloud: Cloud, clock: Clock, inbox: Inbox, slots: Sequence[str] | int | None = None) -> None:
        """A provider that holds nothing.

        Args:
            cloud: where the latencies come from.
            clock: the time.
            inbox: where notices go.
            slots: what to cut up instead of what is found: the devices, one for each slot, or a number of cores.
        """
        self._launch_s = cloud.launch_s.mean
        self._init_s = cloud.init_s.mean
        self._clock = clock
        self._inbox = inbox
        if slots is None:
            self._devices = devices()
        else:
            self._devices = ("",) * slots if isinstance(slots, int) else tuple(slots)
        self._free = list(range(len(self._devices)))
        self._nodes: dict[str, _LocalNode] = {}

    def check(self, cloud: Cloud) -> None:
        """Raise `InvalidInput` when `max_nodes` nodes of some type are more than this machine has slots for."""
        for number, instance_type in enumerate(cloud.instance_types):
            most = len(self._devices) // instance_type.slots
            if most == 0:
                raise InvalidInput(
                    f"cloud.instance_types[{number}].slots",
                    f"must be at most {len(self._devices)}, the {self._kind()} of this machine, "
                    f"got {instance_type.slots}",
                )
            if cloud.max_nodes > most:
                raise InvalidInput(
                    "cloud.max_nodes",
                    f"must be at most {most} with the local provider: this machine has {len(self._devices)} "
                    f"{self._kind()}, and a node of type {instance_type.name!r} takes {instance_type.slots}; "
                    f"got {cloud.max_nodes}",
                )

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Cut one node for each new name out of what is free. Idempotent by name.

        Raises:
            LaunchFailure: too little is free; nothing was taken.
        """
        new = [name for name in dict.fromkeys(names) if name not in self._nodes]
        needed = len(new) * instance_type.slots
        if needed > len(self._free):
            raise LaunchFailure(
                f"{len(new)} node(s) of type {instance_type.name!r} need {needed} slots, and {len(self._free)} of "
                f"this machine's {len(self._devices)} {self._kind()} are free; plan with fewer nodes (max_nodes)"
            )
        for name in new:
            places = tuple(self._free[: instance_type.slots])
            del self._free[: instance_type.slots]
            self._nodes[name] = _LocalNode(run=run, places=places)
            self._arrange(name, self._clock.now() + self._launch_s)

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """Say of each node whether it is still held: what another process held went with it, at an unknown time."""
        for name in nodes:
            if name not in self._nodes:
                lost = "it ended with the process that held it"
                self._inbox.put(NodeNotice(node=name, kind=NodeNews.LOST, reason=lost, ago_s=math.inf))

    def slots(self, name: str) -> Sequence[Slot]:
        """The slots of a ready node, in order. Raises KeyError for a name that is not held, or not ready."""
        node = self._nodes[name]
        if not node.ready:
            raise KeyError(name)
        return tuple(
            Slot(node=name, index=index, device=self._devices[place]) for index, place in enumerate(node.places)
        )

    def release(self, names: Sequence[str]) -> None:
        """Take the nodes' slots back. Idempotent; unknown names are passed over."""
        for name in names:
            node = self._nodes.pop(name, None)
            if node is None:
                continue
            for timer in node.timers:
                timer.cancel()
            self._free = sorted([*self._free, *node.places])

    def owned(self, run: str) -> Sequence[str]:
        """Names of all nodes that the run holds or has requested."""
        return tuple(name for name, node in self._nodes.items() if node.run == run)

    def close(self) -> None:
        """Nothing to let go of."""

    def _arrange(self, name: str, running_s: float) -> None:
        node = self._nodes[name]

        def run() -> None:
            self._inbox.put(NodeNotice(node=name, kind=NodeNews.RUNNING))
            node.timers.append(self._clock.call_at(running_s + self._init_s, join))

        def join() -> None:
            node.ready = True
            self._inbox.put(NodeNotice(node=name, kind=NodeNews.READY))

        node.timers.append(self._clock.call_at(running_s, run))

    def _kind(self) -> str:
        return "GPUs" if any(self._devices) else "cores"
