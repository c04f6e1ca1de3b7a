"""The command `rb-tune`: reads options, calls the session, prints. Everything heavy is imported where it is used."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rb_core.hardware import Cloud
    from rb_core.target import Target
    from rb_plugins.forecast import Forecast
    from rb_plugins.outcome import Outcome
    from rb_plugins.session import Session
    from rb_plugins.tuning import Measuring, Tuning

_FILE = click.Path(path_type=Path)
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rubberband-tune")
def main() -> None:
    """Elastic hyperparameter tuning: time and cost before anything runs, and no idle nodes while it does.

    Exit status: 0 done, 1 the run failed, 2 bad usage or input, 3 no feasible plan, 4 vetoed or over budget,
    130 interrupted.
    """


def _command(function: Callable[..., None]) -> click.Command:
    """Make a command of `function`, with the options that all have and errors turned into exit statuses."""

    @functools.wraps(function)
    def guarded(*, debug: bool, **options: Any) -> None:
        with _errors(debug):
            function(**options)

    named = main.command(name=function.__name__.rstrip("_"))(guarded)
    named.params += [
        click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object and nothing else."),
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
    ]
    return named


@contextmanager
def _errors(debug: bool) -> Iterator[None]:
    from rb_core.errors import RubberBandError
    from rb_plugins import show

    show.log_to_standard_error()
    try:
        yield
    except RubberBandError as error:
        if debug:
            raise
        show.error(error)
        sys.exit(error.exit_status)
    except (KeyboardInterrupt, click.Abort):
        show.note("interrupted; nothing is held any more")
        sys.exit(130)
    except click.ClickException:
        raise
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        show.note(f"error: this is a fault of rb-tune itself: {type(error).__name__}: {error}; --debug shows where")
        sys.exit(1)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP alike end a run with everything given back, also in the background of a shell."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _session() -> Session:
    from rb_plugins.session import Session

    return Session()


@_command
@click.argument("problem", type=_FILE)
@click.option("--planner", default=None, help="Name of the planner; `rb-tune plugins` lists them.")
@click.option("--samples", type=int, default=1000, show_default=True, help="Samples of the plan's time and cost.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def plan(problem: Path, planner: str | None, samples: int, seed: int, as_json: bool) -> None:
    """Plan the PROBLEM file: time and cost of the best plan, beside a fixed cluster's."""
    from rb_plugins import show
    from rb_plugins.forecast import DEFAULT_PLANNER

    session = _session()
    planned = session.plan(
        session.load_problem(problem, objective=True),
        planner=DEFAULT_PLANNER if planner is None else planner,
        samples=samples,
        seed=seed,
    )
    if as_json:
        show.answer(planned.table())
    else:
        _show_plan(planned)


@_command
@click.argument("problem", type=_FILE)
def pareto(problem: Path, as_json: bool) -> None:
    """List all plans of the PROBLEM that none beats in both time and cost."""
    from rb_core.report import front_table
    from rb_plugins import forecast, show

    session = _session()
    loaded = session.load_problem(problem)
    candidates = session.pareto(loaded)
    if as_json:
        show.answer(forecast.front_table(loaded, candidates))
    else:
        show.table(front_table(loaded, [(c.jct_s, c.cost_usd, c.plan(loaded)) for c in candidates]))


@_command
@click.argument("problem", type=_FILE)
@click.option("--plan", "plan_file", type=_FILE, required=True, help="A plan file; only its stages are needed.")
@click.option("--samples", type=int, default=1000, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def simulate(problem: Path, plan_file: Path, samples: int, seed: int, as_json: bool) -> None:
    """Sample how long the PROBLEM takes under a plan, and what it costs."""
    from rb_core.report import plan_table
    from rb_plugins import show
    from rb_plugins.config.plan import load_plan
    from rb_plugins.config.problem import fingerprint
    from rb_plugins.forecast import estimate_table

    session = _session()
    loaded = session.load_problem(problem)
    read = load_plan(plan_file, loaded)
    if read.fingerprint and read.fingerprint != fingerprint(loaded):
        show.note(f"warning: {plan_file} was made for another problem; it fits this one and is simulated on it")
    estimate = session.simulate(loaded, read.plan, samples=samples, seed=seed)
    if as_json:
        show.answer(estimate_table(estimate))
    else:
        show.table(plan_table(loaded, read.plan, estimate))


@_command
@click.argument("target")
@click.option("--slots", default="", help="Numbers of slots to measure, such as 1,2,4; powers of two by default.")
@click.option("--budget", default=None, help="Longest time that it may take, such as 60s or 5m; 5m by default.")
@click.option("--config", "configs", multiple=True, help="A configuration as a JSON object; may be repeated.")
@click.option("--launcher", default=None, help="How processes are started; ddp by default.")
@click.option("-o", "--output", type=_FILE, default=None, help="Where the profile file goes.")
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

    session = _session()
    request = asked_to_profile(session, target, slots=slots, budget=budget, configs=configs, launcher=launcher)
    with _interruptible(), session.launcher(request.launcher, request.target) as running:
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


@_command
@click.argument("experiment", type=_FILE)
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

    session = _session()
    tuning = session.load_tuning(experiment)
    if max_usd is not None:
        tuning = dataclasses.replace(tuning, max_usd=max_usd)
    session.check(tuning, planner=DEFAULT_PLANNER if planner is None else planner)
    with _interruptible(), session.launcher(tuning.launcher, tuning.target) as launcher:
        if isinstance(tuning.profile, Measuring):
            show.note(_profiling(tuning.target, tuning.profile, tuning.cloud))
        measured = session.profile(tuning, launcher)
        for warning in getattr(measured, "warnings", ()):
            show.note(f"warning: {warning}")
        problem = session.problem(tuning, measured)
        planned = session.plan(problem, planner=DEFAULT_PLANNER if planner is None else planner, seed=tuning.seed)
        if not as_json:
            show.table(profile_table(problem.profile))
            _show_plan(planned)
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


@_command
@click.argument("run_", metavar="[RUN]", required=False)
def report(run_: str | None, as_json: bool) -> None:
    """Report on RUN (an id or a path; the latest one by default) from its log."""
    _show_outcome(_session().report(run_), as_json)


@_command
def plugins(as_json: bool) -> None:
    """List plugins, what they give, and what is wrong with them."""
    from rb_plugins import show
    from rb_plugins.listing import plugins_answer, plugins_tables

    manager = _session().manager
    if as_json:
        show.answer(plugins_answer(manager))
    else:
        for table in plugins_tables(manager):
            show.table(table)


@_command
@click.argument("name", default="ec2")
@click.option("--region", default=None, help="Only this region.")
@click.option("--market", type=click.Choice(["on_demand", "spot"]), default=None, help="Only this market.")
def catalog(name: str, region: str | None, market: str | None, as_json: bool) -> None:
    """List the instance types and prices of a catalogue (ec2 by default)."""
    from rb_plugins import show
    from rb_plugins.listing import catalog_answer, catalog_table

    book = _session().price_book(name)
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


def _show_plan(planned: Forecast) -> None:
    from rb_core.report import comparison_table, plan_table
    from rb_plugins import show

    show.table(plan_table(planned.problem, planned.plan, planned.estimate))
    show.table(comparison_table(planned.planner, planned.expected, planned.baselines, planned.lower_bound_usd))


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
