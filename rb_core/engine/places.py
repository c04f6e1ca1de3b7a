"""The places of a stage: what one trial trains on, handed out in the order in which they come free."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rb_core.placement import Placement
from rb_core.ports import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Room for one trial.

    Attributes:
        nodes: names of the nodes that it lies on: one, or several whole ones.
        slots: one slot for each rank.
    """

    nodes: tuple[str, ...]
    slots: tuple[Slot, ...]


class Places:
    """Places made of a stage's nodes; trials that span nodes get groups of whole nodes in their order of arrival."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._free: deque[Place] = deque()
        self._ungrouped: dict[str, tuple[Slot, ...]] = {}
        self._lost: set[str] = set()

    def add(self, node: str, slots: Sequence[Slot]) -> None:
        """Take a node in that has become usable."""
        if self._placement.spans:
            self._ungrouped[node] = tuple(slots)
            self._group()
            return
        width = self._placement.slots_per_trial
        for number in range(self._placement.per_node):
            part = tuple(slots[number * width : (number + 1) * width])
            self._free.append(Place(nodes=(node,), slots=part))

    @property
    def free(self) -> int:
        """How many places are free."""
        return len(self._free)

    def free_beside(self, nodes: Collection[str]) -> int:
        """How many places are free that lie on none of these nodes."""
        return sum(not any(node in nodes for node in place.nodes) for place in self._free)

    def take(self) -> Place | None:
        """The place that has been free longest, None while there is none."""
        return self._free.popleft() if self._free else None

    def give_back(self, place: Place) -> None:
        """A trial has left its place; what is left of its nodes can be used again."""
        if self._lost.isdisjoint(place.nodes):
            self._free.append(place)
        else:
            self._salvage(place)

    def lose(self, node: str) -> None:
        """A node is gone; what was grouped with it is grouped anew once it is free."""
        self._lost.add(node)
        self._ungrouped.pop(node, None)
        broken = [place for place in self._free if node in place.nodes]
        self._free = deque(place for place in self._free if node not in place.nodes)
        for place in broken:
            self._salvage(place)

    def _salvage(self, place: Place) -> None:
        if not self._placement.spans:
            return
        size = len(place.slots) // len(place.nodes)
        for number, node in enumerate(place.nodes):
            if node not in self._lost:
                self._ungrouped[node] = place.slots[number * size : (number + 1) * size]
        self._group()

    def _group(self) -> None:
        size = self._placement.nodes_per_trial
        while len(self._ungrouped) >= size:
            names = tuple(self._ungrouped)[:size]
            slots = tuple(slot for name in names for slot in self._ungrouped.pop(name))
            self._free.append(Place(nodes=names, slots=slots))
