"""Tune's trials by their numbers: what the state machine asks of its host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ray.tune import PlacementGroupFactory
from ray.tune.experiment import Trial

from rb_core.plan import StageAllocation
from rb_core.ports import Clock
from rb_ray import _compat
from rb_ray.scheduling.fleet import Fleet
from rb_ray.scheduling.stages import Standing
from rb_ray.trainable.placement import StagePlacement

STALLED_S = 2.0
"""A searcher that has suggested nothing for so long is taken to wait for results."""


class TuneTrials:
    """All trials of one experiment, and the controller that runs them.

    Attributes:
        controller: as Tune has passed it last; None in tests of schedulers without one.
        by_number: all trials that have come.
    """

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        *,
        ends: Callable[[int], tuple[int | None, int | None]],
        given: Callable[[int, StageAllocation, int], None],
    ) -> None:
        """No trial has come.

        Args:
            fleet: which names the nodes that trials are to land on.
            clock: for the searcher's pauses.
            ends: where a stage and the last one end, in iterations; None where they are not counted.
            given: told of each trial that is about to run, what it was given, and for which stage.
        """
        self.controller: Any = None
        self.by_number: dict[int, Trial] = {}
        self._own: dict[int, PlacementGroupFactory | None] = {}
        self._fleet = fleet
        self._clock = clock
        self._ends = ends
        self._given = given
        self._last_came_s = clock.now()
        self._to_save = False

    def add(self, number: int, trial: Trial) -> None:
        """A trial has come, with the resources that the trainable asks for."""
        self.by_number[number] = trial
        self._own[number] = trial.placement_group_factory
        self._last_came_s = self._clock.now()

    @property
    def gathered(self) -> bool:
        """Whether the searcher has no further trial."""
        search = getattr(self.controller, "search_alg", None)
        return search is None or bool(search.is_finished())

    @property
    def stalled(self) -> bool:
        """Whether the searcher has suggested nothing for long."""
        return bool(self.by_number) and self._clock.now() - self._last_came_s > STALLED_S

    @property
    def cleared(self) -> bool:
        """Whether no actor holds a placement group or waits for one."""
        return _compat.actors(self.controller) == 0

    @property
    def saved(self) -> bool:
        """Whether Tune's state is where it was to be brought."""
        if self._to_save:
            self._to_save = not _compat.begin_saving(self.controller)
        return not self._to_save and not _compat.is_saving(self.controller)

    def save(self) -> None:
        """Begin to bring Tune's state, with what lies beside it, to the storage."""
        self._to_save = not _compat.begin_saving(self.controller)

    def standing(self, trial: int) -> Standing:
        """How a trial stands."""
        tune_s = self.by_number[trial]
        if tune_s.is_finished():
            return Standing.ENDED
        rests = tune_s.status == Trial.PAUSED and not tune_s.is_saving
        return Standing.RESTING if rests else Standing.ACTIVE

    def stop(self, trial: int) -> None:
        """End a trial for good; Tune tells searcher and callbacks."""
        if self.controller is not None:
            self.controller.stop_trial(self.by_number[trial])
            _compat.mark_changed(self.controller, self.by_number[trial])

    def give(self, trial: int, allocation: StageAllocation, stage: int) -> None:
        """Set what a paused trial asks for: its own bundle, once for each slot."""
        self._given(trial, allocation, stage)
        own = self._own[trial]
        if own is None or not divisible(own):
            return
        width, label = allocation.slots_per_trial, self._fleet.label
        bundle = {**own.bundles[0], **({label: 1.0} if label else {})}
        strategy = own.strategy
        if width > 1:
            strategy = "STRICT_PACK" if width <= max(self._fleet.nodes, default=width) else "PACK"
        until, most = self._ends(stage)
        self.by_number[trial].update_resources(
            StagePlacement(
                [bundle] * width,
                strategy,
                stage=stage,
                until=until,
                max_iterations=most,
            )
        )

    def next(self, released: Sequence[int]) -> Trial | None:
        """The trial that Tune is to start; where it starts many at once, the others are told to it on the way."""
        paused = [t for n in released if (t := self.by_number[n]).status == Trial.PAUSED and not t.is_saving]
        if paused and _compat.starts_many(self.controller):
            for trial in paused[1:]:
                _compat.set_status(self.controller, trial, Trial.PENDING)
        if paused:
            return paused[0]
        return next((t for n in released if (t := self.by_number[n]).status == Trial.PENDING), None)


def divisible(own: PlacementGroupFactory) -> bool:
    """Whether a trainable asks for a single bundle, which can be had several times."""
    return len(own.bundles) == 1 and not own.head_bundle_is_empty


def slot(own: PlacementGroupFactory | None) -> Mapping[str, float]:
    """What one slot of a trainable asks for; all of its bundles together where they cannot be told apart."""
    return {"CPU": 1.0} if own is None else own.bundles[0] if divisible(own) else own.required_resources
