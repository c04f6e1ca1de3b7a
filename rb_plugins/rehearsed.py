"""What `rb-tune rehearse` is asked, and what it answers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.events import SCHEMA, Event
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.objective import resolve
from rb_core.report import Table, duration, money
from rb_core.sim.faults import Faults
from rb_core.sim.recorded import RecordedCurves
from rb_core.sim.rehearsal import Rehearsal, RehearsedRun, rehearse, rehearsed_log
from rb_plugins.config.faults import load_faults
from rb_plugins.forecast import estimate_table

MAX_SEEDS = 1_000_000
"""Most runs of one rehearsal."""


def rehearsed(
    problem: Problem,
    plan: AllocationPlan,
    *,
    seeds: int,
    first: int = 0,
    faults: Path | None = None,
    curves: Path | None = None,
    replan: bool = False,
    on_run: Callable[[RehearsedRun], None] | None = None,
) -> Rehearsal:
    """Rehearse a plan.

    Args:
        problem: as its file has it.
        plan: an allocation for every stage.
        seeds: how many runs.
        first: seed of the first one; the others count on from it.
        faults: a faults file.
        curves: a table of recorded curves; synthetic ones without it.
        replan: whether the engine may plan the rest anew.
        on_run: told each run.

    Raises:
        InvalidInput: a file or a number is wrong.
        BrokenInvariant: a run was not as every run must be.
    """
    if not 1 <= seeds <= MAX_SEEDS:
        raise InvalidInput("--seeds", f"must be from 1 to {MAX_SEEDS}, got {seeds}")
    recorded = None
    if curves is not None:
        recorded = RecordedCurves.read(curves)
        recorded.check(problem.experiment, "max")
    return rehearse(
        problem if problem.objective is None else resolve(problem),
        plan,
        seeds=range(first, first + seeds),
        faults=Faults() if faults is None else load_faults(faults),
        curves=recorded,
        on_run=on_run,
        replan=replan,
    )


def first_events(
    problem: Problem,
    plan: AllocationPlan,
    *,
    seed: int,
    faults: Path | None = None,
    curves: Path | None = None,
    replan: bool = False,
) -> Sequence[Event]:
    """The log of the run that `rehearsed` has with a seed. Arguments and errors as there."""
    return rehearsed_log(
        problem if problem.objective is None else resolve(problem),
        plan,
        seed=seed,
        faults=Faults() if faults is None else load_faults(faults),
        curves=None if curves is None else RecordedCurves.read(curves),
        replan=replan,
    )


def replay_command(
    seed: int, problem: Path, plan: Path, *, faults: Path | None, curves: Path | None, replan: bool
) -> str:
    """The command that repeats the run of one seed."""
    words = ["rb-tune", "rehearse", str(problem), "--plan", str(plan), "--seeds", "1", "--seed", str(seed)]
    for option, path in (("--faults", faults), ("--curves", curves)):
        if path is not None:
            words += [option, str(path)]
    return shlex.join([*words, "--replan"] if replan else words)


def rehearsal_answer(rehearsal: Rehearsal, *, faulty: bool) -> dict[str, Any]:
    """The object that `rb-tune rehearse --json` prints.

    Times and stages are of the runs that finished; they are null where none did.

    Args:
        rehearsal: what is told.
        faulty: whether faults were injected.
    """
    finished = int(rehearsal.finished.sum())
    told = (
        estimate_table(rehearsal.estimate)
        if finished
        else {"schema": SCHEMA, "jct_s": None, "cost_usd": None, "stages": []}
    )
    answer = {
        **told,
        "samples": len(rehearsal.finished),
        "finished": finished,
        "events": rehearsal.events,
        "leaked_nodes": rehearsal.leaked_nodes,
        "lost_trials": rehearsal.lost_trials,
        "failed_trials": rehearsal.failed_trials,
        "driver_kills": rehearsal.kills,
    }
    if faulty:
        answer["deadline_met_fraction"] = rehearsal.deadline_met_fraction
        answer["within_budget_fraction"] = rehearsal.within_budget_fraction
    return answer


def totals_table(rehearsal: Rehearsal) -> Table:
    """What became of all runs, for people."""
    runs = len(rehearsal.finished)
    rows = [
        ("runs", str(runs)),
        ("finished", str(int(rehearsal.finished.sum()))),
        ("deadline met", _share(rehearsal.deadline_met_fraction)),
        ("within budget", _share(rehearsal.within_budget_fraction)),
        ("mean bill", money(float(rehearsal.cost_usd.mean()))),
        ("longest", duration(float(rehearsal.jct_s.max()))),
        ("driver killed", str(rehearsal.kills)),
        ("trials failed", str(rehearsal.failed_trials)),
        ("trials lost", str(rehearsal.lost_trials)),
        ("nodes leaked", str(rehearsal.leaked_nodes)),
        ("events", str(rehearsal.events)),
    ]
    return Table(title="Rehearsal", columns=("", "total"), rows=tuple(row for row in rows if row[1]))


def _share(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction:.1%}"
