"""Rehearsing a plan: the real engine on a manual clock, seed by seed, with every invariant checked after each run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rb_core.errors import InvalidInput
from rb_core.events import Event, RunEnding
from rb_core.ledger import Ledger, ledger
from rb_core.plan import AllocationPlan, Problem
from rb_core.sim.curves import Curves, SyntheticCurves
from rb_core.sim.durations import Durations
from rb_core.sim.evidence import Evidence
from rb_core.sim.faults import Faults
from rb_core.sim.invariants import BrokenInvariant, violations
from rb_core.sim.world import World
from rb_core.simulate import Estimate, StageEstimate
from rb_core.state import RunState, TrialPhase

_CURVES = 2
"""Sets the stream of the synthetic curves apart from all others of a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedRun:
    """One rehearsal.

    Attributes:
        seed: what it can be repeated with.
        state: the run at its end.
        bill: what it cost, in all and stage by stage.
        events: how many its log holds.
        leaked_nodes: nodes that are still held.
        lost_trials: trials of a run that came to its end of which nobody knows what became.
        kills: how often the engine's process was killed.
    """

    seed: int
    state: RunState
    bill: Ledger
    events: int
    leaked_nodes: int
    lost_trials: int
    kills: int

    @property
    def finished(self) -> bool:
        """Whether all its stages ran."""
        return self.state.ending is RunEnding.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """Rehearsals of one plan under different seeds.

    Attributes:
        jct_s: when each run's last stage ended; shape (runs,).
        cost_usd: its bill; shape (runs,).
        finished: whether all its stages ran; shape (runs,).
        estimate: the runs that finished, as `simulate` has them; shape (finished,) each.
        events: events of all logs.
        leaked_nodes: nodes that were held at the end of any run.
        lost_trials: trials of which nobody knows what became.
        failed_trials: trials that failed for good.
        kills: how often an engine's process was killed.
        deadline_met_fraction: share of the runs that finished by the problem's deadline; None without one.
        within_budget_fraction: share of the runs that finished within the problem's budget; None without one.
    """

    jct_s: NDArray[np.float64] = field(repr=False)
    cost_usd: NDArray[np.float64] = field(repr=False)
    finished: NDArray[np.bool_] = field(repr=False)
    estimate: Estimate = field(repr=False)
    events: int
    leaked_nodes: int
    lost_trials: int
    failed_trials: int
    kills: int
    deadline_met_fraction: float | None
    within_budget_fraction: float | None


def rehearse(
    problem: Problem,
    plan: AllocationPlan,
    *,
    seeds: Sequence[int],
    faults: Faults | None = None,
    curves: Curves | None = None,
    durations: Durations | None = None,
    truth: Problem | None = None,
    on_run: Callable[[RehearsedRun], None] | None = None,
    **options: Any,
) -> Rehearsal:
    """Run the engine once for each seed.

    Args:
        problem: experiment, profile and cloud; its objective is what the fractions are of.
        plan: an allocation for every stage.
        seeds: of one run each; without faults a run takes the random numbers of one sample of `simulate`.
        faults: what goes wrong; nothing by default.
        curves: scores of the trials; synthetic ones, by the seed, by default.
        durations: of their iterations, with the speed of each; as the profile has them by default.
        truth: the same experiment as it really is, where `problem` is what is believed of it; `problem` by default.
            The bill is by the prices of `problem`.
        on_run: told each run.
        options: other attributes of `RunRequest`.

    Raises:
        InvalidInput: plan and problem do not fit each other, or there are no seeds.
        BrokenInvariant: a run was not as every run must be.
    """
    if not seeds:
        raise InvalidInput("seeds", "must be at least one")
    runs = []
    for seed in seeds:
        run = rehearse_once(
            problem, plan, seed=seed, faults=faults, curves=curves, durations=durations, truth=truth, **options
        )
        runs.append(run)
        if on_run is not None:
            on_run(run)
    return _gathered(problem, runs)


def rehearse_once(
    problem: Problem,
    plan: AllocationPlan,
    *,
    seed: int,
    faults: Faults | None = None,
    curves: Curves | None = None,
    durations: Durations | None = None,
    truth: Problem | None = None,
    **options: Any,
) -> RehearsedRun:
    """Run the engine once. Arguments and errors as of `rehearse`."""
    return _told(problem, seed, _evidence(problem, plan, seed, faults, curves, durations, truth, options))


