"""The command `rb-tune`: reads options, calls the session, prints. Everything heavy is imported where it is used.

The commands that plan are in `rb_plugins.planning`; those that measure, run, report and list are here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rb_plugins.command import FILE, command, interruptible, main, open_session
from rb_plugins.planning import show_plan

if TYPE_CHECKING:
    from rb_core.hardware import Cloud
    from rb_core.target import Target
    from rb_plugins.forecast import Forecast
    from rb_plugins.outcome import Outcome
    from rb_plugins.tuning import Measuring, Tuning

__all__ = ["main"]


@command
@click.argument("target")
@click.option("--slots", default="", help="Numbers of slots to measure, such as 1,2,4; powers of two by default.")
@click.option("--budget", default=None, help="Longest time that it may take, such as 60s or 5m; 5m by default.")
@click.option("--config", "configs", multiple=True, help="A configuration as a JSON object; may be repeated.")
@click.option("--launcher", default=None, help="How processes are started; ddp by default.")
@click.option("-o", "--output", type=FILE, default=None, help="Where the profile file goes.")
def profile(
    target: str,
    slots: str,
    budget: str | None,
    configs: tuple[str, ...],
    launcher: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Measure how TARGET scales: FILE.py:FUNCTION, package.module:FUNCTION, or an experiment file."""
    from rb_core.report import profile_table
    from rb_plugins import show
    from rb_plugins.asked import asked_to_profile
    from rb_plugins.profiling import measured_table

    session = open_session()
    request = asked_to_profile(session, target, slots=slots, budget=budget, configs=configs, launcher=launcher)
    with interruptible(), session.launcher(request.launcher, request.target) as running:
        show.note(_profiling(request.target, request.measuring, request.cloud))
        measured = session.measure(request, running)
    made = session.clock.utc().isoformat(timespec="seconds")
    table = measured_table(measured, target=request.target.name, made=made)
    if output is not None:
        _write(output, table)
    for warning in measured.warnings:
        show.note(f"warning: {warning}")
    if as_json:
        show.answer(table)
    else:
        show.table(profile_table(measured.profile))


@command
@click.argument("experiment", type=FILE)
@click.option("--planner", default=None, help="Name of the planner; `rb-tune plugins` lists them.")
@click.option("--yes", is_flag=True, help="Do not ask before money is spent.")
@click.option("--max-usd", type=float, default=None, help="Hard limit of the bill; takes the file's place.")
def run(experiment: Path, planner: str | None, yes: bool, max_usd: float | None, as_json: bool) -> None:
    """Profile, plan and run the EXPERIMENT file, and report what came of it."""
    import dataclasses

    from rb_core.errors import RubberBandError
    from rb_core.report import profile_table
    from rb_plugins import show
    from rb_plugins.forecast import DEFAULT_PLANNER
    from rb_plugins.outcome import read_outcome
    from rb_plugins.progress import Progress
    from rb_plugins.tuning import Measuring

    session = open_session()
    tuning = session.load_tuning(experiment)
    if max_usd is not None:
        tuning = dataclasses.replace(tuning, max_usd=max_usd)
    session.check(tuning, planner=DEFAULT_PLANNER if planner is None else planner)
    with interruptible(), session.launcher(tuning.launcher, tuning.target) as launcher:
        if isinstance(tuning.profile, Measuring):
            show.note(_profiling(tuning.target, tuning.profile, tuning.cloud))
        measured = session.profile(tuning, launcher)
        for warning in getattr(measured, "warnings", ()):
            show.note(f"warning: {warning}")
        problem = session.problem(tuning, measured)
        planned = session.plan(problem, planner=DEFAULT_PLANNER if planner is None else planner, seed=tuning.seed)
        if not as_json:
            show.table(profile_table(problem.profile))
            show_plan(planned)
        session.veto(planned, max_usd=tuning.max_usd)
        _ask(tuning, planned, yes)
        progress = Progress(planned, session.clock)
        directory = session.create(tuning, planned, measured)
        show.note(f"run {directory.run} in {directory.path}")
        try:
            with progress.shown():
                outcome = session.run(tuning, planned, launcher, directory=directory, observers=[progress])
        except RubberBandError:
            if as_json and directory.began:
                show.answer(read_outcome(directory).table())
            raise
    _show_outcome(outcome, as_json)


@command
@click.argument("run_", metavar="[RUN]", required=False)
def report(run_: str | None, as_json: bool) -> None:
    """Report on RUN (an id or a path; the latest one by default) from its log."""
    _show_outcome(open_session().report(run_), as_json)


@command
def plugins(as_json: bool) -> None:
    """List plugins, what they give, and what is wrong with them."""
    from rb_plugins import show
    from rb_plugins.listing import plugins_answer, plugins_tables

    manager = open_session().manager
    if as_json:
        show.answer(plugins_answer(manager))
    else:
        for table in plugins_tables(manager):
            show.table(table)


@command
@click.argument("name", default="ec2")
@click.option("--region", default=None, help="Only this region.")
@click.option("--market", type=click.Choice(["on_demand", "spot"]), default=None, help="Only this market.")
def catalog(name: str, region: str | None, market: str | None, as_json: bool) -> None:
    """List the instance types and prices of a catalogue (ec2 by default)."""
    from rb_plugins import show
    from rb_plugins.listing import catalog_answer, catalog_table

    book = open_session().price_book(name)
    if as_json:
        show.answer(catalog_answer(book, region, market))
    else:
        show.table(catalog_table(book, region, market))


def _profiling(target: Target, measuring: Measuring, cloud: Cloud) -> str:
    from rb_core.report import duration
    from rb_plugins.profiling import sizes

    slots = ", ".join(map(str, sizes(measuring, cloud)))
    return f"profiling {target.name} on {slots} slots per trial, for at most {duration(measuring.budget_s)}"


def _write(path: Path, table: Mapping[str, Any]) -> None:
    from rb_core.errors import InvalidInput
    from rb_plugins.rundir import write_json

    try:
        write_json(path, table)
    except OSError as error:
        raise InvalidInput("--output", f"{path} cannot be written: {error.strerror}") from None


def _ask(tuning: Tuning, planned: Forecast, yes: bool) -> None:
    from rb_core.errors import InvalidInput, PlanVeto
    from rb_core.report import money

    if yes or tuning.cloud.provider == "local":
        return
    if not sys.stdin.isatty():
        raise InvalidInput("--yes", "is required where nobody can be asked, because this run costs money")
    if not click.confirm(f"Spend about {money(planned.expected[1])}?", err=True):
        raise PlanVeto("none", "you answered no")


def _show_outcome(outcome: Outcome, as_json: bool) -> None:
    from rb_core.report import duration, outcome_table, trials_table
    from rb_plugins import show

    if outcome.missed:
        show.note(f"warning: {outcome.missed}")
    if as_json:
        show.answer(outcome.table())
        return
    show.table(outcome_table(outcome.estimate, outcome.state, outcome.bill))
    show.table(trials_table(outcome.state))
    show.line(
        f"run {outcome.state.run}: {outcome.ending}" + (f" ({outcome.state.reason})" if outcome.state.reason else "")
    )
    show.line(f"profiling took {duration(outcome.profiling_s)} beforehand")
    best = outcome.best
    if best is not None:
        show.line(
            f"best {outcome.state.metric} {best.score:.6g} after {best.iterations} iterations: trial {best.trial}"
        )
        for name, value in best.config.items():
            show.line(f"  {name} = {value!r}")
        show.line(f"  checkpoint: {best.checkpoint or 'none'}")
