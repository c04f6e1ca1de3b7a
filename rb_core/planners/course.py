"""The stages that are left, planned at a barrier for hosts that look at their plan at barriers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rb_core.markets import MARGIN
from rb_core.plan import Objective, StageAllocation
from rb_core.planners.objective import NO_LIMIT, loosened
from rb_core.planners.rest import LEAST_GAIN, Rest, evaluate, in_a_row, replanned


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What the stages that are left run on, and what is to be expected of it.

    Attributes:
        allocations: of these stages, one after another.
        jct_s: expected end in seconds from now.
        cost_usd: expected bill of the whole run.
        before_jct_s: expected end of what was planned before.
        before_cost_usd: expected bill of that.
        reason: why it is another plan than before; empty where it is not.
        late_s: by how much the end is expected to miss the deadline; 0 where it is in time.
        over_usd: by how much the bill is expected to exceed the budget; 0 where it does not.
    """

    allocations: tuple[StageAllocation, ...]
    jct_s: float
    cost_usd: float
    before_jct_s: float
    before_cost_usd: float
    reason: str = ""
    late_s: float = 0.0
    over_usd: float = 0.0


def course(rest: Rest, *, least_gain: float = LEAST_GAIN) -> Course:
    """The best plan for what is left; where no plan keeps the objective it goes on as `replanned` has it.

    On nodes that cost nothing, a plan that merely keeps a deadline is no better than any other, so there it is the
    fastest one.

    Args:
        rest: what is left, at a barrier.
        least_gain: as of `replanned`.

    Raises:
        InvalidInput: as `replanned`.
    """
    objective = rest.problem.objective
    free = not any(instance_type.usd_per_hour for instance_type in rest.problem.cloud.instance_types)
    asked = rest
    if free:
        fastest = Objective(budget_usd=NO_LIMIT, confidence=objective.confidence if objective else None)
        asked = replace(rest, problem=replace(rest.problem, objective=fastest))
    elif objective is not None and objective.deadline_s is not None:
        asked = replace(rest, reserve_s=rest.reserve_s + MARGIN * objective.deadline_s)
    change = replanned(asked, least_gain=least_gain)
    plan = rest.current if change is None else change.plan
    jct_s, cost_usd = evaluate(rest, plan) if change is None else (change.jct_s, change.cost_usd)
    deadline_s = objective.deadline_s if objective and objective.deadline_s is not None else math.inf
    budget_usd = objective.budget_usd if objective and objective.budget_usd is not None else math.inf
    return Course(
        allocations=in_a_row(plan),
        jct_s=jct_s,
        cost_usd=cost_usd,
        before_jct_s=jct_s if change is None else change.before_jct_s,
        before_cost_usd=cost_usd if change is None else change.before_cost_usd,
        reason="" if change is None else change.reason,
        late_s=jct_s - deadline_s if jct_s > loosened(deadline_s) else 0.0,
        over_usd=cost_usd - budget_usd if cost_usd > loosened(budget_usd) else 0.0,
    )
