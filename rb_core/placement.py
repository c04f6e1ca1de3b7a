"""How the trials of a stage lie on its nodes: by the slot, or by whole nodes when a trial is wider than one."""

from __future__ import annotations

from dataclasses import dataclass

from rb_core.check import positive_int
from rb_core.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The trials of one stage on equal nodes. All trials of a stage have the same width.

    Attributes:
        trials: how many trials the stage has.
        slots_per_trial: data-parallel processes of each.
        node_slots: slots of each node.
        nodes: nodes held.
    """

    trials: int
    slots_per_trial: int
    node_slots: int
    nodes: int

    def __post_init__(self) -> None:
        for key in ("trials", "slots_per_trial", "node_slots", "nodes"):
            positive_int(key, getattr(self, key))
        if not divides(self.slots_per_trial, self.node_slots):
            raise InvalidInput(
                "slots_per_trial",
                f"must be at most a node's {self.node_slots} slots or a multiple of them, got {self.slots_per_trial}",
            )
        if self.nodes < self.nodes_per_trial:
            raise InvalidInput(
                "nodes",
                f"must be at least {self.nodes_per_trial} to hold one trial of {self.slots_per_trial} slots "
                f"on nodes of {self.node_slots}, got {self.nodes}",
            )

    @property
    def spans(self) -> bool:
        """Whether a trial takes several nodes."""
        return self.slots_per_trial > self.node_slots

    @property
    def nodes_per_trial(self) -> int:
        """Whole nodes that one trial takes; 1 where several trials may share a node."""
        return max(1, self.slots_per_trial // self.node_slots)

    @property
    def per_node(self) -> int:
        """Trials that fit on one node; 1 where a trial spans nodes."""
        return max(1, self.node_slots // self.slots_per_trial)

    @property
    def nodes_for_all(self) -> int:
        """Nodes on which all trials run at once; more are of no use to them."""
        return nodes_for(self.trials, slots_per_trial=self.slots_per_trial, node_slots=self.node_slots)

    @property
    def places(self) -> int:
        """Trials that the nodes can hold at one time."""
        return self.nodes // self.nodes_per_trial * self.per_node

    @property
    def concurrency(self) -> int:
        """Trials that run at one time."""
        return min(self.trials, self.places)


def divides(slots_per_trial: int, node_slots: int) -> bool:
    """Whether trials of that width can be laid on nodes of that size."""
    return slots_per_trial <= node_slots or slots_per_trial % node_slots == 0


def nodes_for(trials: int, *, slots_per_trial: int, node_slots: int) -> int:
    """The fewest nodes on which so many trials run at once."""
    return -(-trials // max(1, node_slots // slots_per_trial)) * max(1, slots_per_trial // node_slots)
