"""The provider of the simulated cloud: one process's line to it, which may lose answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rb_core.errors import NoAnswer
from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Inbox, NodeNotice, Slot
from rb_core.sim.cloud import SimCloud


class SimProvider:
    """Rents nodes of a `SimCloud`, and speaks of those alone that were launched or adopted through it."""

    name = "sim"

    def __init__(self, cloud: SimCloud, inbox: Inbox, *, answer_lost: float, rng: np.random.Generator) -> None:
        """The one provider that the cloud tells of its nodes from now on.

        Args:
            cloud: where nodes are.
            inbox: where notices go.
            answer_lost: probability that a call acts and its answer is lost.
            rng: what that is drawn with.
        """
        self._cloud = cloud
        self._inbox = inbox
        self._answer_lost = answer_lost
        self._rng = rng
        self._own: set[str] = set()
        cloud.tell(self._hear)

    def check(self, cloud: Cloud) -> None:
        """Serves every cloud."""

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Request nodes. Idempotent by name.

        Raises:
            LaunchFailure: nothing was requested.
            NoAnswer: it was, and the answer is lost.
        """
        self._cloud.launch(names, instance_type, run=run)
        self._own.update(names)
        self._answer("launch")

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """Say how the nodes of an earlier process stand, each once. Raises `NoAnswer`; nothing was said then."""
        self._answer("adopt")
        for name in nodes:
            if name not in self._own:
                self._own.add(name)
                for notice in self._cloud.news(name):
                    self._inbox.put(notice)

    def slots(self, name: str) -> Sequence[Slot]:
        """The slots of a ready node, in order. Raises KeyError for one that is not held, or not ready; `NoAnswer`."""
        node = self._cloud.books[name]
        if node.ready_s is None or node.released_s is not None:
            raise KeyError(name)
        self._answer("slots")
        return tuple(Slot(node=name, index=index) for index in range(node.instance_type.slots))

    def release(self, names: Sequence[str]) -> None:
        """Give nodes back. Idempotent. Raises `NoAnswer`."""
        self._cloud.release(names)
        self._answer("release")

    def owned(self, run: str) -> Sequence[str]:
        """Names of all nodes that the run still holds or has requested. Raises `NoAnswer`."""
        self._answer("owned")
        return self._cloud.owned(run)

    def close(self) -> None:
        """Nothing to let go of."""

    def _hear(self, notice: NodeNotice) -> None:
        if notice.node in self._own:
            self._inbox.put(notice)

    def _answer(self, call: str) -> None:
        if self._answer_lost and self._rng.random() < self._answer_lost:
            raise NoAnswer(f"the answer to {call} was lost; repeat the call")
