"""Whether a run that goes on can still keep its deadline, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from rb_core.engine.request import OnDeadline, RunRequest
from rb_core.expectation import Batch, ExpectedModel, Progress
from rb_core.plan import AllocationPlan, ChainOrder, Problem, StageAllocation
from rb_core.planners.objective import loosened
from rb_core.planners.onward import Onward
from rb_core.planners.rest import in_a_row, stages_left
from rb_core.report import duration
from rb_core.spec import Stage
from rb_core.state import RunState, TrialPhase

_ALIVE = (TrialPhase.WAITING, TrialPhase.RUNNING, TrialPhase.PAUSED)


def late(request: RunRequest, plan: AllocationPlan, state: RunState, t_s: float) -> str:
    """That the deadline cannot be kept, with what is to be expected and what can be done; empty where it can.

    The rest is expected to take what the profile says. Where it may be planned anew it is the fastest that counts, else
    what is planned.

    Args:
        request: the run, with the objective that holds from now on.
        plan: what it stands under.
        state: where its log ends.
        t_s: seconds since it started, now.
    """
    objective = request.problem.objective
    if objective is None or objective.deadline_s is None or not state.nodes:
        return ""
    deadline_s, gone_s = objective.deadline_s, t_s - state.began_s
    left_s = _left_s(request, plan, state)
    end_s = gone_s + left_s
    if end_s <= loosened(deadline_s):
        return ""
    passed = gone_s >= deadline_s
    stops = request.on_deadline is OnDeadline.STOP
    what = "has passed" if passed else "can no longer be kept"
    soonest = "at the soonest" if request.replan else "as it is planned"
    then = "it stops at its deadline" if stops else "it is finished all the same"
    other = "--on-deadline finish lets it go on" if stops else "" if passed else "--on-deadline stop ends it then"
    return (
        f"the deadline of {duration(deadline_s)} {what}: {duration(gone_s)} are gone since the run began, and the rest "
        f"takes {duration(left_s)}, so it would end {soonest} {duration(end_s - deadline_s)} late; {then}; "
        f"--deadline gives it a later one, of {duration(end_s)} or more" + (f", and {other}" if other else "")
    )


def _left_s(request: RunRequest, plan: AllocationPlan, state: RunState) -> float:
    """Expected seconds to the end; of chains side by side, the longest of them, each with all nodes to itself."""
    chains = range(len(plan.chains))
    lanes: Sequence[Sequence[int]] = [[c] for c in chains] if plan.order is ChainOrder.PARALLEL else [chains]
    return max(
        _lane_s(request, [pair for c in lane for pair in _stages(request, plan, state, c)], state) for lane in lanes
    )


def _lane_s(request: RunRequest, left: Sequence[tuple[Stage, StageAllocation]], state: RunState) -> float:
    if not left:
        return 0.0
    experiment, current = stages_left(left)
    problem = replace(request.problem, experiment=experiment)
    onward = Onward(ExpectedModel(problem), _start(problem, state))
    best = onward.soonest() if request.replan else None
    return (onward.foreseen(in_a_row(current)) if best is None else best).jct_s


def _start(problem: Problem, state: RunState) -> Progress:
    """Nothing is held, or what a killed process held, as if all of it were usable still."""
    held = [state.nodes[name] for name in state.held]
    kinds = {node.instance_type for node in held}
    if len(kinds) != 1:
        return Progress()
    batch = Batch(count=len(held), running_s=0.0, usable_s=0.0)
    return Progress(held=(batch,), instance_type=problem.cloud.instance_type(kinds.pop()))


def _stages(
    request: RunRequest, plan: AllocationPlan, state: RunState, chain: int
) -> Iterator[tuple[Stage, StageAllocation]]:
    """What is left of a chain, as it is planned; of a stage that had begun, the trials that are not through with it."""
    stages, allocations = request.problem.experiment.chains[chain], plan.chains[chain]
    begun = [stage for stage in state.stages if stage.chain == chain]
    ended = sum(stage.end_s is not None for stage in begun)
    own = [trial for trial in state.trials.values() if trial.chain == chain]
    alive = max(1, sum(trial.phase in _ALIVE for trial in own))
    ends = tuple(accumulate(stage.iterations for stage in stages))
    for number in range(ended, len(stages)):
        stage = Stage(trials=min(stages[number].trials, alive), iterations=stages[number].iterations)
        if number < len(begun):
            within = [state.trials[t] for t in begun[number].trials]
            waiting = [t.iterations for t in within if t.phase in (TrialPhase.WAITING, TrialPhase.RUNNING)]
            if not waiting:
                continue
            todo = ends[number] - sum(waiting) / len(waiting)
            stage = Stage(trials=len(waiting), iterations=max(1, math.ceil(todo)))
        yield stage, allocations[number]
