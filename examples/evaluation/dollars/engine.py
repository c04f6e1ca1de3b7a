"""Successive halving by the engine: as large as the purse allows, planned by us or on a fixed cluster."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from curves.recordings import Pool, Recording
from curves.replay import replayed
from known import known

from dollars.purse import Bought, Purse, in_hand
from rb_core.engine.request import OnDeadline
from rb_core.errors import NoFeasiblePlan
from rb_core.plan import AllocationPlan, Objective, Policies, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.simulate import simulate
from rb_core.sizing import Family, size_up
from rb_core.sizing import Purse as SizingPurse

CONFIDENCE = 0.8
"""An experiment is taken for fitting if it keeps both limits with this probability, by the profile."""

SAMPLES = 200


def planned(
    pool: Pool, drawn: Sequence[Recording], profile: ScalingProfile, purse: Purse, *, profiling_s: float, seed: int
) -> Bought | None:
    """The largest successive halving that fits, as `rb-tune size` finds it, run as `rb-tune run` would.

    Args:
        pool: where the recordings are from, and the cloud.
        drawn: the order in which configurations are taken.
        profile: what the planner knows.
        purse: what there is to spend; profiling is paid out of it.
        profiling_s: how long that took, on one node, with its time and its money.
        seed: of all latencies.

    Returns:
        None when not even the smallest fits.
    """
    profiling_usd = profiling_s * pool.cloud.instance_types[0].usd_per_s
    budget_usd, deadline_s = purse.budget_usd - profiling_usd, purse.deadline_s - profiling_s
    if budget_usd <= 0 or deadline_s <= 0:
        return None
    base = Problem(
        experiment=pool.experiment(1),
        profile=profile,
        cloud=pool.cloud,
        policies=Policies(early_release=True),
    )
    family = Family(letter="n", make=pool.experiment, most=len(pool.recordings), factor=2)
    wanted = SizingPurse(deadline_s=deadline_s, budget_usd=budget_usd, confidence=CONFIDENCE)
    try:
        size = size_up(base, family, wanted, np.random.default_rng(seed)).largest
    except NoFeasiblePlan:
        return None
    problem = dataclasses.replace(
        base,
        experiment=size.experiment,
        objective=Objective(deadline_s=deadline_s, confidence=CONFIDENCE),
    )
    bought = _run(pool, drawn, problem, known(size.both).plan(problem), budget_usd, seed=seed, replan=True)
    return dataclasses.replace(
        bought, cost_usd=bought.cost_usd + profiling_usd, ended_s=bought.ended_s + profiling_s
    )  # fmt: skip


def on_fixed(
    pool: Pool,
    drawn: Sequence[Recording],
    profile: ScalingProfile,
    purse: Purse,
    *,
    nodes: int,
    width: int,
    seed: int,
) -> Bought | None:
    """The largest plain successive halving that fits on a cluster held from beginning to end.

    Its size is chosen by the same profile and with the same confidence, for which nothing is charged.

    Args:
        pool: where the recordings are from, and the cloud.
        drawn: the order in which configurations are taken.
        profile: what its size is chosen by.
        purse: what there is to spend.
        nodes: of the cluster.
        width: slots of each trial.
        seed: of all latencies.

    Returns:
        None when not even the smallest fits.
    """

    def posed(trials: int) -> tuple[Problem, AllocationPlan]:
        objective = Objective(deadline_s=purse.deadline_s)
        problem = Problem(experiment=pool.experiment(trials), profile=profile, cloud=pool.cloud, objective=objective)
        name = pool.cloud.instance_types[0].name
        same = StageAllocation(instance_type=name, nodes=nodes, slots_per_trial=width)
        return problem, AllocationPlan(chains=tuple((same,) * len(chain) for chain in problem.experiment.chains))

    def fits(trials: int) -> bool:
        estimate = simulate(*posed(trials), samples=SAMPLES, rng=np.random.default_rng(seed))
        kept = (estimate.jct_s <= purse.deadline_s) & (estimate.cost_usd <= purse.budget_usd)
        return float(kept.mean()) >= CONFIDENCE

    trials = largest(fits, len(pool.recordings))
    return _run(pool, drawn, *posed(trials), purse.budget_usd, seed=seed, replan=False) if trials else None


def largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to `most` that fits, where all smaller ones do, too; 0 if none does."""
    return bisect_left(range(1, most + 1), True, key=lambda number: not fits(number))


def _run(
    pool: Pool,
    drawn: Sequence[Recording],
    problem: Problem,
    plan: AllocationPlan,
    max_usd: float,
    *,
    seed: int,
    replan: bool,
) -> Bought:
    run = replayed(
        pool, problem, plan, drawn, seed=seed, replan=replan, max_usd=max_usd, on_deadline=OnDeadline.STOP
    )  # fmt: skip
    trials = run.state.trials.values()
    return in_hand(
        pool,
        drawn,
        ((trial.trial, iterations) for trial in trials for iterations in trial.scores),
        trials=len(trials),
        cost_usd=run.bill.cost_usd,
        ended_s=run.state.t_s,
    )
