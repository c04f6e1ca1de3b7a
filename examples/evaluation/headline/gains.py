"""What the policies before a barrier gain for one case: the rows of policies.csv."""

from __future__ import annotations

import dataclasses

import numpy as np
from known import deadline_of
from numpy.typing import NDArray

from rb_core.expectation import ExpectedModel
from rb_core.plan import AllocationPlan, Policies, Problem
from rb_core.planners.exact import Exact, modelled_front
from rb_core.planners.objective import loosened, resolve
from rb_core.simulate import Estimate, simulate

from .cases import DEADLINE_FACTORS, Case, with_noise
from .foresight import at_once, grows, prefetched, promoted

SAMPLES = 1000
SEED = 0
TWO_SIDED_95 = 1.96


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """What each policy gains for one case and deadline; all but the first four columns are fractions.

    Attributes:
        experiment: of the case.
        cloud: of the case.
        workload: of the case.
        deadline_factor: the deadline as a multiple of the fastest plan's time.
        usd: cost of the exact plan, nothing varying.
        early: part of it that early release saves.
        noisy_usd: mean cost of the exact plan with noise.
        noisy_early: part of it that early release saves.
        noisy_early_95: half of the 95 % confidence interval of that.
        grows: whether the exact plan (nothing varying) requests nodes after a lane's first stage, 1 or 0.
        prefetch_s: seconds that prefetch saves at most.
        prefetch_time: the same as a part of the plan's time.
        prefetch_usd: part of the cost that prefetch saves at most.
        prefetch_planned: the same if the plan is chosen for it.
        promote_time: part of the mean time that early promotion saves at most, with noise.
        promote_usd: part of the mean cost likewise, if nodes are given back at barriers only.
        promote_beside: part of the mean cost likewise, if there is early release anyway.
    """

    experiment: str
    cloud: str
    workload: str
    deadline_factor: float
    usd: float
    early: float
    noisy_usd: float
    noisy_early: float
    noisy_early_95: float
    grows: int
    prefetch_s: float
    prefetch_time: float
    prefetch_usd: float
    prefetch_planned: float
    promote_time: float
    promote_usd: float
    promote_beside: float


def gains(case: Case) -> list[Gains]:
    """The rows of a case, the tightest deadline first."""
    problems = [resolve(case.problem(factor)) for factor in DEADLINE_FACTORS]
    plain, quick = (
        [c.plan(problems[0]) for c in modelled_front(ExpectedModel(p))] for p in (problems[0], at_once(problems[0]))
    )
    foreseen = [prefetched(problems[0], plan) for plan in (*plain, *quick)]
    rows = []
    for factor, problem in zip(DEADLINE_FACTORS, problems, strict=True):
        limit_s = loosened(deadline_of(problem))
        plan = Exact().plan(problem, np.random.default_rng(SEED))
        usual, early = _with_and_without(problem, plan, samples=1)
        jct_s, usd = float(usual.jct_s[0]), float(usual.cost_usd[0])
        sooner_s, cheaper_usd = prefetched(problem, plan)
        planned_usd = min(cost for at, cost in foreseen if at <= limit_s)
        noisy = resolve(with_noise(case.problem(factor)))
        noisy_plan = Exact().plan(noisy, np.random.default_rng(SEED))
        before, after = _with_and_without(noisy, noisy_plan, samples=SAMPLES)
        saved, half = _paired(before.cost_usd, after.cost_usd)
        at_most = promoted(noisy, noisy_plan, seed=SEED)
        row = Gains(
            **dataclasses.asdict(case),
            deadline_factor=factor,
            usd=usd,
            early=1 - float(early.cost_usd[0]) / usd,
            noisy_usd=float(before.cost_usd.mean()),
            noisy_early=saved,
            noisy_early_95=half,
            grows=int(grows(problem, plan)),
            prefetch_s=jct_s - sooner_s,
            prefetch_time=1 - sooner_s / jct_s,
            prefetch_usd=1 - cheaper_usd / usd,
            prefetch_planned=1 - min(planned_usd, usd) / usd,
            promote_time=at_most.time,
            promote_usd=at_most.cost,
            promote_beside=at_most.cost_beside,
        )
        rows.append(row)
    return rows


def _with_and_without(problem: Problem, plan: AllocationPlan, *, samples: int) -> list[Estimate]:
    """Estimates of a plan without early release and with it, under common random numbers."""
    return [
        simulate(
            dataclasses.replace(problem, policies=Policies(early_release=on)),
            plan,
            samples=samples,
            rng=np.random.default_rng(SEED),
        )
        for on in (False, True)
    ]


def _paired(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, float]:
    """The part of the mean that is saved, and half of its 95 % confidence interval (ratio of paired samples)."""
    saved = 1 - after.mean() / before.mean()
    residuals = before - after - saved * before
    return float(saved), float(TWO_SIDED_95 * residuals.std(ddof=1) / np.sqrt(len(before)) / before.mean())
