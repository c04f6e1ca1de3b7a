"""Nodes that are parts of this machine, priced as if they were rented."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rb_core.errors import InvalidInput, LaunchFailure
from rb_core.hardware import Cloud, InstanceType
from rb_core.launchers.guarded import GuardedProcess
from rb_core.ports import Bootstrap, Clock, Inbox, NodeNews, NodeNotice, Slot, Timer
from rb_core.providers.machine import devices


@dataclass(slots=True, kw_only=True)
class _LocalNode:
    run: str
    places: tuple[int, ...]
    instance_type: InstanceType
    ready: bool = False
    timers: list[Timer] = field(default_factory=list)
    process: GuardedProcess | None = None


class LocalProvider:
    """Cuts this machine into nodes of slots: a GPU each when it has any, else a core each.

    A node runs after the cloud's mean launch latency and is ready after its mean init latency, as if it had to be
    rented; both are 0 unless the user says otherwise. No slot is ever part of two nodes.

    Told to `boot` a command, it has a process for each node, which sees the node's GPUs alone and leaves nothing behind
    when the node is released, the provider closed or this program killed.
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
        self._command: Callable[[str, InstanceType], Bootstrap] | None = None
        self._lock = threading.RLock()  # commands end in other threads

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
        with self._lock:
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
                self._nodes[name] = _LocalNode(run=run, places=places, instance_type=instance_type)
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
        with self._lock:
            gone = [node for name in names if (node := self._nodes.pop(name, None)) is not None]
            for node in gone:
                self._let_go(node)
        processes = [node.process for node in gone if node.process is not None]
        for process in processes:
            process.end()
        for process in processes:
            process.close()

    def owned(self, run: str) -> Sequence[str]:
        """Names of all nodes that the run holds or has requested."""
        with self._lock:
            return tuple(name for name, node in self._nodes.items() if node.run == run)

    def reach(self) -> str:
        """Nothing: nodes are parts of this machine."""
        return ""

    def boot(self, command: Callable[[str, InstanceType], Bootstrap]) -> None:
        """Have each node that is launched from now on run a command while it is held."""
        self._command = command

    def close(self) -> None:
        """End the nodes that run a command, or are to; others are left as they are."""
        if self._command is not None:
            self.release(list(self._nodes))

    def _arrange(self, name: str, running_s: float) -> None:
        node, command = self._nodes[name], self._command

        def run() -> None:
            self._inbox.put(NodeNotice(node=name, kind=NodeNews.RUNNING))
            node.timers.append(self._clock.call_at(running_s + self._init_s, join))
            if command is not None:
                self._start(name, node, command)

        def join() -> None:
            with self._lock:
                if self._nodes.get(name) is node:
                    node.ready = True
                    self._inbox.put(NodeNotice(node=name, kind=NodeNews.READY))

        node.timers.append(self._clock.call_at(running_s, run))

    def _start(self, name: str, node: _LocalNode, command: Callable[[str, InstanceType], Bootstrap]) -> None:
        bootstrap = command(name, node.instance_type)
        devices = ",".join(self._devices[place] for place in node.places)
        env = {**bootstrap.env, **({"CUDA_VISIBLE_DEVICES": devices} if devices else {})}
        try:
            with self._lock:
                if name in self._nodes:
                    node.process = GuardedProcess(bootstrap.argv, env, lambda said: self._lose(name, said))
        except LaunchFailure as error:
            self._lose(name, str(error))

    def _lose(self, name: str, reason: str) -> None:
        """Its command has ended, and with it the node."""
        with self._lock:
            node = self._nodes.pop(name, None)
            if node is None:
                return
            self._let_go(node)
            self._inbox.put(NodeNotice(node=name, kind=NodeNews.LOST, reason=f"its command ended: {reason}"))
        if node.process is not None:
            node.process.close()

    def _let_go(self, node: _LocalNode) -> None:
        for timer in node.timers:
            timer.cancel()
        self._free = sorted([*self._free, *node.places])

    def _kind(self) -> str:
        return "GPUs" if any(self._devices) else "cores"
