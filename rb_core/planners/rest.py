"""The rest of a run, planned anew from the middle of it: by what is left, what is held and what has been measured.

See `onward` for how plans are found. Where a confidence is asked for, a plan is in time when the mean of its end plus
as many of its standard deviations as the confidence takes under a normal distribution is. A budget is compared with
the mean.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from rb_core.check import non_negative
from rb_core.errors import InvalidInput
from rb_core.expectation import Batch, ExpectedModel, Progress
from rb_core.hardware import InstanceType
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.planners.candidate import Candidate, least_nodes, stages_in_order
from rb_core.planners.objective import loosened
from rb_core.planners.onward import Foreseen, Onward
from rb_core.spec import ExperimentSpec, Stage

LEAST_GAIN = 0.05
"""A plan that serves is left only for one that saves more than this share of what is still to come."""

SMALL_MISS = 0.1
"""Where no plan is in time, a miss of up to this share of the deadline is still worth hurrying for."""

WORTH_HURRYING = 0.5
"""So it is if the fastest plan makes the miss less than this share of the current plan's."""

_TOO_MANY = "the current plan needs more nodes than may be held"
_SCARCE = "the current plan needs nodes of a type that cannot be had now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What it takes to go on with the first stage under another type or width, where it has begun.

    Attributes:
        after_s: until its trials have saved and ended.
        stage: what of it is left then.
    """

    after_s: float
    stage: Stage

    def __post_init__(self) -> None:
        non_negative("after_s", self.after_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What is left of a run, seen from now: all times are relative to it.

    Attributes:
        problem: the stages that are left, one after another (see `stages_left`); profile and cloud as they are known
            now, `max_nodes` being what these stages may hold; the objective with the deadline that is left in seconds,
            or with the budget of the whole bill, or None, which asks for the cheapest rest.
        current: what is planned for these stages.
        instance_type: of the held nodes; None where none are held. It may be one that the cloud no longer offers.
        held: batches held, those that are still starting in the order of their requests.
        spent_usd: bill of what has been given back, and of all training so far under PER_FUNCTION.
        settled: so many of the first stages keep what is planned for them.
        restart: for a first stage that has begun: with its type and width it simply goes on, on the nodes that are held
            for it and others; with another type or width this comes first. None where it has not begun.
        reserve_s: a plan is changed to one that ends so long before the deadline, where there is one. The current plan
            may take all of the time.
        worth_missing_s: where no plan is in time, a miss of up to so much is still worth hurrying for; None is
            `SMALL_MISS` of the time that is left.
        scarce: name of a type of which no node can be had now, nor is held; empty for none. Other types are planned
            with, and a current plan that needs it cannot be carried out.
        overdue: whether a deadline has passed: the cheapest rest is then one that ends no later than the current one.

    Raises:
        InvalidInput: the plan has another shape than the experiment, or a value is out of its limits.
    """

    problem: Problem
    current: AllocationPlan
    instance_type: InstanceType | None = None
    held: tuple[Batch, ...] = ()
    spent_usd: float = 0.0
    settled: int = 0
    restart: Restart | None = None
    reserve_s: float = 0.0
    worth_missing_s: float | None = None
    scarce: str = ""
    overdue: bool = False

    def __post_init__(self) -> None:
        non_negative("spent_usd", self.spent_usd)
        non_negative("reserve_s", self.reserve_s)
        non_negative("settled", self.settled)
        if self.held and self.instance_type is None:
            raise InvalidInput("instance_type", "must be given for the nodes that are held")
        if self.problem.objective is not None and self.problem.objective.deadline_factor is not None:
            raise InvalidInput("deadline_s", "must be given in seconds from now, not as a multiple")
        self.current.check_fits(self.problem.experiment)

    @property
    def start(self) -> Progress:
        """The run as it stands.

        No node is expected to take longer from now on than one that is requested now: one that is overdue counts as
        that. So nodes that start are usable in the order in which they are kept.
        """
        launch_s, init_s = self.problem.cloud.launch_s.mean, self.problem.cloud.init_s.mean
        held = [
            dataclasses.replace(
                batch, running_s=min(batch.running_s, launch_s), usable_s=min(batch.usable_s, launch_s + init_s)
            )
            for batch in self.held
            if batch.count > 0
        ]
        held.sort(key=lambda batch: batch.usable_s)
        return Progress(cost_usd=self.spent_usd, held=tuple(held), instance_type=self.instance_type if held else None)


