"""What each stage runs on: asked once at every barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rb_core.plan import StageAllocation
from rb_core.resplit import places, widest
from rb_core.spec import ExperimentSpec
from rb_ray.scheduling.fleet import Fleet
from rb_ray.scheduling.seen import Seen


class Allotter(Protocol):
    """Chooses nodes and slots per trial for one stage after another."""

    @property
    def deadline_s(self) -> float | None:
        """When all is to be over, in seconds since the first trial came; None without a deadline, or not known yet."""

    def allot(self, experiment: ExperimentSpec, stage: int, alive: Sequence[int], seen: Seen) -> StageAllocation:
        """What the stage that begins runs on.

        The answer is persisted before it is acted on, and after `Tuner.restore` it is not asked for again.

        Args:
            experiment: one chain, with as many trials as have come.
            stage: the stage that begins.
            alive: trials that run in it, best first; in the first stage in the order of their arrival.
            seen: all that has been measured so far.

        Raises:
            NoFeasiblePlan: nothing meets the limits.
            BudgetExceeded: nothing more may be spent.
        """


class EvenAllotter:
    """All nodes that are there, split evenly among the trials that are left; for clusters that stay as they are."""

    deadline_s = None

    def __init__(self, fleet: Fleet, *, widths: Sequence[int] = (1,)) -> None:
        """An allotter.

        Args:
            fleet: open before the first stage is allotted.
            widths: slots per trial that the trainable can use.
        """
        self._fleet = fleet
        self._widths = tuple(widths)

    def allot(self, experiment: ExperimentSpec, stage: int, alive: Sequence[int], seen: Seen) -> StageAllocation:
        """The widest trials that all run at once; the narrowest where the cluster has no room yet for any."""
        nodes = self._fleet.nodes
        fits = any(places(width, nodes) for width in self._widths)
        width = widest(len(alive), node_slots=nodes, widths=self._widths) if fits else min(self._widths)
        return StageAllocation(instance_type="node", nodes=max(1, len(nodes)), slots_per_trial=width)
