"""How surely a plan keeps its limit, counted in samples that had no part in choosing it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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


def promise(problem: Problem, estimate: Estimate) -> Promise | None:
    """What the samples say of the problem's limit; None where no confidence was asked for.

    Args:
        problem: with its deadline in seconds.
        estimate: samples of the plan, drawn independently of those that it was chosen by: the best of many plans looks
            better than it is on the samples that chose it.
    """
    objective = problem.objective
    if objective is None or objective.confidence is None:
        return None
    limit, values = objective.budget_usd, estimate.cost_usd
    if limit is None:
        limit, values = objective.deadline_s, estimate.jct_s
    samples = len(values)
    kept = samples if limit is None else int(np.count_nonzero(values <= loosened(limit)))
    cautious = (kept + 1) / (samples + 2)
    return Promise(
        wanted=objective.confidence,
        probability=kept / samples,
        standard_error=math.sqrt(cautious * (1 - cautious) / samples) if problem.noisy else 0.0,
        samples=samples,
    )
