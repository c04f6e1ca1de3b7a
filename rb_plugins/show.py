"""The one place that prints: tables as rich draws them on a terminal, as plain text elsewhere; JSON; errors."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

import click

from rb_core.errors import RubberBandError

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from rb_core.report import Table


class UnwritableOutput(RubberBandError):
    """What was to be printed could not be, and somebody waits for it."""

    remedy: ClassVar[str] = "make room there, or let it go elsewhere; what was done stands, see `rb-tune status`"


def prepare() -> None:
    """Make the standard streams safe to use. Idempotent.

    One that was closed goes nowhere, so that no file takes its number; what an encoding has no letter for is shown as
    an escape; what the libraries log is shown, from warnings on.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for name in ("rb_core", "rb_plugins"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _Notes) for handler in logger.handlers):
            logger.addHandler(_Notes(level=logging.WARNING))


def silence(output: TextIO) -> None:
    """Let what is still in the buffers go nowhere, or the interpreter would fail on it when it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def _print(text: str) -> None:
    """Print on standard output. A reader that has gone away is no error: it has read what it wanted."""
    try:
        click.echo(text)
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        raise UnwritableOutput(f"standard output cannot be written: {error.strerror}") from None


def table(content: Table) -> None:
    """Print a table on standard output."""
    if not sys.stdout.isatty():
        _print(content.text() + "\n")
        return
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    console.print(content.title, style="bold")
    console.print(_rich(content))


@contextmanager
def live() -> Iterator[Callable[[Sequence[str], Sequence[Table]], None]]:
    """Draw lines and tables on a terminal in the place of those that were drawn before; the last ones stay."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(markup=False, highlight=False)
    with Live(console=console, auto_refresh=False) as drawn:

        def draw(lines: Sequence[str], tables: Sequence[Table]) -> None:
            parts = [part for content in tables for part in (Text(content.title, style="bold"), _rich(content))]
            drawn.update(Group(*map(Text, lines), *parts), refresh=True)

        yield draw


def _rich(content: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD)
    for number, column in enumerate(content.columns):
        drawn.add_column(column, justify="left" if content.is_left(number) else "right")
    for row in content.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def line(text: str = "") -> None:
    """Print a line on standard output."""
    _print(text)


def answer(content: Mapping[str, Any]) -> None:
    """Print a JSON object on standard output."""
    _print(json.dumps(content, indent=2))


def record(content: Mapping[str, Any]) -> None:
    """Print a JSON object as one line on standard output."""
    _print(json.dumps(content))


def note(text: str) -> None:
    """Print a line on standard error; where that cannot be written nothing is said, and the work goes on."""
    try:
        click.echo(text, err=True)
    except (OSError, ValueError):
        silence(sys.stderr)


def error(problem: BaseException) -> None:
    """Print an error on standard error: one line, then its details, and last what to do next."""
    first, *more = str(problem).split("\n")
    advice = getattr(problem, "advice", "")
    details = [*more, *getattr(problem, "__notes__", ()), *([advice] if advice else [])]
    note(f"error: {first}" if first else f"error: {type(problem).__name__}")
    for detail in details:
        note(f"  {detail}")


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(f"{record.levelname.lower()}: {record.getMessage()}")
