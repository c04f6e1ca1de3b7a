"""What stages are planned on: the nodes that there may be, those that are held, and what they have cost."""

from __future__ import annotations

import math
from typing import Protocol

from rb_core.expectation import Batch
from rb_core.hardware import Billing, Cloud, InstanceType
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.course import Course
from rb_ray.scheduling.fleet import Fleet

NODE = "node"
"""Name of the type of all nodes of a cluster that stays as it is."""


class Ground(Protocol):
    """A fleet as a planner sees it."""

    @property
    def offered(self) -> Cloud:
        """The nodes that there may be, as they were offered."""

    @property
    def cloud(self) -> Cloud:
        """The same in the light of what has been measured."""

    @property
    def instance_type(self) -> InstanceType | None:
        """The type of the nodes that are held; None where none are."""

    @property
    def held(self) -> tuple[Batch, ...]:
        """Nodes that are held, with times that count from now."""

    @property
    def spent_usd(self) -> float:
        """Bill of the nodes that have been given back."""

    def planned(self, problem: Problem, plan: AllocationPlan, *, remark: str = "") -> None:
        """Take note of what the run begins with, and of what a person should know of that."""

    def replanned(self, stage: int, problem: Problem, course: Course) -> None:
        """Take note of what is planned from a stage on.

        Args:
            stage: which begins.
            problem: the stages that are left.
            course: what is planned for them.
        """


class FixedGround:
    """A cluster that stays as it is: its nodes are there and cost nothing more.

    Planners know equal nodes. Where they differ, they count as so many parts of the largest size that divides all, and
    a trial that takes several parts may find fewer places than planned.
    """

    def __init__(self, fleet: Fleet) -> None:
        """Nothing is looked at yet.

        Args:
            fleet: open before anything is asked.
        """
        self._fleet = fleet
        self._known: tuple[int, ...] = (1,)

    @property
    def offered(self) -> Cloud:
        """The nodes that are there now; where none are, those that were there last."""
        self._known = tuple(slots for slots in self._fleet.nodes if slots > 0) or self._known
        part = math.gcd(*self._known)
        return Cloud(
            instance_types=(InstanceType(name=NODE, slots=part, usd_per_hour=0.0),),
            max_nodes=sum(self._known) // part,
            billing=Billing(minimum_s=0.0),
        )

    @property
    def cloud(self) -> Cloud:
        """As `offered`: there is nothing to learn."""
        return self.offered

    @property
    def instance_type(self) -> InstanceType | None:
        """The one there is."""
        return self.offered.instance_types[0]

    @property
    def held(self) -> tuple[Batch, ...]:
        """All of them."""
        return (Batch(count=self.offered.max_nodes, running_s=0.0, usable_s=0.0),)

    @property
    def spent_usd(self) -> float:
        """Nothing."""
        return 0.0

    def planned(self, problem: Problem, plan: AllocationPlan, *, remark: str = "") -> None:
        """Nobody keeps a log."""

    def replanned(self, stage: int, problem: Problem, course: Course) -> None:
        """Nobody keeps a log."""
