"""The commands that run, stop and report: `run`, also of a run that goes on, `stop` and `report`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rb_core.oneline import first_line
from rb_plugins import completing
from rb_plugins.command import FILE, check_html, command, open_session
from rb_plugins.consent import ask
from rb_plugins.measuring import announced, most_usd
from rb_plugins.telling import Telling
from rb_plugins.watching import metrics_option

if TYPE_CHECKING:
    from rb_core.measurement import MeasuredProfile
    from rb_core.ports import Launcher
    from rb_plugins.outcome import Outcome
    from rb_plugins.rundir import RunDirectory
    from rb_plugins.session import Session
    from rb_plugins.surveyed import Surveyed
    from rb_plugins.terms import Options
    from rb_plugins.tuning import AtDeadline, Tuning

_html = click.option(
    "--html",
    type=FILE,
    metavar="FILE",
    is_flag=False,
    flag_value=Path(),
    default=None,
    help="Also write the report as a page, into FILE or into report.html in the run's directory.",
)
STOPPING = "stopping: trials save and everything is given back; once more, and they do not save"


@command
@click.argument("experiment", type=FILE, required=False)
@click.option(
    "--resume",
    metavar="RUN",
    default=None,
    help="Go on with a run, by its id or path, instead.",
    shell_complete=completing.runs,
)
@click.option(
    "--planner",
    default=None,
    help="Name of the planner; `rb-tune plugins` lists them.",
    shell_complete=completing.planners,
)
@click.option(
    "--launcher",
    default=None,
    help="What starts trials, such as ddp or ray; the file's by default.",
    shell_complete=completing.launchers,
)
@click.option("--deadline", default=None, help="Such as 90s, 45m or 2h since the run began; the objective from now on.")
@click.option("--budget", type=float, default=None, help="In usd, for the whole run; the objective from now on.")
@click.option("--max-usd", type=float, default=None, help="Hard limit of the bill; takes the recorded one's place.")
@click.option(
    "--on-deadline",
    type=click.Choice(["finish", "stop"]),
    default=None,
    help="When the deadline has come, finish, cheaper where that takes no longer (the default), or stop.",
)
@click.option("--yes", is_flag=True, help="Do not ask before money is spent.")
@_html
@click.option("--events", is_flag=True, help="Print each event as a line of JSON, and the answer as the last line.")
@metrics_option
def run(
    experiment: Path | None,
    resume: str | None,
    planner: str | None,
    launcher: str | None,
    deadline: str | None,
    budget: float | None,
    max_usd: float | None,
    on_deadline: AtDeadline | None,
    yes: bool,
    html: Path | None,
    events: bool,
    metrics: Path | None,
    as_json: bool,
) -> None:
    """Profile, plan and run the EXPERIMENT file, or go on with a run, and report what came of it."""
    from rb_core.errors import InvalidInput
    from rb_plugins.terms import Options

    if (experiment is None) == (resume is None):
        raise InvalidInput("EXPERIMENT", "is required, or --resume RUN in its place; not both")
    options = Options(deadline=deadline, budget_usd=budget, max_usd=max_usd, on_deadline=on_deadline, launcher=launcher)
    check_html(None if html == Path() else html)
    telling = Telling(as_json=as_json, events=events, metrics=metrics)
    telling.check()
    if experiment is not None:
        _begin(experiment, options, planner=planner, yes=yes, html=html, telling=telling)
    elif planner is not None:
        raise InvalidInput("--planner", "must be left out with --resume: the run goes on with the plan that it has")
    elif resume is not None:
        _go_on(resume, options, yes=yes, html=html, telling=telling)


@command
@click.argument("run_", metavar="[RUN]", required=False, shell_complete=completing.runs)
@click.option("--timeout", default="2m", show_default=True, help="How long to wait until everything is given back.")
def stop(run_: str | None, timeout: str, as_json: bool) -> None:
    """End RUN (an id or a path; the latest that is at work by default) in another process, as its Ctrl-C does."""
    from rb_core.check import non_negative
    from rb_core.errors import UnusableLog
    from rb_core.events import SCHEMA
    from rb_plugins import show
    from rb_plugins.latest import to_stop
    from rb_plugins.terms import asked_seconds

    timeout_s = non_negative("--timeout", asked_seconds(timeout, key="--timeout"))
    session = open_session()
    directory = to_stop(session.directory, session.clock, run_)
    stopped = session.stop(str(directory.path), timeout_s=timeout_s)
    outcome: Outcome | Surveyed | None = session.surveyed(str(directory.path))
    goes_on = outcome is None
    if outcome is None:
        with suppress(UnusableLog):  # ended before it had written of its beginning
            outcome = found = session.report(str(directory.path))
            goes_on = found.resumable
    ending = "unfinished" if outcome is None else outcome.ending
    if as_json:
        show.answer({"schema": SCHEMA, "run": directory.run, "stopped": stopped is not None, "state": ending})
        return
    if stopped is None:
        show.line(f"run {directory.run} is not alive: {ending}")
    else:
        show.line(f"run {directory.run} has ended: {ending}; everything has been given back")
    if goes_on:
        show.line(_how_to_go_on(directory.run))


@command
@click.argument("run_", metavar="[RUN]", required=False, shell_complete=completing.runs)
@click.option(
    "--fetch",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    default=None,
    help="Also copy the best trial's last checkpoint into FOLDER.",
)
@_html
def report(run_: str | None, fetch: Path | None, html: Path | None, as_json: bool) -> None:
    """Report on RUN (an id or a path; the latest run by default), or on a profiling, from its log."""
    from rb_core.errors import InvalidInput
    from rb_plugins import show
    from rb_plugins.latest import to_report

    session = open_session()
    directory = to_report(session.directory, run_)
    if html is not None:
        from rb_plugins.page.document import DEFAULT_NAME

        check_html(directory.path / DEFAULT_NAME if html == Path() else html)
    run_ = str(directory.path)
    surveyed = session.surveyed(run_)
    if surveyed is not None:
        if fetch is not None:
            raise InvalidInput("--fetch", f"must be left out: profiling {surveyed.directory.run} has no checkpoints")
        _show_surveyed(surveyed, as_json)
        if html is not None:
            from rb_plugins.page.profiled import surveyed_page

            show.note(f"the page is {surveyed_page(surveyed, html)}")
        return
    outcome = session.report(run_)
    fetched = None if fetch is None else session.fetch(outcome, fetch)
    page = None
    if html is not None:
        from rb_plugins.page.pages import run_page

        page = run_page(outcome, html)
    _show_outcome(outcome, Telling(as_json=as_json))
    if fetched is not None:
        behind = outcome.best.behind if outcome.best else ""
        show.note(f"the best checkpoint is in {fetched}" + (f" ({behind})" if behind else ""))
    if page is not None:
        show.note(f"the page is {page}")


def _begin(
    experiment: Path, options: Options, *, planner: str | None, yes: bool, html: Path | None, telling: Telling
) -> None:
    from rb_core.report import profile_table
    from rb_plugins import show
    from rb_plugins.forecast import DEFAULT_PLANNER
    from rb_plugins.interrupts import interruptible
    from rb_plugins.planning import show_plan

    session = open_session()
    tuning = options.of(session.load_tuning(experiment))
    planner = DEFAULT_PLANNER if planner is None else planner
    session.check(tuning, planner=planner)
    known = session.known_profile(tuning)
    if known is None:
        ask(tuning.cloud, most_usd(session.to_measure(tuning)), yes, purpose=" on profiling")
    with interruptible(STOPPING), session.launcher(tuning.launcher, tuning.target, cloud=tuning.cloud) as launcher:
        measured = _measured(session, tuning, launcher) if known is None else known
        for warning in getattr(measured, "warnings", ()):
            show.note(f"warning: {warning}")
        problem = session.problem(tuning, measured)
        for note in session.notes:
            show.note(note)
        planned = session.plan(problem, planner=planner, seed=tuning.seed)
        if not telling.machine:
            show.table(profile_table(problem.profile, measured=known is None))
            show_plan(planned)
        session.veto(planned, max_usd=tuning.max_usd, spent_usd=getattr(measured, "usd", 0.0))
        ask(tuning.cloud, planned.expected[1], yes)
        directory = session.create(tuning, planned, measured, options=["--planner", planner, *options.words()])
        show.note(f"run {directory.run} in {directory.path}")
        with _paged(directory, html), telling.told(directory, session.clock) as observers:
            outcome = session.run(
                tuning, planned, launcher, directory=directory, observers=observers, progress=True
            )  # fmt: skip
    _tell(outcome, telling)


def _measured(session: Session, tuning: Tuning, launcher: Launcher) -> MeasuredProfile:
    from rb_plugins import show

    request = session.to_measure(tuning)
    show.note(announced(request))
    return session.measure(request, launcher)


def _go_on(reference: str, options: Options, *, yes: bool, html: Path | None, telling: Telling) -> None:
    from rb_core.expectation import expected
    from rb_plugins import show
    from rb_plugins.driving import at_work
    from rb_plugins.interrupts import interruptible
    from rb_plugins.terms import named_options

    session = open_session()
    with named_options():
        going = session.resumable(reference, options.terms())
    if going.late:
        show.note(f"warning: {going.late}")
    ask(going.first.cloud, max(0.0, expected(going.first, going.plan)[1] - going.spent_usd), yes)
    launcher = session.launcher(going.launcher, going.target, cloud=going.request.problem.cloud)
    with (
        interruptible(STOPPING),
        _paged(going.directory, html),
        telling.told(going.directory, session.clock) as observers,
        at_work(going.directory, session.clock) as log,
        launcher as entered,
    ):
        show.note(f"run {going.directory.run} in {going.directory.path}")
        outcome = session.go_on(going, entered, observers=observers, progress=True, log=log)
    _tell(outcome, telling)


@contextmanager
def _paged(directory: RunDirectory, html: Path | None) -> Iterator[None]:
    """Write the page of a run when it ends, however it does; a page that fails leaves the run as it is."""
    from rb_plugins import show
    from rb_plugins.outcome import read_outcome

    try:
        yield
    finally:
        if html is not None and directory.began:
            from rb_plugins.page.pages import run_page

            try:
                show.note(f"the page is {run_page(read_outcome(directory), html)}")
            except Exception as error:
                again = f"`rb-tune report {directory.run} --html`"
                show.note(f"warning: the page was not written ({error}); {again} tries it again")


def _show_surveyed(surveyed: Surveyed, as_json: bool) -> None:
    from rb_plugins import show

    if as_json:
        show.answer(surveyed.table())
        return
    show.table(surveyed.types_table())
    for line in surveyed.lines():
        show.line(line)


def _tell(outcome: Outcome, telling: Telling) -> None:
    """Show what became of a run; the exit status is the run's also where nothing can be shown any more."""
    from rb_plugins import show

    try:
        _show_outcome(outcome, telling)
    except show.UnwritableOutput as lost:
        show.note(f"warning: {lost}; `rb-tune report {outcome.state.run}` tells it again")


