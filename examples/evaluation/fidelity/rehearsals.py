"""Rehearsals against forecasts: the real engine on the simulated cloud, of the same model or of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from pool import each

from rb_core.draws import lognormals
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, Policies, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.sim.faults import Faults
from rb_core.sim.rehearsal import rehearse_once
from rb_core.simulate import Estimate, simulate
from rb_core.spec import ExperimentSpec

from .bands import Band
from .cases import COMMAND

SAMPLES = 1000
"""Samples of a forecast."""

TRUE_CVS = (0.0, 0.05, 0.1, 0.2)
"""How far the profile of a rehearsal is off: coefficients of variation of the true factor, which is drawn for each."""

_FORECAST = 1_000_000
"""Sets the seeds of forecasts apart from those of rehearsals, which take a sample's own random numbers."""

_TRUTH = 5
"""Sets the stream of the true factors apart from all others of a seed."""

_CLOUD = Cloud(
    instance_types=(
        InstanceType(name="four", slots=4, usd_per_hour=12.0),
        InstanceType(name="one", slots=1, usd_per_hour=3.2, speed=0.9),
    ),
    max_nodes=16,
    launch_s=Latency(mean=25.0, std=5.0),
    init_s=Latency(mean=120.0, std=40.0),
)

_PROFILE = ScalingProfile(
    iteration_s={w: Latency(mean=60.0 / gain, std=3.0 / gain) for w, gain in ((1, 1.0), (2, 1.85), (4, 3.4), (8, 5.5))},
    start_s=Latency(mean=8.0, std=2.0),
    save_s=Latency(mean=1.5, std=0.5),
    sync_s=2.0,
    trial_cv=0.15,
    spread_penalty=0.1,
)


def _problem(experiment: ExperimentSpec, *, early_release: bool) -> Problem:
    policies = Policies(early_release=early_release)
    return Problem(experiment=experiment, profile=_PROFILE, cloud=_CLOUD, policies=policies)


def _plan(*chains: Sequence[tuple[str, int, int]]) -> AllocationPlan:
    """Of (type, nodes, slots per trial) for each stage of each chain."""
    return AllocationPlan(
        chains=tuple(
            tuple(
                StageAllocation(instance_type=name, nodes=nodes, slots_per_trial=slots) for name, nodes, slots in chain
            )
            for chain in chains
        )
    )


PROBLEMS: dict[str, tuple[Problem, AllocationPlan]] = {
    "SHA(16,2,32,2), shrinking": (
        _problem(ExperimentSpec.successive_halving(n=16, r=2, R=32, eta=2), early_release=True),
        _plan([("four", 4, 1), ("four", 2, 1), ("four", 2, 2), ("four", 1, 2), ("four", 1, 4)]),
    ),
    "SHA(27,1,27,3), two types": (
        _problem(ExperimentSpec.successive_halving(n=27, r=1, R=27, eta=3), early_release=False),
        _plan([("four", 4, 1), ("four", 3, 1), ("one", 3, 1), ("one", 1, 1)]),
    ),
    "SHA(16,1,16,4), spanning nodes": (
        _problem(ExperimentSpec.successive_halving(n=16, r=1, R=16, eta=4), early_release=True),
        _plan([("four", 3, 1), ("four", 4, 4), ("four", 2, 8)]),
    ),
    "one stage of 10 in turns": (
        _problem(ExperimentSpec.from_stages([(10, 12)]), early_release=False),
        _plan([("one", 4, 1)]),
    ),
    "Hyperband(9,3), in turns": (
        _problem(ExperimentSpec.hyperband(R=9, eta=3), early_release=True),
        _plan([("four", 2, 1), ("four", 1, 1), ("four", 1, 4)], [("four", 2, 1), ("four", 1, 4)], [("four", 1, 1)]),
    ),
}
"""By name; nothing of it is measured, so all follows from the seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """One rehearsal.

    Attributes:
        problem: its name.
        true_cv: coefficient of variation that its true factor was drawn with.
        seed: of everything.
        true_factor: how many times as long as in the profile iterations took.
        jct_s: actual.
        cost_usd: actual.
    """

    problem: str
    true_cv: float
    seed: int
    true_factor: float
    jct_s: float
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Rehearsals of one problem against one forecast; a row of the table.

    Attributes:
        problem: its name.
        true_cv: how far the profile was off.
        run_cv: how far off the forecast took it to be.
        seeds: of the rehearsals; each forecast has one of its own.
        jct_p10_s: forecast.
        jct_p50_s: forecast.
        jct_p90_s: forecast.
        jct_inside: how many rehearsals lay between P10 and P90.
        cost_p10_usd: forecast.
        cost_p50_usd: forecast.
        cost_p90_usd: forecast.
        cost_inside: how many rehearsals lay between P10 and P90.
        runs: how many there were.
        command: repeats the row.
    """

    problem: str
    true_cv: float
    run_cv: float
    seeds: str
    jct_p10_s: float
    jct_p50_s: float
    jct_p90_s: float
    jct_inside: int
    cost_p10_usd: float
    cost_p50_usd: float
    cost_p90_usd: float
    cost_inside: int
    runs: int
    command: str


def rehearsed(problem: str, true_cv: float, seeds: int) -> Iterator[Rehearsed]:
    """Rehearse a problem with each seed from 0."""
    yield from each(partial(_rehearsed, problem, true_cv), range(seeds), chunk=8)


def _rehearsed(name: str, true_cv: float, seed: int) -> Rehearsed:
    problem, plan = PROBLEMS[name]
    normal = np.random.default_rng([seed, _TRUTH]).standard_normal(1)
    (factor,) = lognormals(Latency(mean=1.0, std=true_cv), normal).tolist()
    run = rehearse_once(problem, plan, seed=seed, faults=Faults(true_iteration_factor=factor))
    return Rehearsed(
        problem=name,
        true_cv=true_cv,
        seed=seed,
        true_factor=factor,
        jct_s=run.state.jct_s,
        cost_usd=run.bill.cost_usd,
    )


def covered(name: str, runs: Sequence[Rehearsed], *, run_cv: float) -> Covered:
    """Hold the rehearsals of a problem against a forecast that takes its profile to be that far off."""
    estimate = foreseen(name, run_cv)
    jct, cost = Band.of(estimate.jct_s), Band.of(estimate.cost_usd)
    true_cv = runs[0].true_cv
    return Covered(
        problem=name,
        true_cv=true_cv,
        run_cv=run_cv,
        seeds=f"0 to {len(runs) - 1}",
        jct_p10_s=jct.p10,
        jct_p50_s=jct.p50,
        jct_p90_s=jct.p90,
        jct_inside=sum(jct.holds(run.jct_s) for run in runs),
        cost_p10_usd=cost.p10,
        cost_p50_usd=cost.p50,
        cost_p90_usd=cost.p90,
        cost_inside=sum(cost.holds(run.cost_usd) for run in runs),
        runs=len(runs),
        command=f'{COMMAND} --rehearse "{name}" --true-cv {true_cv:g} --run-cv {run_cv:g} --seeds {len(runs)}',
    )


def foreseen(name: str, run_cv: float) -> Estimate:
    """The forecast of a problem's plan."""
    problem, plan = PROBLEMS[name]
    doubted = replace(problem, profile=replace(problem.profile, run_cv=run_cv))
    seed = _FORECAST + list(PROBLEMS).index(name)
    return simulate(doubted, plan, samples=SAMPLES, rng=np.random.default_rng(seed))
