"""The cases and their rows: each planner's plan for the same draw of configurations, forecast and carried out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from known import deadline_of, known

from curves.profiling import CONFIGS, profiled
from curves.recordings import Pool, Recording
from curves.replay import forecast, replayed
from rb_core.errors import NoFeasiblePlan
from rb_core.plan import AllocationPlan, Objective, Policies, Problem
from rb_core.planners.objective import loosened, resolve
from rb_core.spec import ExperimentSpec
from rb_plugins import make_manager

PLANNERS = ("static-1", "static", "greedy", "exact")
AS_RUN = "as run"
"""The exact plan with early release and planning anew, as `rb-tune run` carries it out."""

DEADLINE_FACTORS = (1.5, 3.0, 6.0)
CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """An experiment over a pool.

    Attributes:
        name: of the experiment.
        pool: where its configurations are drawn from.
        experiment: its stages.
    """

    name: str
    pool: Pool
    experiment: ExperimentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One planner's plan for one draw and one deadline.

    Attributes:
        pool: name of the pool.
        study: name of the experiment.
        seed: of the draw and of all latencies.
        deadline_factor: the deadline as a multiple of the fastest plan's time, by the profile.
        planner: whose plan it is.
        deadline_s: the deadline.
        trial_cv: how much the speed of configurations differs by the profile.
        forecast_s: median time of the forecast; None, as all that follows, where no plan was found.
        forecast_p10_s: its 10th percentile.
        forecast_p90_s: its 90th percentile.
        forecast_usd: median cost of the forecast.
        forecast_p10_usd: its 10th percentile.
        forecast_p90_usd: its 90th percentile.
        actual_s: the time that it took with the recorded times.
        actual_usd: its bill.
        in_time: whether it kept the deadline.
        chosen: name of the configuration that was best in the end.
        regret_drawn: how much worse its score is than that of the best drawn one, trained to its end.
        regret_pool: the same against the best of the pool.
        plan: nodes and slots per trial of each stage.
    """

    pool: str
    study: str
    seed: int
    deadline_factor: float
    planner: str
    deadline_s: float
    trial_cv: float
    forecast_s: float | None = None
    forecast_p10_s: float | None = None
    forecast_p90_s: float | None = None
    forecast_usd: float | None = None
    forecast_p10_usd: float | None = None
    forecast_p90_usd: float | None = None
    actual_s: float | None = None
    actual_usd: float | None = None
    in_time: bool | None = None
    chosen: str = ""
    regret_drawn: float | None = None
    regret_pool: float | None = None
    plan: str = ""

    @property
    def time_ratio(self) -> float:
        """The time as a multiple of the forecast's median."""
        return known(self.actual_s) / known(self.forecast_s)

    @property
    def cost_ratio(self) -> float:
        """The bill as a multiple of the forecast's median."""
        return known(self.actual_usd) / known(self.forecast_usd)

    @property
    def time_inside(self) -> bool:
        """Whether the time lies between the forecast's percentiles."""
        return known(self.forecast_p10_s) <= known(self.actual_s) <= known(self.forecast_p90_s)

    @property
    def cost_inside(self) -> bool:
        """Whether the bill lies between the forecast's percentiles."""
        return known(self.forecast_p10_usd) <= known(self.actual_usd) <= known(self.forecast_p90_usd)

    def cost_against(self, other: Row) -> float:
        """The bill as a multiple of another's."""
        return known(self.actual_usd) / known(other.actual_usd)


def worked_out(study: Study, seed: int, factors: Sequence[float] = DEADLINE_FACTORS) -> Iterator[Row]:
    """The rows of one draw."""
    pool, drawn = study.pool, study.pool.drawn(seed)
    problem = Problem(
        experiment=study.experiment, profile=profiled(pool, drawn[:CONFIGS]), cloud=pool.cloud
    )  # fmt: skip
    planners = make_manager().planners()
    for factor in factors:
        asked = resolve(
            dataclasses.replace(problem, objective=Objective(deadline_factor=factor, confidence=CONFIDENCE))
        )
        for name in (*PLANNERS, AS_RUN):
            as_run = name == AS_RUN
            posed = dataclasses.replace(asked, policies=Policies(early_release=as_run))
            base = Row(
                pool=pool.name,
                study=study.name,
                seed=seed,
                deadline_factor=factor,
                planner=name,
                deadline_s=deadline_of(asked),
                trial_cv=problem.profile.trial_cv,
            )
            try:
                plan = planners["exact" if as_run else name]().plan(posed, np.random.default_rng(seed))
            except NoFeasiblePlan:
                yield base
                continue
            yield _carried_out(base, study, posed, plan, drawn, replan=as_run)


def _carried_out(
    base: Row, study: Study, problem: Problem, plan: AllocationPlan, drawn: Sequence[Recording], *, replan: bool
) -> Row:
    pool, told = study.pool, forecast(problem, plan, base.seed)
    run = replayed(pool, problem, plan, drawn, seed=base.seed, replan=replan)
    best = known(run.state.best())
    score = known(best.score)
    finals = [recording.scores[-1] for recording in drawn[: study.experiment.trials]]
    best_drawn = float(np.nanmax(finals) if pool.mode == "max" else np.nanmin(finals))
    return dataclasses.replace(
        base,
        forecast_s=told.p50_s,
        forecast_p10_s=told.p10_s,
        forecast_p90_s=told.p90_s,
        forecast_usd=told.p50_usd,
        forecast_p10_usd=told.p10_usd,
        forecast_p90_usd=told.p90_usd,
        actual_s=run.state.jct_s,
        actual_usd=run.bill.cost_usd,
        in_time=run.state.jct_s <= loosened(base.deadline_s),
        chosen=drawn[best.trial].name,
        regret_drawn=pool.loss(score, best_drawn),
        regret_pool=pool.loss(score, pool.best),
        plan=" | ".join(" > ".join(f"{s.nodes}w{s.slots_per_trial}" for s in chain) for chain in plan.chains),
    )
