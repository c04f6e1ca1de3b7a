"""The pages that commands write: of a run, of a plan, and of a rehearsal's first run."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np

from rb_core.eventlog import read_log
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.objective import resolve
from rb_core.sim.faults import Faults
from rb_core.sim.recorded import RecordedCurves
from rb_core.sim.rehearsal import rehearsed_log
from rb_core.simulate import simulate
from rb_plugins.config.faults import load_faults
from rb_plugins.forecast import DEFAULT_SAMPLES, Forecast
from rb_plugins.outcome import Outcome
from rb_plugins.page.document import write
from rb_plugins.page.sources import story_of_log, story_of_plan, story_of_rehearsal

DEFAULT_NAME = "report.html"
"""Name of a run's page in its directory."""


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
    file = str(directory.read(directory.request.name).get("experiment_file", ""))
    command = (("command", shlex.join(["rb-tune", "run", file])),) if file else ()
    story = story_of_log(
        read_log(directory.events).events, problem=outcome.problem, estimate=outcome.estimate, repeat=command
    )
    write(story, path)
    return path


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
    write(story_of_plan(planned, name=problem.name, repeat=(("command", command),)), path)


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
    history = rehearsed_log(
        resolved,
        plan,
        seed=seed,
        faults=Faults() if faults is None else load_faults(faults),
        curves=None if curves is None else RecordedCurves.read(curves),
        replan=replan,
    )
    words = ["rb-tune", "rehearse", str(problem_file), "--plan", str(plan_file), "--seeds", "1", "--seed", str(seed)]
    for option, file in (("--faults", faults), ("--curves", curves)):
        words += [] if file is None else [option, str(file)]
    story = story_of_rehearsal(
        resolved,
        plan,
        simulate(resolved, plan, samples=DEFAULT_SAMPLES, rng=np.random.default_rng(0)),
        history,
        name=problem_file.name,
        repeat=(("command", shlex.join([*words, "--replan"] if replan else words)),),
    )
    write(story, path)
