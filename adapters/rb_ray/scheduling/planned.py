"""Stages on what a planner chooses, for functions whose scaling is known."""

from __future__ import annotations

from collections.abc import Sequence

from rb_core.learning import Learning
from rb_core.plan import Objective, StageAllocation
from rb_core.ports import Planner
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_ray.scheduling.ground import Ground
from rb_ray.scheduling.outlook import Outlook, Warn
from rb_ray.scheduling.seen import Seen


class PlannedAllotter:
    """Plans all stages at the start, and what is left of them at every barrier, by what has been seen until then."""

    def __init__(
        self,
        ground: Ground,
        objective: Objective,
        profile: ScalingProfile,
        *,
        planner: Planner | None = None,
        seed: int = 0,
        warn: Warn | None = None,
    ) -> None:
        """Nothing planned yet.

        Args:
            ground: what is planned on; its fleet is open before the first stage is allotted.
            objective: a deadline, counted from when the first trial came, or a budget.
            profile: how the trainable scales; only its widths are used.
            planner: plans all stages at the start; the exact one when None.
            seed: of its samples.
            warn: told when the limit can no longer be kept; a log when None.
        """
        self._outlook = Outlook(ground, objective, planner=planner, seed=seed, warn=warn)
        self._profile = profile

    @property
    def deadline_s(self) -> float | None:
        """When all is to be over, once that is known; see `Allotter.deadline_s`."""
        return self._outlook.deadline_s

    def allot(self, experiment: ExperimentSpec, stage: int, alive: Sequence[int], seen: Seen) -> StageAllocation:
        """What the plan says of the stage; see `Allotter.allot`.

        Raises:
            NoFeasiblePlan: at the first stage: no plan keeps the limit.
            InvalidInput: a budget is to be kept with nodes that have no price.
        """
        if stage == 0:
            return self._outlook.begin(experiment, self._profile)
        self._outlook.limit(experiment, self._profile)
        profile = self._learning(seen).profile_of(alive)
        return self._outlook.onward(
            experiment, stage, alive=len(alive), elapsed_s=seen.elapsed_s, profile=profile
        )  # fmt: skip

    def _learning(self, seen: Seen) -> Learning:
        """The profile with what has been seen."""
        learning = Learning(self._profile, self._outlook.ground.offered)
        for stint in seen.stints:
            kind = self._outlook.ran_on(stint.stage)
            if kind is None or stint.slots not in self._profile.slots:
                continue
            slow = self._profile.slowdown(spans=stint.slots > kind.slots, speed=kind.speed)
            for iterations, seconds in stint.reports:
                learning.iterated(stint.trial, stint.slots, slow, iterations=iterations, seconds=seconds)
            if stint.start_s is not None:
                learning.started(stint.start_s)
            if stint.save_s is not None:
                learning.saved(stint.save_s)
        return learning
