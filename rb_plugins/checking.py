"""The command `check`: what of a run would fail, said before anything is rented."""

from __future__ import annotations

from pathlib import Path

import click

from rb_plugins import completing
from rb_plugins.command import FILE, command, open_session


@command
@click.argument("experiment", type=FILE)
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
def check(experiment: Path, planner: str | None, launcher: str | None, as_json: bool) -> None:
    """Say in advance what of the EXPERIMENT file's run would fail; changes nothing and costs nothing.

    The training function is imported, as a run does it, and not called.

    Exit status 2 when something would, 0 otherwise: a warning is what may fail, or could not be found out.
    """
    from rb_core.inspection import UnreadyRun, Verdict
    from rb_plugins import show
    from rb_plugins.forecast import DEFAULT_PLANNER
    from rb_plugins.preflight import findings_answer, findings_table, look_ahead
    from rb_plugins.terms import Options

    session = open_session()
    tuning = Options(launcher=launcher).of(session.load_tuning(experiment))
    found = look_ahead(session, tuning, planner=DEFAULT_PLANNER if planner is None else planner)
    if as_json:
        show.answer(findings_answer(found))
    else:
        show.table(findings_table(found))
    problems = [finding for finding in found if finding.verdict is Verdict.PROBLEM]
    if problems:
        raise UnreadyRun(problems)
