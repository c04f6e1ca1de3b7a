"""How surely a plan keeps its limit, counted in samples that had no part in choosing it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rb_core.markets import changeover_s
from rb_core.plan import Problem
from rb_core.planners.objective import loosened
from rb_core.simulate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The probability of keeping a limit.

    Attributes:
        wanted: the confidence that was asked for.
        probability: share of the samples that keep the limit.
        standard_error: of `probability`. Never 0 where anything varies: with k of n kept it is that of the share
            (k + 1) / (n + 2), since no number of samples makes sure.
        samples: how many there are.
    """

    wanted: float
    probability: float
    standard_error: float
    samples: int


def promise(problem: Problem, estimate: Estimate, on_demand: Estimate | None = None) -> Promise | None:
    """What the samples say of the problem's limit; None where no confidence was asked for.

    Args:
        problem: with its deadline in seconds.
        estimate: samples of the plan, drawn independently of those that it was chosen by: the best of many plans looks
            better than it is on the samples that chose it.
        on_demand: the same samples on nodes bought on demand, where what would be late on spot falls back on these: it
            is in time where on demand, with the change, it would be.
    """
    objective = problem.objective
    if objective is None or objective.confidence is None:
        return None
    limit, values = objective.budget_usd, estimate.cost_usd
    if limit is None:
        limit, values = objective.deadline_s, estimate.jct_s
    samples = len(values)
    in_time = np.ones(samples, dtype=bool) if limit is None else values <= loosened(limit)
    if on_demand is not None and objective.deadline_s is not None:
        in_time |= on_demand.jct_s + changeover_s(problem) <= loosened(objective.deadline_s)
    kept = int(np.count_nonzero(in_time))
    cautious = (kept + 1) / (samples + 2)
    return Promise(
        wanted=objective.confidence,
        probability=kept / samples,
        standard_error=math.sqrt(cautious * (1 - cautious) / samples) if problem.noisy else 0.0,
        samples=samples,
    )