def _show_outcome(outcome: Outcome, telling: Telling) -> None:
    from rb_core.report import bill_table, duration, money, outcome_table, trials_table
    from rb_plugins import show

    if outcome.missed and telling.machine:  # people are told by the verdict
        show.note(f"warning: {outcome.missed}")
    if telling.as_json and not telling.events:
        show.answer(outcome.table())
    if telling.machine:
        return
    show.table(outcome_table(outcome.estimate, outcome.state, outcome.bill))
    if outcome.bill.cost_usd:
        show.table(bill_table(outcome.bill, outcome.problem.cloud.prices))
    show.table(trials_table(outcome.state))
    reason = first_line(outcome.state.reason)
    show.line(f"run {outcome.state.run}: {outcome.ending}" + (f" ({reason})" if reason else ""))
    if outcome.verdict:
        show.line(outcome.verdict)
    if outcome.holder is not None:
        show.line(f"{outcome.holder} is at work on it; `rb-tune stop {outcome.state.run}` ends it")
    elif outcome.ending == "failed" and outcome.resumable:
        show.line(f"once its cause is out of the way: rb-tune run --resume {outcome.state.run}")
    elif outcome.resumable:
        show.line(_how_to_go_on(outcome.state.run))
    cost = f" and cost {money(outcome.profiling_usd)}" if outcome.profiling_usd else ""
    show.line(f"profiling took {duration(outcome.profiling_s)}{cost} beforehand")
    best = outcome.best
    if best is not None:
        show.line(
            f"best {outcome.state.metric} {best.score:.6g} after {best.iterations} iterations: trial {best.trial}"
        )
        for name, value in best.config.items():
            show.line(f"  {name} = {value!r}")
        show.line(f"  checkpoint: {best.checkpoint or 'none'}" + (f" ({best.behind})" if best.behind else ""))


def _how_to_go_on(run: str) -> str:
    return f"go on with it: rb-tune run --resume {run}"