def rehearsed_log(
    problem: Problem,
    plan: AllocationPlan,
    *,
    seed: int,
    faults: Faults | None = None,
    curves: Curves | None = None,
    durations: Durations | None = None,
    truth: Problem | None = None,
    **options: Any,
) -> tuple[Event, ...]:
    """The log of the run that `rehearse_once` has. Arguments and errors as of `rehearse`."""
    return _evidence(problem, plan, seed, faults, curves, durations, truth, options).events


def _evidence(
    problem: Problem,
    plan: AllocationPlan,
    seed: int,
    faults: Faults | None,
    curves: Curves | None,
    durations: Durations | None,
    truth: Problem | None,
    options: Mapping[str, Any],
) -> Evidence:
    if curves is None:
        curves = SyntheticCurves(problem.experiment.trials, np.random.default_rng([seed, _CURVES]))
    world = World(
        problem,
        plan,
        seed=seed,
        faults=faults or Faults(),
        curves=curves,
        durations=durations,
        truth=truth,
        **options,
    )
    with _quietly():
        evidence = world.run()
    broken = violations(evidence)
    if broken:
        raise BrokenInvariant(seed, broken)
    return evidence


@contextmanager
def _quietly() -> Iterator[None]:
    """What the engine logs of faults that are meant to happen is of no use to anybody."""
    logger = logging.getLogger("rb_core")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _told(problem: Problem, seed: int, evidence: Evidence) -> RehearsedRun:
    state = evidence.state
    known = (TrialPhase.FINISHED, TrialPhase.STOPPED, TrialPhase.FAILED)
    lost = [trial for trial in state.trials.values() if trial.phase not in known]
    return RehearsedRun(
        seed=seed,
        state=state,
        bill=ledger(state, problem.cloud),
        events=len(evidence.events),
        leaked_nodes=len(evidence.owned),
        lost_trials=len(lost) if state.ending is RunEnding.DONE else 0,
        kills=len(evidence.killed_s),
    )


def _gathered(problem: Problem, runs: Sequence[RehearsedRun]) -> Rehearsal:
    jct_s = np.array([run.state.jct_s for run in runs])
    cost_usd = np.array([run.bill.cost_usd for run in runs])
    finished = np.array([run.finished for run in runs])
    objective = problem.objective
    return Rehearsal(
        jct_s=jct_s,
        cost_usd=cost_usd,
        finished=finished,
        estimate=Estimate(
            jct_s=jct_s[finished],
            cost_usd=cost_usd[finished],
            stages=tuple(_stages(problem, [run for run in runs if run.finished])),
        ),
        events=sum(run.events for run in runs),
        leaked_nodes=sum(run.leaked_nodes for run in runs),
        lost_trials=sum(run.lost_trials for run in runs),
        failed_trials=sum(trial.phase is TrialPhase.FAILED for run in runs for trial in run.state.trials.values()),
        kills=sum(run.kills for run in runs),
        deadline_met_fraction=_within(jct_s, finished, objective.deadline_s if objective else None),
        within_budget_fraction=_within(cost_usd, finished, objective.budget_usd if objective else None),
    )


def _within(values: NDArray[np.float64], finished: NDArray[np.bool_], limit: float | None) -> float | None:
    if limit is None:
        return None
    return float(np.mean(finished & (values <= limit + 1e-9 * max(1.0, limit))))


def _stages(problem: Problem, runs: Sequence[RehearsedRun]) -> Sequence[StageEstimate]:
    """The stages of the runs, in the order in which `simulate` has them."""
    stages = []
    for chain, own in enumerate(problem.experiment.chains):
        for stage in range(len(own)):
            of_runs = [
                next(cost for cost in run.bill.stages if (cost.chain, cost.stage) == (chain, stage)) for run in runs
            ]
            stages.append(
                StageEstimate(
                    chain=chain,
                    stage=stage,
                    start_s=np.array([cost.start_s for cost in of_runs]),
                    end_s=np.array([cost.end_s for cost in of_runs], dtype=np.float64),
                    cost_usd=np.array([cost.cost_usd for cost in of_runs]),
                    idle_fraction=np.array([cost.idle_fraction for cost in of_runs]),
                )
            )
    return stages
