"""The stages ahead of a run, planned at its barriers in the light of what is held and what has been measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.placement import nodes_for
from rb_core.plan import AllocationPlan, Objective, Problem, StageAllocation
from rb_core.planners.course import Course, course
from rb_core.planners.exact import Exact
from rb_core.planners.objective import resolve
from rb_core.planners.rest import LEAST_GAIN, Rest, stages_left
from rb_core.ports import Planner
from rb_core.profile import ScalingProfile
from rb_core.report import duration, money
from rb_core.spec import Chain, ExperimentSpec, Stage
from rb_ray.scheduling.ground import Ground

_logger = logging.getLogger(__name__)

UNKNOWN = (
    "nothing was known of how trials scale when the run began: what it was predicted to take and to cost, taking an "
    "iteration for a second, stands for nothing"
)
"""Said of a run whose first stage could not be planned."""

Warn = Callable[[str], None]
"""Told what a person should know, a sentence or two."""


class Outlook:
    """What is planned for the stages that are left, and the limit that it is planned for.

    Attributes:
        deadline_s: when all is to be over, in seconds since the first trial came; None for a budget, and for a multiple
            of what the fastest plan takes as long as there is none.
    """

    def __init__(
        self,
        ground: Ground,
        objective: Objective,
        *,
        planner: Planner | None = None,
        seed: int = 0,
        warn: Warn | None = None,
    ) -> None:
        """Nothing planned yet.

        Args:
            ground: what is planned on.
            objective: a deadline, counted from when the first trial came, or a budget.
            planner: plans all stages at the start; the exact one when None.
            seed: of its samples.
            warn: told when the limit can no longer be kept; the log of this module when None.
        """
        self._ground = ground
        self._objective = objective
        self._planner: Planner = Exact() if planner is None else planner
        self._rng = np.random.default_rng(seed)
        self._warn = _logger.warning if warn is None else warn
        self._ahead: dict[int, StageAllocation] = {}
        self._ran_on: dict[int, InstanceType] = {}
        self.deadline_s = objective.deadline_s

    def begin(self, experiment: ExperimentSpec, profile: ScalingProfile) -> StageAllocation:
        """Plan all stages; what the first one runs on.

        Raises:
            NoFeasiblePlan: no plan keeps the limit.
            InvalidInput: a budget is to be kept with nodes that have no price.
        """
        problem = self._problem(experiment, profile)
        if self._objective.budget_usd is not None and not any(t.usd_per_hour for t in problem.cloud.instance_types):
            raise InvalidInput(
                "budget_usd",
                "needs nodes that have a price; give `nodes` with their usd_per_hour, or a deadline in its place",
            )
        resolved = resolve(problem)
        plan = self._planner.plan(resolved, self._rng)
        self.deadline_s = resolved.objective.deadline_s if resolved.objective else None
        self._ground.planned(resolved, plan)
        self._take(0, plan.chains[0])
        return self._ahead[0]

    def on_all_nodes(self, experiment: ExperimentSpec, stage: int, *, slots: int) -> StageAllocation:
        """What a stage runs on where nothing can be planned: as many nodes as its trials can use at one time.

        Args:
            experiment: all stages.
            stage: the one that begins.
            slots: of each trial.
        """
        cloud, kind = self._ground.offered, self._ground.instance_type
        self._take(stage, _on_all_nodes(cloud, kind, experiment.chains[0][stage:], slots))
        if stage == 0:
            stand_in = replace(
                self._problem(experiment, ScalingProfile(iteration_s={slots: Latency(mean=1.0)})), objective=None
            )
            plan = AllocationPlan(chains=(tuple(self._ahead.values()),))
            self._ground.planned(stand_in, plan, remark=UNKNOWN)
        return self._ahead[stage]

    def onward(
        self,
        experiment: ExperimentSpec,
        stage: int,
        *,
        alive: int,
        elapsed_s: float,
        profile: ScalingProfile,
        least_gain: float = LEAST_GAIN,
    ) -> StageAllocation:
        """Plan the stages that are left; what the one that begins runs on.

        Where no plan keeps the limit any more it goes on all the same, and a warning says so.

        Args:
            experiment: all stages.
            stage: the one that begins.
            alive: how many trials run in it.
            elapsed_s: since the first trial came.
            profile: as it is known now.
            least_gain: share of what is left that a change has to save; see `rb_core.planners.rest.replanned`.
        """
        stages = _left(experiment, stage, alive)
        left, current = stages_left(zip(stages, self._current(stage, stages, profile), strict=True))
        objective = self._left(elapsed_s)
        problem = Problem(experiment=left, profile=profile, cloud=self._ground.cloud, objective=objective)
        found = course(
            Rest(
                problem=problem,
                current=current,
                instance_type=self._ground.instance_type,
                held=self._ground.held,
                spent_usd=self._ground.spent_usd,
            ),
            least_gain=least_gain,
        )
        self._complain(found, elapsed_s)
        self._ground.replanned(stage, problem, found)
        self._take(stage, found.allocations)
        return self._ahead[stage]

    def limit(self, experiment: ExperimentSpec, profile: ScalingProfile) -> None:
        """Set a deadline that was given as a multiple of what the fastest plan takes, once, by a first profile."""
        if self.deadline_s is None and self._objective.deadline_factor is not None:
            resolved = resolve(self._problem(experiment, profile))
            self.deadline_s = resolved.objective.deadline_s if resolved.objective else None

    def ran_on(self, stage: int) -> InstanceType | None:
        """The type of the nodes that a stage ran on; None where that is not known: in an earlier sitting of the run."""
        types = self._ground.offered.instance_types
        return types[0] if len(types) == 1 else self._ran_on.get(stage)

    @property
    def ground(self) -> Ground:
        """What is planned on."""
        return self._ground

    def warn(self, text: str) -> None:
        """Say what a person should know."""
        self._warn(text)

    def _problem(self, experiment: ExperimentSpec, profile: ScalingProfile) -> Problem:
        return Problem(
            experiment=experiment, profile=profile, cloud=self._ground.offered, objective=self._objective
        )  # fmt: skip

    def _take(self, stage: int, allocations: Iterable[StageAllocation]) -> None:
        self._ahead = dict(enumerate(allocations, start=stage))
        self._ran_on[stage] = self._ground.offered.instance_type(self._ahead[stage].instance_type)

    def _current(self, stage: int, stages: Chain, profile: ScalingProfile) -> Sequence[StageAllocation]:
        """What was planned; in a new sitting, or where it can no longer be carried out, the narrowest trials."""
        later = [self._ahead[number] for number in sorted(self._ahead) if number >= stage]
        cloud = self._ground.cloud
        names = {instance_type.name for instance_type in cloud.instance_types}
        if later and all(a.slots_per_trial in profile.slots and a.instance_type in names for a in later):
            return later
        return _on_all_nodes(cloud, self._ground.instance_type, stages, profile.slots[0])

    def _left(self, elapsed_s: float) -> Objective | None:
        """What is left of the limit; None when nothing is, so that the rest is to be as cheap as possible."""
        if self.deadline_s is None:
            return self._objective
        left_s = self.deadline_s - elapsed_s
        if left_s <= 0:
            return None
        return Objective(deadline_s=left_s, confidence=self._objective.confidence)

    def _complain(self, found: Course, elapsed_s: float) -> None:
        if found.over_usd:
            self._warn(
                f"no plan keeps the budget of {money(self._objective.budget_usd or 0.0)} any more: the run is expected "
                f"to cost {money(found.cost_usd)}. It goes on as cheaply as possible"
            )
        if self.deadline_s is None:
            return
        late_s = elapsed_s + found.jct_s - self.deadline_s
        if found.late_s or elapsed_s >= self.deadline_s:
            self._warn(
                f"no plan keeps the deadline of {duration(self.deadline_s)} any more: the run is expected to end "
                f"{duration(late_s)} late. It goes on as cheaply as that allows"
            )


def _left(experiment: ExperimentSpec, stage: int, alive: int) -> Chain:
    """The stages that are left, with the trials that are."""
    return tuple(
        Stage(trials=alive if number == 0 else min(alive, later.trials), iterations=later.iterations)
        for number, later in enumerate(experiment.chains[0][stage:])
    )


def _on_all_nodes(cloud: Cloud, kind: InstanceType | None, stages: Chain, slots: int) -> list[StageAllocation]:
    """As many nodes for each stage as its trials can use at one time; of the first type where none is given."""
    kind = cloud.instance_types[0] if kind is None else kind
    return [
        StageAllocation(
            instance_type=kind.name,
            nodes=min(cloud.max_nodes, nodes_for(stage.trials, slots_per_trial=slots, node_slots=kind.slots)),
            slots_per_trial=slots,
        )
        for stage in stages
    ]
