"""Whether and how a run can go on: everything is looked at, and nothing is touched but the store, if there is one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rb_core.bracket import Bracket
from rb_core.engine.request import RunRequest
from rb_core.engine.resumption import resumption
from rb_core.errors import InvalidInput, UnusableLog
from rb_core.eventlog import read_log
from rb_core.events import Event, RunEnded, RunEnding
from rb_core.lease import check_free
from rb_core.ledger import cost_usd
from rb_core.plan import AllocationPlan, Problem
from rb_core.ports import Clock, Depot
from rb_core.report import duration, money
from rb_core.spec import ExperimentSpec
from rb_core.state import RunState
from rb_core.target import KEY, Target
from rb_plugins.config.plan import load_plan
from rb_plugins.config.problem import load_problem
from rb_plugins.factories import DepotFactory
from rb_plugins.late import late
from rb_plugins.logged import logged, no_books
from rb_plugins.recorded import Recorded, read_recorded, space_words, train_record
from rb_plugins.requested import run_request
from rb_plugins.rundir import RunDirectory
from rb_plugins.storing import depot_at
from rb_plugins.terms import Terms
from rb_plugins.tuning import Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumable:
    """A run that can go on.

    Attributes:
        directory: of the run.
        history: all events of its log; none of a run that was ended before it began.
        first: the problem that was planned.
        plan: the plan that it began with.
        target: the training function.
        launcher: name of the launcher.
        request: what is asked of the engine.
        spent_usd: what it has cost so far.
        late: that its deadline can no longer be kept, with what is to be expected and what can be done about it;
            empty where it can, or there is none.
    """

    directory: RunDirectory
    history: tuple[Event, ...]
    first: Problem
    plan: AllocationPlan
    target: Target
    launcher: str
    request: RunRequest
    spent_usd: float
    late: str = ""


def resumable(
    directory: RunDirectory,
    clock: Clock,
    terms: Terms,
    *,
    train: Callable[..., Any] | str | None = None,
    reread: Callable[[Path], Tuning],
    depots: Mapping[str, DepotFactory],
) -> Resumable:
    """Look at a run that is to go on.

    Args:
        directory: of the run.
        clock: the time.
        terms: what changes.
        train: the training function, or where it is; None for where it was.
        reread: reads an experiment file.
        depots: stores of checkpoints by the scheme of their addresses; that of the run is tried out.

    Raises:
        InvalidInput: it cannot go on, and why.
    """
    _check_access(directory)
    try:
        check_free(directory.lease, clock)
    except UnusableLog as error:
        raise InvalidInput("RUN", f"{error} (`rb-tune stop {directory.run}`)") from None
    recorded = read_recorded(directory)
    depot = depot_at(recorded.storage, depots)
    if depot is not None:
        depot.check()
    try:
        history = read_log(directory.events).events if directory.began else ()
        before = _at_the_end(history, directory, clock) if history else _at_the_start(directory, recorded, depot)
    except UnusableLog as error:
        raise InvalidInput("RUN", str(error)) from None
    _check_own(recorded, before, directory)
    target = _target(recorded, train)
    _check_experiment_file(recorded, before.first.experiment, reread)
    problem = replace(before.problem, objective=terms.objective(before.problem.objective))
    state = before.state
    recorded = replace(
        recorded,
        max_usd=recorded.max_usd if terms.max_usd is None else terms.max_usd,
        on_deadline=recorded.on_deadline if terms.on_deadline is None else terms.on_deadline,
        configs=tuple(
            state.trials[trial].config if trial in state.trials else config
            for trial, config in enumerate(recorded.configs)
        ),
    )
    spent_usd = cost_usd(state, problem.cloud)
    _check_limits(
        terms,
        problem,
        recorded,
        spent_usd=spent_usd,
        profiling_usd=directory.profiling_usd,
        gone_s=before.t_s - state.began_s,
    )
    request = run_request(directory, recorded, problem, before.plan, depot)
    return Resumable(
        directory=directory,
        history=history,
        first=before.first,
        plan=before.plan,
        target=target,
        launcher=recorded.launcher,
        request=request,
        spent_usd=spent_usd,
        late=late(request, before.now, state, before.t_s),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """Where a run stands.

    Attributes:
        first: as in `Resumable`.
        plan: as in `Resumable`.
        now: the plan that it stands under.
        problem: what has held so far.
        state: after all events of its log.
        t_s: seconds since it started, now.
    """

    first: Problem
    plan: AllocationPlan
    now: AllocationPlan
    problem: Problem
    state: RunState
    t_s: float


def _at_the_end(history: tuple[Event, ...], directory: RunDirectory, clock: Clock) -> _Before:
    """Where the log of a run ends."""
    told = logged(history, directory)
    if isinstance(history[-1], RunEnded) and history[-1].ending is RunEnding.DONE:
        raise InvalidInput(
            "RUN", f"run {directory.run} has come to its end; `rb-tune report {directory.run}` tells of it"
        )
    chains = told.first.experiment.chains
    brackets = {number: Bracket(chain, told.started.mode) for number, chain in enumerate(chains)}
    before = resumption(history, brackets, clock)
    return _Before(
        first=told.first,
        plan=told.plan,
        now=before.plan(told.plan),
        problem=told.problem,
        state=before.state,
        t_s=before.t_s,
    )


def _at_the_start(directory: RunDirectory, recorded: Recorded, depot: Depot | None) -> _Before:
    """What a run that was ended before its first event was to begin with."""
    storage = Path(recorded.storage)
    if depot.references() if depot is not None else storage.is_dir() and any(storage.iterdir()):
        raise UnusableLog(
            f"event log {directory.events} is empty or gone, and yet {recorded.storage} holds checkpoints of the run; "
            "restore the log as rb-tune wrote it, or start a new run"
        )
    problem = load_problem(directory.path / "problem.json", price_books=no_books)
    plan = load_plan(directory.path / "plan.json", problem).plan
    return _Before(first=problem, plan=plan, now=plan, problem=problem, state=RunState(), t_s=0.0)


def _check_own(recorded: Recorded, before: _Before, directory: RunDirectory) -> None:
    """Refuse a record that is not of the run in the log."""
    trials, state = before.first.experiment.trials, before.state
    scored = (recorded.train.metric, recorded.train.mode)
    if len(recorded.configs) != trials or (state.run and (state.metric, state.mode) != scored):
        raise InvalidInput(
            "RUN",
            f"{directory.request} and {directory.events} are not of one run; restore both as rb-tune wrote them",
        )


def _check_access(directory: RunDirectory) -> None:
    for path, wanted in ((directory.path, os.R_OK | os.W_OK | os.X_OK), (directory.events, os.R_OK | os.W_OK)):
        if path.exists() and not os.access(path, wanted, effective_ids=True):
            raise InvalidInput(
                "RUN", f"{path} cannot be written to by this user, so the run cannot be resumed; do this as its owner"
            )


def _target(recorded: Recorded, train: Callable[..., Any] | str | None) -> Target:
    if isinstance(train, str):
        return Target.parse(train)
    if train is not None:
        return Target.of(train)
    if recorded.function is None:
        raise InvalidInput(
            KEY,
            f"{recorded.train.target} was given from Python, from where no other process can take it; resume the run "
            "from there, with Session().resume(run, train=...)",
        )
    return recorded.function.target(recorded.train.target)


def _check_experiment_file(recorded: Recorded, experiment: ExperimentSpec, reread: Callable[[Path], Tuning]) -> None:
    """Refuse a file that asks for another experiment by now; one that is gone says nothing."""
    file = Path(recorded.experiment_file)
    if not recorded.experiment_file or not file.exists():
        return
    now = reread(file)
    train, before = train_record(now), recorded.train
    pairs: list[tuple[str, object, object]] = [
        (f"train.{key}", getattr(before, key), getattr(train, key)) for key in ("target", "metric", "mode", "seed")
    ]
    space = space_words(now.space)
    pairs += [(f"space.{key}", recorded.space.get(key), space.get(key)) for key in (*recorded.space, *space)]
    pairs.append(("experiment", _stages(experiment), _stages(now.experiment)))
    for key, was, is_now in pairs:
        if was != is_now:
            raise InvalidInput(
                key,
                f"has changed since the run began, from {_shown(was)} to {_shown(is_now)} in {file}; restore it, or "
                "start a new run",
            )


def _check_limits(
    terms: Terms, problem: Problem, recorded: Recorded, *, spent_usd: float, profiling_usd: float, gone_s: float
) -> None:
    objective = problem.objective
    deadline_s = None if objective is None else objective.deadline_s
    if deadline_s is not None and deadline_s <= gone_s:
        passed = f"since the run began {duration(gone_s)} have passed"
        if terms.deadline_s is not None:
            raise InvalidInput("deadline_s", f"must be later: {passed}, and a deadline counts from there")
        if recorded.on_deadline == "stop":
            raise InvalidInput(
                "deadline_s",
                f"of {duration(deadline_s)} is over: {passed}, and the run stops at its deadline; give it a later one, "
                "or let it finish (on_deadline)",
            )
    for key, so_far_usd in (("budget_usd", spent_usd), ("max_usd", spent_usd + profiling_usd)):
        limit = getattr(terms, key)
        if limit is not None and limit <= so_far_usd:
            raise InvalidInput(key, f"must be above the {money(so_far_usd)} that the run has cost so far")


def _stages(experiment: ExperimentSpec) -> list[list[str]]:
    return [[f"{stage.trials} x {stage.iterations}" for stage in chain] for chain in experiment.chains]


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return " | ".join(", ".join(map(str, chain)) for chain in value)
    return repr(value)
