"""One run over recorded configurations: planned with a profile of a few of them, carried out with the times of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curves.recordings import Pool, Recording, curves_of, durations_of
from rb_core.plan import AllocationPlan, Problem
from rb_core.sim.rehearsal import RehearsedRun, rehearse_once
from rb_core.simulate import simulate

SAMPLES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What was to be expected: median, 10th and 90th percentile of time and cost."""

    p10_s: float
    p50_s: float
    p90_s: float
    p10_usd: float
    p50_usd: float
    p90_usd: float


def forecast(problem: Problem, plan: AllocationPlan, seed: int) -> Forecast:
    """What the simulation says by the profile alone."""
    estimate = simulate(problem, plan, samples=SAMPLES, rng=np.random.default_rng([seed, 1]))
    times, costs = (np.quantile(values, (0.1, 0.5, 0.9)).tolist() for values in (estimate.jct_s, estimate.cost_usd))
    return Forecast(
        p10_s=times[0], p50_s=times[1], p90_s=times[2], p10_usd=costs[0], p50_usd=costs[1], p90_usd=costs[2]
    )  # fmt: skip


def replayed(
    pool: Pool, problem: Problem, plan: AllocationPlan, drawn: Sequence[Recording], *, seed: int, **options: Any
) -> RehearsedRun:
    """Run the engine on the simulated cloud with recorded scores and times.

    Args:
        pool: where the recordings are from.
        problem: as it was planned, by the profile.
        plan: what is carried out.
        drawn: the trials are the first ones.
        seed: of the latencies of nodes and of trials' starts.
        options: other attributes of the run's request.
    """
    return rehearse_once(
        problem,
        plan,
        seed=seed,
        curves=curves_of(drawn),
        durations=durations_of(drawn),
        mode=pool.mode,
        # A slow configuration is no fault.
        patience=None,
        **options,
    )
