"""The rows of the table: what comes of a plan in the world as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from known import deadline_of

from rb_core.ledger import ledger
from rb_core.planners.objective import loosened
from rb_core.sim.rehearsal import RehearsedRun, rehearse_once

from .cases import Case

RUNNERS: Mapping[str, str] = {"informed": "informed", "kept": "exact", "replanned": "exact", "static": "static"}
"""Who runs the job, and who planned it. `informed`: planned from what is true, the plan kept. `kept`: planned from what
is believed, the plan kept. `replanned`: the same, and planned anew as the run goes. `static`: on the best static
cluster, or one for each bracket, by what is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case in the hands of one who runs it.

    Attributes:
        experiment: its name.
        deadline_factor: the deadline as a multiple of the time of the fastest plan.
        wrong: what is wrong in what is believed.
        factor: how far.
        runner: who runs it.
        seeds: how many, from 0 on.
        deadline_s: the deadline.
        cost_usd: mean of the bills at true prices; None where no plan was found, by what is believed.
        against_informed: how many times what `informed` pays for the same seeds.
        jct_s: mean end.
        late: share of the runs that ended after the deadline, or not at all.
        latest: the latest end, as a multiple of the deadline.
        changes: mean number of changes of the plan.
    """

    experiment: str
    deadline_factor: float
    wrong: str
    factor: float
    runner: str
    seeds: int
    deadline_s: float
    cost_usd: float | None
    against_informed: float | None
    jct_s: float | None
    late: float | None
    latest: float | None
    changes: float | None


def rows_of(case: Case, seeds: int) -> list[Row]:
    """One row for each of `RUNNERS`.

    Args:
        case: which.
        seeds: how many where something varies; one run tells all elsewhere.
    """
    count = seeds if case.wrong == "noise" else 1
    runs = {runner: _runs(case, runner, count) for runner in RUNNERS}
    informed_usd = float(np.mean([_usd(case, run) for run in runs["informed"]]))
    return [_row(case, runner, own, count, informed_usd) for runner, own in runs.items()]


def _runs(case: Case, runner: str, seeds: int) -> Sequence[RehearsedRun]:
    plan = case.plan(RUNNERS[runner])
    if plan is None:
        return ()
    believed = case.true if runner == "informed" else case.believed
    return [
        rehearse_once(believed, plan, seed=seed, truth=case.true, replan=runner == "replanned") for seed in range(seeds)
    ]


def _row(case: Case, runner: str, runs: Sequence[RehearsedRun], seeds: int, informed_usd: float) -> Row:
    deadline_s = deadline_of(case.true)
    jct_s = np.array([run.state.jct_s for run in runs])
    usd = float(np.mean([_usd(case, run) for run in runs])) if runs else None
    late = [not run.finished or run.state.jct_s > loosened(deadline_s) for run in runs]
    return Row(
        experiment=case.experiment,
        deadline_factor=case.deadline_factor,
        wrong=case.wrong,
        factor=case.factor,
        runner=runner,
        seeds=seeds,
        deadline_s=deadline_s,
        cost_usd=usd,
        against_informed=usd / informed_usd if usd is not None else None,
        jct_s=float(jct_s.mean()) if runs else None,
        late=float(np.mean(late)) if runs else None,
        latest=float(jct_s.max()) / deadline_s if runs else None,
        changes=float(np.mean([len(run.state.replans) for run in runs])) if runs else None,
    )


def _usd(case: Case, run: RehearsedRun) -> float:
    """The bill at true prices; the run's own has those that were believed."""
    cloud = case.true.cloud
    nodes = {
        name: replace(node, usd_per_hour=cloud.instance_type(node.instance_type).usd_per_hour)
        for name, node in run.state.nodes.items()
    }
    return ledger(replace(run.state, nodes=nodes), cloud).cost_usd