def stages_left(stages: Iterable[tuple[Stage, StageAllocation]]) -> tuple[ExperimentSpec, AllocationPlan]:
    """Stages that follow each other, with what is planned for them, as an experiment and its plan.

    A new chain begins wherever there are more trials than before: with the next of several chains, and after a stage
    that some of its trials are through with already.
    """
    chains: list[list[tuple[Stage, StageAllocation]]] = []
    for stage, allocation in stages:
        if not chains or stage.trials > chains[-1][-1][0].trials:
            chains.append([])
        chains[-1].append((stage, allocation))
    return (
        ExperimentSpec(chains=tuple(tuple(stage for stage, _ in chain) for chain in chains)),
        AllocationPlan(chains=tuple(tuple(allocation for _, allocation in chain) for chain in chains)),
    )


def in_a_row(plan: AllocationPlan) -> tuple[StageAllocation, ...]:
    """What is planned for the stages of all chains, one after another."""
    return tuple(allocation for chain in plan.chains for allocation in chain)


def evaluate(rest: Rest, plan: AllocationPlan) -> tuple[float, float]:
    """Expected end of a plan for the rest, in seconds from now, and expected bill of the whole run in usd.

    Raises:
        InvalidInput: the plan does not fit the experiment, names an unknown type or width, or cannot hold a trial;
            `max_nodes` is not looked at.
    """
    plan.check_fits(rest.problem.experiment)
    end = Onward(ExpectedModel(rest.problem), rest.start).foreseen(in_a_row(plan))
    return end.jct_s, end.cost_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A plan for the rest of a run that is to take the place of the current one.

    Attributes:
        plan: the new plan, in the shape of the rest's experiment.
        jct_s: when it is expected to end, in seconds from now.
        cost_usd: expected bill of the whole run under it.
        before_jct_s: when the current plan is expected to end, as if it could be carried out.
        before_cost_usd: expected bill of the whole run under the current plan, likewise.
        reason: why, in a few words.
    """

    plan: AllocationPlan
    jct_s: float
    cost_usd: float
    before_jct_s: float
    before_cost_usd: float
    reason: str


def replanned(rest: Rest, *, least_gain: float = LEAST_GAIN) -> Change | None:
    """The best plan for the rest, where it is worth leaving the current one for it; None where it is not.

    Under a deadline that the current plan is expected to keep, and without an objective, that is the cheapest plan
    (in time; once the deadline has passed, ending no later than the current plan), if it saves more than
    `least_gain` of what is still to be paid: of all of the bill that giving back everything now would not cost.
    Where the current plan is expected to miss the deadline, it is the cheapest that keeps it; else the fastest, if
    that misses it by little (`SMALL_MISS`) and by much less than the current one (`WORTH_HURRYING`); else the
    cheapest that ends no later than the current one, if it saves enough. Under a budget it is the fastest plan
    within it, if it saves more than `least_gain` of the time that is left; where the current plan exceeds the
    budget, the fastest that does not; where there is none, the cheapest, if it saves enough. A current plan that
    needs more than `max_nodes` is left for any of these, whatever is saved.

    Args:
        rest: what is left.
        least_gain: share that a change has to save, where the current plan serves; 1 for no such change.

    Raises:
        InvalidInput: the current plan names an unknown type or width, or cannot hold a trial.
    """
    if least_nodes(_to_be_had(rest)) is None or rest.settled >= len(stages_in_order(rest.problem)):
        return None
    return _Replanning(rest, least_gain).change()


def _to_be_had(rest: Rest) -> Problem:
    """The problem without the type that is scarce, unless there is no other."""
    others = tuple(t for t in rest.problem.cloud.instance_types if t.name != rest.scarce)
    if not others or len(others) == len(rest.problem.cloud.instance_types):
        return rest.problem
    return dataclasses.replace(rest.problem, cloud=dataclasses.replace(rest.problem.cloud, instance_types=others))


def _with_first(problem: Problem, stage: Stage, current: AllocationPlan) -> Problem:
    """The problem with another first stage."""
    stages = [stage for chain in problem.experiment.chains for stage in chain]
    experiment, _ = stages_left(zip([stage, *stages[1:]], in_a_row(current), strict=True))
    return dataclasses.replace(problem, experiment=experiment)


class _Replanning:
    """The current plan against all others."""

    def __init__(self, rest: Rest, least_gain: float) -> None:
        self._problem, self._least_gain = rest.problem, least_gain
        model, start, current = ExpectedModel(rest.problem), rest.start, in_a_row(rest.current)
        confidence = rest.problem.objective.confidence if rest.problem.objective else None
        errors = NormalDist().inv_cdf(confidence) if confidence is not None and rest.problem.noisy else 0.0
        whole = Onward(model, start, errors=errors)
        self._before = whole.foreseen(current)
        problem = _to_be_had(rest)
        self._obstacle = ""
        if max(allocation.nodes for allocation in current) > problem.cloud.max_nodes:
            self._obstacle = _TOO_MANY
        elif problem != rest.problem and any(allocation.instance_type == rest.scarce for allocation in current):
            self._obstacle = _SCARCE
        self._reserve_s, self._overdue = rest.reserve_s, rest.overdue
        self._worth_missing_s = rest.worth_missing_s
        self._settled = current[: rest.settled]
        self._given_back_usd = model.finish(start).cost_usd
        model = model if problem == rest.problem else ExpectedModel(problem)
        if rest.restart is None or self._settled:
            self._ways = [Onward(model, whole.followed(self._settled), first=rest.settled, errors=errors)]
        else:
            goes_on = start.instance_type is not None and start.instance_type.name == current[0].instance_type
            held = sum(batch.count for batch in start.held) if goes_on else 0
            bound = dataclasses.replace(current[0], nodes=max(1, held))
            anew = ExpectedModel(_with_first(problem, rest.restart.stage, rest.current))
            begin = dataclasses.replace(start, barrier_s=rest.restart.after_s)
            self._ways = [Onward(model, start, errors=errors, bound=bound), Onward(anew, begin, errors=errors)]

    def change(self) -> Change | None:
        """What to change to; None to stay."""
        objective = self._problem.objective
        if objective is None:
            return self._cheaper(self._no_later_s if self._overdue else math.inf)
        if objective.budget_usd is not None:
            return self._sooner(objective.budget_usd)
        return self._in_time(objective.deadline_s or math.inf)

    def _in_time(self, deadline_s: float) -> Change | None:
        late_s = self._before.late_s(deadline_s)
        well_in_time_s = max(0.0, deadline_s - self._reserve_s)
        if not self._obstacle and not late_s:
            return self._cheaper(well_in_time_s)
        why = self._obstacle or f"the current plan would end {late_s:.0f} s late"
        best = self._cheapest(well_in_time_s) or self._cheapest(deadline_s)
        if best:
            return self._to(best, why)
        best = self._soonest()
        worth_s = SMALL_MISS * deadline_s if self._worth_missing_s is None else self._worth_missing_s
        if best is None or best.late_s(deadline_s) > worth_s:
            # What is late anyway is not made later for money before its time is up.
            return self._cheaper(self._no_later_s, why="no plan is in time; ")
        if not self._obstacle and best.late_s(deadline_s) >= WORTH_HURRYING * late_s:
            return None
        return self._to(best, f"{why}; no plan is in time, and this one ends soonest")

    @property
    def _no_later_s(self) -> float:
        """The end of the current plan; none of one that cannot be carried out."""
        return math.inf if self._obstacle else self._before.surely_s

    def _sooner(self, budget_usd: float) -> Change | None:
        before = self._before
        if not self._obstacle and before.cost_usd <= loosened(budget_usd):
            best = self._soonest(budget_usd, before.jct_s * (1.0 - self._least_gain))
            return self._to(best, f"ends {before.jct_s - best.jct_s:.0f} s sooner") if best else None
        best = self._soonest(budget_usd)
        if best is None:
            return self._cheaper(why="no plan keeps the budget; ")
        over = f"the current plan would cost {before.cost_usd - budget_usd:.4f} usd too much"
        return self._to(best, self._obstacle or over)

    def _cheaper(self, within_s: float = math.inf, *, why: str = "") -> Change | None:
        if self._obstacle:
            best = self._cheapest(within_s)
            return self._to(best, why + self._obstacle) if best else None
        left_usd = self._before.cost_usd - self._given_back_usd
        if left_usd <= 0 or self._least_gain >= 1:
            return None
        best = self._cheapest(within_s, self._before.cost_usd - self._least_gain * left_usd)
        if best is None:
            return None
        saved_usd = self._before.cost_usd - best.cost_usd
        return self._to(best, f"{why}saves {saved_usd:.4f} of {self._before.cost_usd:.4f} usd")

    def _cheapest(self, within_s: float = math.inf, below_usd: float = math.inf) -> Foreseen | None:
        """The cheapest plan there is in any way; of two that cost the same the one that takes no restart."""
        best = None
        for way in self._ways:
            found = way.cheapest(within_s, below_usd)
            if found:
                best, below_usd = found, found.cost_usd
        return best

    def _soonest(self, within_usd: float = math.inf, below_s: float = math.inf) -> Foreseen | None:
        """The fastest plan there is in any way, likewise."""
        best = None
        for way in self._ways:
            found = way.soonest(within_usd, below_s)
            if found:
                best, below_s = found, found.jct_s
        return best

    def _to(self, best: Foreseen, reason: str) -> Change:
        allocations = (*self._settled, *best.allocations)
        new = Candidate(allocations=allocations, jct_s=best.jct_s, cost_usd=best.cost_usd)
        return Change(
            plan=new.plan(self._problem),
            jct_s=best.jct_s,
            cost_usd=best.cost_usd,
            before_jct_s=self._before.jct_s,
            before_cost_usd=self._before.cost_usd,
            reason=reason,
        )
