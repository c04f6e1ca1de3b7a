"""The command `rb-tune`: reads options, calls the session, prints. Everything heavy is imported where it is used.

The commands that plan are in `rb_plugins.planning` and those that run in `rb_plugins.runs`; those that measure and list
are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from rb_plugins import planning, runs
from rb_plugins.command import FILE, command, main, open_session

__all__ = ["main", "planning", "runs"]


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
    from rb_core.errors import TrialFailure
    from rb_core.report import profile_table
    from rb_plugins import show
    from rb_plugins.asked import asked_to_profile
    from rb_plugins.interrupts import interruptible
    from rb_plugins.profiling import measured_table

    session = open_session()
    request = asked_to_profile(session, target, slots=slots, budget=budget, configs=configs, launcher=launcher)
    with interruptible(), session.launcher(request.launcher, request.target) as running:
        show.note(runs.profiling(request.target, request.measuring, request.cloud))
        try:
            measured = session.measure(request, running)
        except TrialFailure as error:
            if not any(request.configs):
                error.add_note("give it a configuration: --config JSON, or an experiment file in place of the function")
            raise
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


def _write(path: Path, table: Mapping[str, Any]) -> None:
    from rb_core.errors import InvalidInput
    from rb_plugins.rundir import write_json

    try:
        write_json(path, table)
    except OSError as error:
        raise InvalidInput("--output", f"{path} cannot be written: {error.strerror}") from None
