"""The commands that plan and spend nothing: `plan`, `pareto`, `size`, `simulate` and `rehearse`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rb_plugins import completing
from rb_plugins.command import FILE, check_html, command, open_session

if TYPE_CHECKING:
    from rb_plugins.forecast import Forecast


@command
@click.argument("problem", type=FILE)
@click.option(
    "--planner",
    default=None,
    help="Name of the planner; `rb-tune plugins` lists them.",
    shell_complete=completing.planners,
)
@click.option("--samples", type=int, default=1000, show_default=True, help="Samples of the plan's time and cost.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--explain", is_flag=True, help="Say where every second and dollar goes, and what would change it.")
@click.option("--html", type=FILE, default=None, help="Also write the plan as a page into this file.")
def plan(
    problem: Path, planner: str | None, samples: int, seed: int, explain: bool, html: Path | None, as_json: bool
) -> None:
    """Plan the PROBLEM file: time and cost of the best plan, beside a fixed cluster's."""
    from rb_plugins import show
    from rb_plugins.forecast import DEFAULT_PLANNER

    check_html(html)
    session = open_session()
    planned = session.plan(
        session.load_problem(problem, objective=True),
        planner=DEFAULT_PLANNER if planner is None else planner,
        samples=samples,
        seed=seed,
    )
    explained = session.explain(planned) if explain else None
    if html is not None:
        from rb_plugins.page.pages import plan_page

        plan_page(planned, html, problem=problem, samples=samples, seed=seed)
    if as_json:
        notes = {"notes": session.notes} if session.notes else {}
        show.answer({**planned.table(), **({"explain": explained.table()} if explained else {}), **notes})
        return
    for note in session.notes:
        show.note(note)
    show_plan(planned)
    if explained:
        for table in explained.tables():
            show.table(table)
        for line in explained.lines():
            show.line(line)


@command
@click.argument("problem", type=FILE)
@click.option("--picture", type=FILE, default=None, help="Draw the front into this file, .svg or .png.")
def pareto(problem: Path, picture: Path | None, as_json: bool) -> None:
    """List all plans of the PROBLEM that none beats in both time and cost."""
    from rb_core.report import front_table
    from rb_plugins import forecast, show
    from rb_plugins.picture import Picture, check_picture

    if picture is not None:
        check_picture(picture)
    session = open_session()
    loaded = session.load_problem(problem)
    candidates = session.pareto(loaded)
    drawn = not as_json or picture is not None
    marks = session.marks(loaded) if drawn else {}
    pictured = Picture(front=[(c.jct_s, c.cost_usd) for c in candidates], marks=marks)
    if picture is not None:
        pictured.write(picture)
    if as_json:
        show.answer(forecast.front_table(loaded, candidates))
        return
    show.table(front_table(loaded, [(c.jct_s, c.cost_usd, c.plan(loaded)) for c in candidates]))
    show.line(pictured.text())


