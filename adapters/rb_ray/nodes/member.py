"""A node that has joined the Ray cluster, by the name that the core gave it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

_STEPS = 10_000  # Ray counts resources in steps of 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One joined node.

    Attributes:
        name: what the core calls it.
        node_id: Ray's own name of it, in hex.
        ip: the address that Ray knows it by.
        slots: how many slots it has.
        own: Ray resources that this node alone has, so many for each slot; they pin what asks for them to the node.
        cpus: its CPUs in Ray's eyes.
        gpus: its GPUs in Ray's eyes.
    """

    name: str
    node_id: str
    ip: str
    slots: int
    own: Mapping[str, float] = field(default_factory=dict)
    cpus: float = 0.0
    gpus: float = 0.0

    def bundle(self, slots: int) -> dict[str, float]:
        """What a placement group asks for to hold so many slots of this node, and nothing of any other.

        Other users of the cluster are kept off the slots' share of the CPUs and GPUs, too.
        """
        asked = {resource: each * slots for resource, each in self.own.items()}
        cpus = math.floor(self.cpus * slots / self.slots * _STEPS) / _STEPS
        if cpus:
            asked["CPU"] = cpus
        gpus = self.gpus * slots / self.slots
        # Ray has no fraction of several GPUs.
        gpus = math.floor(gpus * _STEPS) / _STEPS if gpus < 1 else math.floor(gpus)
        if gpus:
            asked["GPU"] = float(gpus)
        return asked
