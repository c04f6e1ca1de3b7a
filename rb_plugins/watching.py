"""The command `status`: all runs, or one run, now or until it ends. It changes nothing and locks nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rb_plugins import completing
from rb_plugins.command import FILE, command, open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rb_core.ports import Clock
    from rb_plugins.rundir import RunDirectory
    from rb_plugins.session import Session
    from rb_plugins.watched import Watched

metrics_option = click.option(
    "--metrics", type=FILE, metavar="FILE", default=None, help="Also write metrics for Prometheus into FILE."
)


@command
@click.argument("run_", metavar="[RUN]", required=False, shell_complete=completing.runs)
@click.option("--follow", is_flag=True, help="Go on until the run ends: RUN, else the latest that is alive.")
@metrics_option
def status(run_: str | None, follow: bool, metrics: Path | None, as_json: bool) -> None:
    """Tell how RUN (an id, the beginning of one, or a path) goes, or list all runs. Touches none of them.

    With --follow the exit status is that of the run. With --follow and --json each event is one line of JSON, as it
    stands in the log, and the last line is what --json prints without --follow.
    """
    from rb_plugins.rundir import RunDirectory

    if metrics is not None:
        from rb_plugins.metrics import check_metrics_file

        check_metrics_file(metrics)
    session = open_session()
    if follow:
        sys.exit(_follow(_followed(session, run_), session.clock, metrics, as_json))
    if run_ is None:
        _list(session, metrics, as_json)
    else:
        _one(RunDirectory.find(session.directory, run_), session.clock, metrics, as_json)


def _list(session: Session, metrics: Path | None, as_json: bool) -> None:
    from rb_plugins import show
    from rb_plugins.rundir import RunDirectory
    from rb_plugins.standings import runs_answer, runs_table
    from rb_plugins.watched import Watch

    seen = [Watch(directory, session.clock, whole=False).look() for directory in RunDirectory.all(session.directory)]
    # Newest first; of one whose log cannot be read the id tells nothing of the time.
    runs = sorted(seen, key=lambda w: (w.started.utc if w.started else "", w.directory.run), reverse=True)
    _write(runs, metrics)
    if as_json:
        show.answer(runs_answer(runs))
    elif runs:
        show.table(runs_table(runs))
        show.line("more on one of them: rb-tune status RUN")
    else:
        show.line(f"there is no run in {session.directory / 'runs'} yet; `rb-tune run` begins one")


def _one(directory: RunDirectory, clock: Clock, metrics: Path | None, as_json: bool) -> None:
    from rb_plugins import show
    from rb_plugins.standings import run_answer
    from rb_plugins.watched import Watch

    watched = Watch(directory, clock).look()
    _write([watched], metrics)
    if as_json:
        show.answer(run_answer(watched))
    else:
        _show(watched)
    _check_read(watched)


def _follow(directory: RunDirectory, clock: Clock, metrics: Path | None, as_json: bool) -> int:
    from rb_plugins import show
    from rb_plugins.following import exit_status, follow
    from rb_plugins.metrics import WRITE_EVERY_S

    shown = _as_lines if as_json else _drawn if sys.stdout.isatty() else _as_words
    watched, written_s = None, None
    try:
        for watched in shown(follow(directory, clock)):
            if written_s is None or clock.now() - written_s >= WRITE_EVERY_S:
                _write([watched], metrics)
                written_s = clock.now()
    except KeyboardInterrupt:
        show.note(f"no longer watched; run {directory.run} goes on without that")
        return 130
    if watched is None:
        return 1
    _write([watched], metrics)
    _check_read(watched)
    return exit_status(watched)


def _as_lines(looks: Iterator[Watched]) -> Iterator[Watched]:
    """Each event as it stands in the log, and the run's state at the end."""
    from rb_core.eventlog import line
    from rb_plugins import show
    from rb_plugins.standings import run_answer

    watched = None
    for watched in looks:
        for event in watched.events:
            show.line(line(event).rstrip("\n"))
        yield watched
    if watched is not None:
        show.record(run_answer(watched))


def _as_words(looks: Iterator[Watched]) -> Iterator[Watched]:
    """A line for each event that matters to people, and how the run ended."""
    from rb_plugins import show
    from rb_plugins.standings import headline

    watched = None
    for watched in looks:
        for words in watched.said:
            show.line(words)
        yield watched
    if watched is not None:
        for words in headline(watched):
            show.line(words)


def _drawn(looks: Iterator[Watched]) -> Iterator[Watched]:
    """Everything, drawn anew at each look."""
    from rb_plugins import show
    from rb_plugins.standings import headline, run_tables

    with show.live() as draw:
        for watched in looks:
            draw(headline(watched), list(run_tables(watched)))
            yield watched


def _show(watched: Watched) -> None:
    from rb_plugins import show
    from rb_plugins.standings import headline, run_tables

    for table in run_tables(watched):
        show.table(table)
    for line in headline(watched):
        show.line(line)


def _check_read(watched: Watched) -> None:
    from rb_core.condition import Condition
    from rb_core.errors import UnusableLog

    if watched.condition is Condition.UNREADABLE:
        raise UnusableLog(watched.reason)


def _followed(session: Session, reference: str | None) -> RunDirectory:
    from rb_core.errors import InvalidInput
    from rb_plugins.following import to_follow
    from rb_plugins.rundir import RunDirectory

    if reference is not None:
        return RunDirectory.find(session.directory, reference)
    directory = to_follow(RunDirectory.all(session.directory), session.clock)
    if directory is None:
        raise InvalidInput("RUN", f"there is no run in {session.directory / 'runs'} yet; `rb-tune run` begins one")
    return directory


def _write(runs: list[Watched], metrics: Path | None) -> None:
    if metrics is not None:
        from rb_plugins.metrics import write_metrics

        write_metrics(runs, metrics)