@command
@click.argument("problem", type=FILE)
@click.option("--R", "longest", type=int, required=True, help="Iterations of the longest trials; Hyperband's most.")
@click.option("--eta", type=int, required=True, help="One trial in so many goes on.")
@click.option("--r", "first", type=int, default=1, show_default=True, help="Iterations of the first rung.")
@click.option("--kind", type=click.Choice(["successive_halving", "hyperband"]), default="successive_halving")
@click.option("--rungs", type=click.Choice(["cumulative", "incremental"]), default="cumulative", show_default=True)
@click.option("--deadline", default=None, help="Such as 90s, 45m or 2h; the problem's by default.")
@click.option("--budget", type=float, default=None, help="In usd; the problem's by default.")
@click.option("--confidence", type=float, default=None, help="Wanted probability of keeping both limits.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def size(
    problem: Path,
    longest: int,
    eta: int,
    first: int,
    kind: str,
    rungs: str,
    deadline: str | None,
    budget: float | None,
    confidence: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """How much can be tried by a deadline within a budget, with the profile and the cloud of the PROBLEM file."""
    from rb_core.report import size_line, sizes_table
    from rb_plugins import show
    from rb_plugins.sized import asked_family, asked_purse, sizes_answer

    session = open_session()
    loaded = session.load_problem(problem)
    experiments = asked_family(kind=kind, longest=longest, eta=eta, first=first, rungs=rungs)
    purse = asked_purse(loaded, deadline=deadline, budget=budget, confidence=confidence)
    told = session.size(loaded, experiments, purse, seed=seed)
    if as_json:
        show.answer(sizes_answer(loaded, told))
        return
    show.table(sizes_table(told))
    show.line(size_line(loaded, told))


@command
@click.argument("problem", type=FILE)
@click.option("--plan", "plan_file", type=FILE, required=True, help="A plan file; only its stages are needed.")
@click.option("--samples", type=int, default=1000, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def simulate(problem: Path, plan_file: Path, samples: int, seed: int, as_json: bool) -> None:
    """Sample how long the PROBLEM takes under a plan, and what it costs."""
    from rb_core.report import plan_table
    from rb_plugins import show
    from rb_plugins.config.plan import load_plan
    from rb_plugins.config.problem import fingerprint
    from rb_plugins.forecast import estimate_table

    session = open_session()
    loaded = session.load_problem(problem)
    read = load_plan(plan_file, loaded)
    if read.fingerprint and read.fingerprint != fingerprint(loaded):
        show.note(f"warning: {plan_file} was made for another problem; it fits this one and is simulated on it")
    estimate = session.simulate(loaded, read.plan, samples=samples, seed=seed)
    if as_json:
        show.answer(estimate_table(estimate))
    else:
        show.table(plan_table(loaded, read.plan, estimate))


@command
@click.argument("problem", type=FILE)
@click.option("--plan", "plan_file", type=FILE, required=True, help="A plan file; only its stages are needed.")
@click.option("--seeds", type=int, default=100, show_default=True, help="Runs, of one seed each.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the first run.")
@click.option("--faults", type=FILE, default=None, help="What goes wrong, and how often; nothing by default.")
@click.option("--curves", type=FILE, default=None, help="Recorded scores, a CSV file; synthetic ones by default.")
@click.option("--replan", is_flag=True, help="Let the engine plan the rest anew when reality differs.")
@click.option("--html", type=FILE, default=None, help="Also write the first seed's run as a page into this file.")
@click.option(
    "--events",
    is_flag=True,
    help="Print each event of the first seed's run as a line of JSON, and the answer as the last line.",
)
def rehearse(
    problem: Path,
    plan_file: Path,
    seeds: int,
    seed: int,
    faults: Path | None,
    curves: Path | None,
    replan: bool,
    html: Path | None,
    events: bool,
    as_json: bool,
) -> None:
    """Run the real engine on a simulated cloud under a plan for the PROBLEM, with faults if you like."""
    from rb_core.report import plan_table
    from rb_core.sim.invariants import BrokenInvariant
    from rb_plugins import show
    from rb_plugins.config.plan import load_plan
    from rb_plugins.rehearsed import first_events, rehearsal_answer, rehearsed, replay_command, totals_table

    check_html(html)
    session = open_session()
    loaded = session.load_problem(problem)
    read = load_plan(plan_file, loaded)
    try:
        rehearsal = rehearsed(loaded, read.plan, seeds=seeds, first=seed, faults=faults, curves=curves, replan=replan)
    except BrokenInvariant as error:
        command_line = replay_command(error.seed, problem, plan_file, faults=faults, curves=curves, replan=replan)
        error.add_note(f"this is a fault of rb-tune itself; it can be repeated with: {command_line}")
        raise
    if html is not None:
        from rb_plugins.page.pages import rehearsal_page

        rehearsal_page(
            loaded, read.plan, html, problem_file=problem, plan_file=plan_file, seed=seed, faults=faults, curves=curves,
            replan=replan,
        )  # fmt: skip
    if events:
        from rb_plugins.streaming import EventStream

        with EventStream() as stream:
            for event in first_events(loaded, read.plan, seed=seed, faults=faults, curves=curves, replan=replan):
                stream(event)
            stream.answer(rehearsal_answer(rehearsal, faulty=faults is not None))
        return
    if as_json:
        show.answer(rehearsal_answer(rehearsal, faulty=faults is not None))
        return
    if rehearsal.finished.any():
        show.table(plan_table(loaded, read.plan, rehearsal.estimate))
    show.table(totals_table(rehearsal))


def show_plan(planned: Forecast) -> None:
    """Print a plan for people, beside other ways to run it."""
    from rb_core.breakdown import promise_line
    from rb_plugins import show

    for table in planned.tables:
        show.table(table)
    lines = [planned.limit, "" if planned.promise is None else promise_line(planned.promise)]
    told = [line for line in lines if line]
    if told:
        show.line("\n".join(told) + "\n")
