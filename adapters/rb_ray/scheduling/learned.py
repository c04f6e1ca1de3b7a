"""Stages on what a planner chooses, for functions whose scaling is learned on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rb_core.errors import UnusableProfile
from rb_core.hardware import InstanceType
from rb_core.measurement import MeasuredProfile, Measurement
from rb_core.observed import observed
from rb_core.plan import Objective, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_core.steadiness import steadiness_warnings
from rb_core.widening import widened
from rb_ray.scheduling.ground import Ground
from rb_ray.scheduling.outlook import Outlook, Warn
from rb_ray.scheduling.seen import Seen, Stint

Keep = Callable[[MeasuredProfile], None]
"""Told what has been measured, each time that it is more."""


class LearnedAllotter:
    """The first stage on all nodes, one slot a trial; the others planned by what was measured until then.

    Beyond the widths that were measured one more is planned with, on trust (see `rb_core.widening`), as far as trials
    may be so wide; once it has run it is measured like the others.
    """

    def __init__(
        self,
        ground: Ground,
        objective: Objective,
        *,
        most_slots: int = 1,
        keep: Keep | None = None,
        warn: Warn | None = None,
    ) -> None:
        """Nothing measured yet.

        Args:
            ground: what is planned on; its fleet is open before the first stage is allotted.
            objective: a deadline, counted from when the first trial came, or a budget. A deadline that is a multiple of
                the fastest plan's time is set by what the first stage measured.
            most_slots: the widest that a trial may be.
            keep: told the profile that was measured, so that the next run can be planned with it.
            warn: told when the limit can no longer be kept, or nothing could be measured; a log when None.
        """
        self._outlook = Outlook(ground, objective, warn=warn)
        self._most_slots = most_slots
        self._keep = keep

    @property
    def deadline_s(self) -> float | None:
        """When all is to be over, once that is known; see `Allotter.deadline_s`."""
        return self._outlook.deadline_s

    def allot(self, experiment: ExperimentSpec, stage: int, alive: Sequence[int], seen: Seen) -> StageAllocation:
        """What the plan says of the stage; see `Allotter.allot`. Raises nothing: what is late is only warned of."""
        measurements = self._measurements(seen.stints)
        try:
            profile = self._measured(measurements)
        except UnusableProfile as error:
            if stage > 0:
                self._outlook.warn(f"nothing can be planned yet: {error}. The stage runs with one slot a trial")
            return self._outlook.on_all_nodes(experiment, stage, slots=1)
        first = [measurement for measurement, stint in measurements if stint.stage == 0]
        self._outlook.limit(experiment, _first_profile(first, profile))
        node_slots = max(kind.slots for kind in self._outlook.ground.offered.instance_types)
        return self._outlook.onward(
            experiment,
            stage,
            alive=len(alive),
            elapsed_s=seen.elapsed_s,
            profile=widened(profile, most=self._most_slots, node_slots=node_slots),
            least_gain=0.0,
        )

    def _measured(self, measurements: Sequence[tuple[Measurement, Stint]]) -> ScalingProfile:
        starts = tuple(measurement for measurement, _ in measurements)
        profile, fit = observed(starts)
        if self._keep is not None:
            trials = 1 + max(start.config for start in starts)
            self._keep(
                MeasuredProfile(
                    profile=profile,
                    configs=({},) * trials,
                    measurements=starts,
                    fit=fit,
                    warnings=steadiness_warnings(starts),
                    seconds=0.0,  # nothing was run for the sake of measuring
                )
            )
        return profile

    def _measurements(self, stints: Sequence[Stint]) -> list[tuple[Measurement, Stint]]:
        told = {stint.slots for stint in stints if stint.reports}
        found = []
        for stint in stints:
            kind = self._outlook.ran_on(stint.stage)
            reports = stint.reports
            if not reports and stint.first is not None and stint.slots not in told:
                # Trials that report once do not tell the warm-up apart: it counts as part of the iterations.
                reports = (stint.first,)
            if kind is not None and reports:
                found.append((_measurement(stint, reports, kind), stint))
        return found


def _first_profile(first: Sequence[Measurement], otherwise: ScalingProfile) -> ScalingProfile:
    """What the first stage alone supports, so that a deadline is the same after `Tuner.restore`."""
    try:
        return observed(first)[0]
    except UnusableProfile:
        return otherwise


def _measurement(stint: Stint, reports: Iterable[tuple[int, float]], kind: InstanceType) -> Measurement:
    """A stint as the core's profiles see it, in seconds of the type that speeds refer to."""
    steady_s = tuple(_each(reports, kind.speed))
    # The warm-up of the first iteration is part of the start already.
    first_s = sum(steady_s) / len(steady_s)
    return Measurement(
        slots=stint.slots,
        config=stint.trial,
        from_iteration=stint.from_iteration,
        start_s=stint.start_s or 0.0,
        restore_s=0.0,
        iterations_s=(first_s, *steady_s),
        save_s=stint.save_s or 0.0,
        checkpoint_bytes=0,
    )


def _each(reports: Iterable[tuple[int, float]], speed: float) -> Iterator[float]:
    """Seconds of each iteration, where several were reported together their mean."""
    for iterations, seconds in reports:
        for _ in range(iterations):
            yield seconds * speed / iterations
