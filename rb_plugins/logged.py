"""What the log of a run says that was asked for and planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rb_core.errors import InvalidInput, UnusableLog
from rb_core.events import Event, RunResumed, RunStarted
from rb_core.hardware import PriceBook
from rb_core.plan import AllocationPlan, Problem
from rb_plugins.config.plan import read_plan
from rb_plugins.config.problem import read_problem
from rb_plugins.rundir import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A run by its log.

    Attributes:
        started: its first event.
        first: the problem that was planned.
        plan: the plan that it began with.
        problem: the problem that holds now: a resumed run may have another objective.
    """

    started: RunStarted
    first: Problem
    plan: AllocationPlan
    problem: Problem


def no_run(directory: RunDirectory) -> UnusableLog:
    """The error of a log that begins with something else than the start of a run."""
    return UnusableLog(
        f"event log {directory.events} holds no run: it must begin with the start of one; restore it as rb-tune "
        "wrote it, or name another run"
    )


def logged(events: Sequence[Event], directory: RunDirectory) -> Logged:
    """What these events say.

    Args:
        events: all of a log.
        directory: of the run.

    Raises:
        UnusableLog: they do not begin with the start of a run, or problem or plan are not whole.
    """
    if not events or not isinstance(events[0], RunStarted):
        raise no_run(directory)
    started = events[0]
    latest = next((e for e in reversed(events) if isinstance(e, RunResumed)), started)
    try:
        first = _problem(started.problem, directory)
        return Logged(
            started=started,
            first=first,
            plan=read_plan(started.plan, first).plan,
            problem=first if latest is started else _problem(latest.problem, directory),
        )
    except InvalidInput as error:
        raise UnusableLog(
            f"event log {directory.events}: the run's problem or plan is not whole: {error}; restore the file as "
            "rb-tune wrote it"
        ) from None


def _problem(table: Mapping[str, Any], directory: RunDirectory) -> Problem:
    return read_problem(table, folder=directory.path, price_books=no_books)


def no_books(name: str, /, *, region: str, instance_types: Sequence[str]) -> PriceBook:
    """Where catalogues come from in the files of a run, which name none: its problem was resolved before."""
    raise InvalidInput("catalog", f"is not resolved: {name!r}; report on the run where it was begun")
