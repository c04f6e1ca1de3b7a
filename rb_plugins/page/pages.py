"""The pages that commands write: of a run, of a plan, and of a rehearsal's first run."""

from __future__ import annotations

import dataclasses
import os
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rb_core.errors import InvalidInput
from rb_core.eventlog import read_log
from rb_core.events import Event, RunEnding
from rb_core.oneline import first_line
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.objective import resolve
from rb_core.report import duration, money
from rb_core.simulate import simulate
from rb_plugins.config.problem import problem_table
from rb_plugins.config.profile import read_profile_table
from rb_plugins.forecast import DEFAULT_SAMPLES, Forecast
from rb_plugins.logged import logged
from rb_plugins.outcome import Outcome
from rb_plugins.page.document import DEFAULT_NAME, write
from rb_plugins.page.repeating import Repeating, as_json, of_files, of_run
from rb_plugins.page.scaling import Scaling
from rb_plugins.page.sources import story_of_log, story_of_plan, story_of_rehearsal
from rb_plugins.rehearsed import first_events, replay_command
from rb_plugins.rundir import RunDirectory


def check_page(path: Path) -> None:
    """Raise `InvalidInput` when a page could not be written there, before anything begins; nothing is made."""
    problem = _unwritable(path)
    if problem:
        raise InvalidInput("--html", f"{path} {problem}; name another file")


def _unwritable(path: Path) -> str:
    """Why a page could not be written there; empty where it could."""
    try:
        found: int | None = path.stat().st_mode
    except FileNotFoundError:
        found = None
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    if found is not None and stat.S_ISDIR(found):
        return "is a folder"
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"cannot be written: there is no folder {folder}"
    # A file is put in the place of another one; a pipe or a device is written to.
    wanted = [(path, os.W_OK)] if found is not None else []
    wanted += [(folder, os.W_OK | os.X_OK)] if found is None or stat.S_ISREG(found) else []
    refused = [place for place, mode in wanted if not os.access(place, mode, effective_ids=True)]
    return f"cannot be written: {refused[0]} cannot be written to by this user" if refused else ""


def run_page(outcome: Outcome, path: Path) -> Path:
    """Write the page of a run, and return where it is.

    Args:
        outcome: the run; its log is read anew.
        path: the file; an empty one stands for `DEFAULT_NAME` in the run's directory.

    Raises:
        InvalidInput: the file cannot be written.
        UnusableLog: the log cannot be read.
    """
    directory = outcome.directory
    path = directory.path / DEFAULT_NAME if path == Path() else path
    history = read_log(directory.events).events
    standing, notice = standing_of(outcome, history)
    story = story_of_log(
        history,
        problem=outcome.problem,
        plan=logged(history, directory).plan,
        estimate=outcome.estimate,
        repeating=of_run(directory, history, outcome.problem),
        standing=standing,
        notice=notice,
        profile=_measured(directory),
    )
    if outcome.profiling_s:
        paid = money(outcome.profiling_usd) if outcome.profiling_usd else "for nothing"
        profiling = ("profiling before", duration(outcome.profiling_s), f"{paid}, not in the cost above")
        story = dataclasses.replace(story, headline=(*story.headline, profiling))
    write(story, path)
    return path


def standing_of(outcome: Outcome, history: Sequence[Event]) -> tuple[str, str]:
    """How a run ended or where it stands, in a word or two, and what is to be known of that."""
    run, state = outcome.directory.run, outcome.state
    go_on = f"`rb-tune run --resume {run}` goes on with it." if outcome.resumable else ""
    if outcome.holder is not None:
        return "running", (
            f"This run goes on: {outcome.holder} is at work on it. The page shows it as its log stood at "
            f"{history[-1].utc}; `rb-tune report {run} --html` makes it anew."
        )
    if state.ending is None:
        held = f" Nodes that were held then: {len(state.held)}." if state.held else ""
        return "cut short", (
            f"The log of this run breaks off at {history[-1].utc}, and no process is at work on it: it was killed, or "
            f"its machine went down.{held} {go_on}"
        ).rstrip()
    if state.ending is RunEnding.DONE:
        return state.ending.value, ""
    reason = (first_line(state.reason) or outcome.missed).rstrip(".")
    if state.ending is RunEnding.FAILED and go_on:
        go_on = f"Once its cause is out of the way, {go_on}"
    why = {RunEnding.FAILED: "It failed", RunEnding.INTERRUPTED: "It was stopped"}.get(state.ending, "It ended")
    return state.ending.value, f"{why}{f': {reason}' if reason else ''}. {go_on}".rstrip()


def _measured(directory: RunDirectory) -> Scaling | None:
    """The profile that was measured for a run; None where it was known before."""
    if not directory.profile.exists():
        return None
    return Scaling.measured(read_profile_table(directory.profile.name, folder=directory.path))


def plan_page(planned: Forecast, path: Path, *, problem: Path, samples: int, seed: int) -> None:
    """Write the page of a plan.

    Args:
        planned: the plan.
        path: the file.
        problem: the problem file.
        samples: of the plan's time and cost.
        seed: of the planning and the sampling.

    Raises:
        InvalidInput: the file cannot be written.
    """
    words = ["rb-tune", "plan", str(problem), "--planner", planned.planner]
    command = shlex.join([*words, "--samples", str(samples), "--seed", str(seed)])
    facts = (("command", command), ("seed", f"{seed}, of the planning and the forecast"), ("samples", str(samples)))
    repeating = Repeating(
        facts=facts,
        texts=(
            *of_files(problem),
            ("the problem with everything filled in", as_json(problem_table(planned.problem))),
            ("the plan, for `rb-tune rehearse --plan`", as_json(planned.table())),
        ),
    )
    write(story_of_plan(planned, name=problem.name, repeating=repeating), path)


def rehearsal_page(
    problem: Problem,
    plan: AllocationPlan,
    path: Path,
    *,
    problem_file: Path,
    plan_file: Path,
    seed: int,
    faults: Path | None,
    curves: Path | None,
    replan: bool,
) -> None:
    """Write the page of one rehearsed run; it is the run that `rehearse` has with that seed.

    Args:
        problem: as its file has it.
        plan: an allocation for every stage.
        path: the file.
        problem_file: where the problem is.
        plan_file: where the plan is.
        seed: of the run.
        faults: a faults file.
        curves: a table of recorded curves; synthetic ones without it.
        replan: whether the engine may plan the rest anew.

    Raises:
        InvalidInput: a file is wrong, or the page cannot be written.
    """
    resolved = problem if problem.objective is None else resolve(problem)
    history = first_events(resolved, plan, seed=seed, faults=faults, curves=curves, replan=replan)
    command = replay_command(seed, problem_file, plan_file, faults=faults, curves=curves, replan=replan)
    story = story_of_rehearsal(
        resolved,
        plan,
        simulate(resolved, plan, samples=DEFAULT_SAMPLES, rng=np.random.default_rng(0)),
        history,
        name=problem_file.name,
        repeating=Repeating(
            facts=(
                ("command", command),
                ("seed", f"{seed}, of everything that is left to chance; 0 of the forecast"),
                ("forecast", f"{DEFAULT_SAMPLES} samples"),
            ),
            texts=of_files(problem_file, plan_file, faults),
        ),
    )
    write(story, path)
