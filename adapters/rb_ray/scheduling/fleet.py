"""The nodes that trials run on, as the scheduler sees them, and the simplest kind: a cluster that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import ray

from rb_core.errors import LaunchFailure
from rb_core.plan import StageAllocation
from rb_core.ports import Clock

PATIENCE_S = 300.0
"""How long an allocation may be larger than the cluster before it is given up."""


class Fleet(Protocol):
    """Holds what a stage is allotted. No call blocks; all come from one thread.

    A *slot* is room for one bundle of the trainable: the resources that Tune was told a trial needs.
    """

    @property
    def label(self) -> str:
        """A resource of Ray of which every bundle of a trial asks 1, so that it lands on these nodes; may be empty."""

    def open(self, run: str, *, bundle: Mapping[str, float], restored: bool) -> None:
        """Begin. Called once, before anything else.

        Args:
            run: id of the run, the same after `Tuner.restore`.
            bundle: what Ray is asked for one slot, without the label.
            restored: whether an earlier sitting of the run may have left nodes behind.
        """

    def resize(self, allocation: StageAllocation, stage: int) -> None:
        """Let go of what the stage does not need, then request what it lacks; returns at once.

        Called when nothing of the run holds a slot. Idempotent.

        Raises:
            LaunchFailure: it can never be had.
        """

    def poll(self) -> None:
        """Take note of what has happened. Called several times a second.

        Raises:
            LaunchFailure: what the last stage was allotted will never be there.
            BudgetExceeded: what is held would cost more than is allowed; everything has been given back.
        """

    @property
    def ready(self) -> bool:
        """Whether what is wanted has joined, and what is not is gone in Ray's eyes."""

    @property
    def nodes(self) -> Sequence[int]:
        """Slots of each node that is there."""

    @property
    def slots(self) -> int:
        """Slots of all of them."""

    def close(self) -> None:
        """Give everything back. Idempotent; may be called at any time, also when `open` was not."""

    def settle(self) -> None:
        """Wait until what was given back is gone, for a while: the one call that blocks, for the experiment's end.

        Gives back what is still held. Idempotent.

        Raises:
            LeakedNodes: it is still held.
        """


class FixedFleet:
    """The cluster that Ray is connected to, with the nodes that it has.

    Other programs may use it too: what they hold is waited for, as Ray does.
    """

    label = ""

    def __init__(self, clock: Clock, *, patience_s: float = PATIENCE_S) -> None:
        """Nothing is looked at yet.

        Args:
            clock: for the wait.
            patience_s: how long a cluster may be smaller than what is allotted.
        """
        self._clock = clock
        self._patience_s = patience_s
        self._bundle: Mapping[str, float] = {}
        self._wanted: StageAllocation | None = None
        self._since_s = 0.0

    def open(self, run: str, *, bundle: Mapping[str, float], restored: bool) -> None:
        """Take note of what a slot is."""
        self._bundle = bundle

    def resize(self, allocation: StageAllocation, stage: int) -> None:
        """Take note of what is wanted."""
        self._wanted, self._since_s = allocation, self._clock.now()

    def poll(self) -> None:
        """Raise `LaunchFailure` when the cluster has been too small for too long."""
        if self._wanted is None or self.ready:
            return
        waited_s = self._clock.now() - self._since_s
        if waited_s > self._patience_s:
            raise LaunchFailure(
                f"a trial needs {self._wanted.slots_per_trial} x {dict(self._bundle)}, and the cluster has had room "
                f"for {self.slots} of these for {waited_s:.0f} s; add nodes, or ask for less in tune.with_resources"
            )

    @property
    def ready(self) -> bool:
        """Whether one trial fits at least. Without a cluster to look at nothing is waited for."""
        return self._wanted is None or not ray.is_initialized() or self.slots >= self._wanted.slots_per_trial

    @property
    def nodes(self) -> Sequence[int]:
        """Slots of each node that is alive, whoever uses them."""
        if not ray.is_initialized():
            return ()
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return tuple(slots for resources in alive if (slots := room(resources, self._bundle)) > 0)

    @property
    def slots(self) -> int:
        """Slots of all of them."""
        return sum(self.nodes)

    def close(self) -> None:
        """Nothing to give back."""
        self._wanted = None

    def settle(self) -> None:
        """Nothing to wait for."""
        self.close()


def room(resources: Mapping[str, float], bundle: Mapping[str, float]) -> int:
    """How often a bundle fits into a node's resources; Ray counts them in steps of 0.0001."""
    wanted = {name: amount for name, amount in bundle.items() if amount > 0}
    return min((int(resources.get(name, 0.0) / amount + 1e-4) for name, amount in wanted.items()), default=0)
