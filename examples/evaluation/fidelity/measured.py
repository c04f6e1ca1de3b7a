"""Real runs: profiled by our own profiler, forecast, and then run by the real engine with real processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import psutil
from machine import machine

from rb_core.eventlog import read_log
from rb_core.expectation import expected
from rb_core.measurement import MeasuredProfile
from rb_core.plan import AllocationPlan
from rb_core.planners.objective import lower_bound_usd
from rb_core.simulate import Estimate
from rb_plugins.config.problem import fingerprint
from rb_plugins.forecast import Forecast
from rb_plugins.manager import make_manager
from rb_plugins.session import Session

from .bands import Band, rank_of
from .cases import Case
from .parts import parts_of

SAMPLES = 1000
"""Samples of a forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run against its forecast; a row of the table.

    Attributes:
        name: of its case.
        launcher: how its processes were started.
        plan: nodes/slots per trial, stage by stage; chains are set apart by commas.
        seed: of configurations, training and forecast.
        profile: which profile; runs with the same one share it.
        profiling_s: how long that took.
        age_s: from its end to the run's beginning.
        jct_p10_s: forecast.
        jct_p50_s: forecast.
        jct_p90_s: forecast.
        jct_s: actual.
        jct_inside: whether it lies between P10 and P90.
        jct_rank: share of the forecast's samples below it.
        jct_inside_sure: whether it lies in the band of a forecast that takes the profile for sure (`run_cv` 0).
        cost_p10_usd: forecast.
        cost_p50_usd: forecast.
        cost_p90_usd: forecast.
        cost_usd: actual.
        cost_inside: whether it lies between P10 and P90.
        cost_rank: share of the forecast's samples below it.
        cost_inside_sure: as `jct_inside_sure`.
        trial_cv: of the profile.
        run_cv: of the profile.
        iteration_ratio: seconds of the run's iterations by those of the profile.
        around_s: start and save of a trial, mean of the run.
        profile_around_s: the same by the profile.
        barrier_s: a barrier, mean of the run; None for one stage alone.
        profile_sync_s: the same by the profile.
        others_cores: cores that were busy with something else, mean over the run.
        machine: where.
        command: repeats the row, with a profile of its own.
    """

    name: str
    launcher: str
    plan: str
    seed: int
    profile: str
    profiling_s: float
    age_s: float
    jct_p10_s: float
    jct_p50_s: float
    jct_p90_s: float
    jct_s: float
    jct_inside: bool
    jct_rank: float
    jct_inside_sure: bool
    cost_p10_usd: float
    cost_p50_usd: float
    cost_p90_usd: float
    cost_usd: float
    cost_inside: bool
    cost_rank: float
    cost_inside_sure: bool
    trial_cv: float
    run_cv: float
    iteration_ratio: float
    around_s: float
    profile_around_s: float
    barrier_s: float | None
    profile_sync_s: float
    others_cores: float
    machine: str
    command: str


def measured(cases: Sequence[Case], home: Path) -> Iterator[Run]:
    """Profile each group of cases, and run its cases one after the other.

    Args:
        cases: those of a group in a row.
        home: where runs are kept, each with its log.
    """
    # What other installed plugins say, and what earlier runs have shown, would make two machines differ.
    session = Session(manager=make_manager(autoload=False), directory=home)
    for _, group in groupby(cases, key=lambda case: case.group):
        profile: MeasuredProfile | None = None
        ended_s = 0.0
        for case in group:
            tuning = case.tuning
            with session.launcher(tuning.launcher, tuning.target, cloud=tuning.cloud) as launcher:
                if profile is None:
                    profile = session.measure(session.to_measure(case.profiled), launcher)
                    ended_s = session.clock.now()
                planned, sure = forecast(case, session, profile)
                age_s, busy_s = session.clock.now() - ended_s, _busy_s()
                directory = session.create(tuning, planned)
                outcome = session.run(tuning, planned, launcher, directory=directory)
                busy_s = _busy_s() - busy_s
            jct_s, cost_usd = outcome.state.jct_s, outcome.bill.cost_usd
            jct, cost = Band.of(planned.estimate.jct_s), Band.of(planned.estimate.cost_usd)
            parts, known = parts_of(read_log(directory.events).events, profile.profile), profile.profile
            usd_per_s = tuning.cloud.instance_types[0].usd_per_s
            trained_s = sum(stage.cost_usd * (1 - stage.idle_fraction) for stage in outcome.bill.stages) / usd_per_s
            yield Run(
                name=case.name,
                launcher=tuning.launcher,
                plan=in_short(planned.plan),
                seed=case.seed,
                profile=case.group,
                profiling_s=profile.seconds,
                age_s=age_s,
                jct_p10_s=jct.p10,
                jct_p50_s=jct.p50,
                jct_p90_s=jct.p90,
                jct_s=jct_s,
                jct_inside=jct.holds(jct_s),
                jct_rank=rank_of(jct_s, planned.estimate.jct_s),
                jct_inside_sure=Band.of(sure.jct_s).holds(jct_s),
                cost_p10_usd=cost.p10,
                cost_p50_usd=cost.p50,
                cost_p90_usd=cost.p90,
                cost_usd=cost_usd,
                cost_inside=cost.holds(cost_usd),
                cost_rank=rank_of(cost_usd, planned.estimate.cost_usd),
                cost_inside_sure=Band.of(sure.cost_usd).holds(cost_usd),
                trial_cv=known.trial_cv,
                run_cv=known.run_cv,
                iteration_ratio=parts.iteration_ratio,
                around_s=parts.around_s,
                profile_around_s=known.start_s.mean + known.save_s.mean,
                barrier_s=parts.barrier_s,
                profile_sync_s=known.sync_s,
                others_cores=max(0.0, busy_s - trained_s) / jct_s,
                machine=str(machine()),
                command=case.command,
            )


def forecast(case: Case, session: Session, profile: MeasuredProfile) -> tuple[Forecast, Estimate]:
    """What the case's plan is expected to take, before it is run.

    Returns:
        The forecast, and the samples of one that takes the profile for sure.
    """
    problem, plan = session.problem(case.tuning, profile), case.of_shape.plan
    planned = Forecast(
        problem=problem,
        fingerprint=fingerprint(problem),
        planner="given",
        plan=plan,
        expected=expected(problem, plan),
        estimate=session.simulate(problem, plan, samples=SAMPLES, seed=case.seed),
        baselines={},
        lower_bound_usd=lower_bound_usd(problem),
    )
    surely = replace(problem, profile=replace(problem.profile, run_cv=0.0))
    return planned, session.simulate(surely, plan, samples=SAMPLES, seed=case.seed)


def in_short(plan: AllocationPlan) -> str:
    """A plan in a cell."""
    return ", ".join(" ".join(f"{step.nodes}/{step.slots_per_trial}" for step in chain) for chain in plan.chains)


def _busy_s() -> float:
    """Seconds for which the machine's cores have been busy, summed over them."""
    times = psutil.cpu_times()._asdict()
    return float(sum(times.get(kind, 0.0) for kind in ("user", "system", "nice", "irq", "softirq", "steal")))
