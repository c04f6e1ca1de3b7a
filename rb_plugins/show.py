"""The one place that prints: tables as rich draws them on a terminal, as plain text elsewhere; JSON; errors."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

import click

from rb_core.report import Table


def table(content: Table) -> None:
    """Print a table on standard output."""
    if not sys.stdout.isatty():
        click.echo(content.text() + "\n")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console(markup=False, highlight=False)
    console.print(content.title, style="bold")
    drawn = RichTable(box=box.SIMPLE_HEAD)
    for number, column in enumerate(content.columns):
        drawn.add_column(column, justify="left" if content.is_left(number) else "right")
    for row in content.rows:
        drawn.add_row(*row)
    console.print(drawn)


def line(text: str = "") -> None:
    """Print a line on standard output."""
    click.echo(text)


def answer(content: Mapping[str, Any]) -> None:
    """Print a JSON object on standard output."""
    click.echo(json.dumps(content, indent=2))


def note(text: str) -> None:
    """Print a line on standard error."""
    click.echo(text, err=True)


def error(problem: BaseException) -> None:
    """Print an error on standard error: one line, then its details."""
    first, *more = str(problem).split("\n")
    details = [*more, *getattr(problem, "__notes__", ())]
    note(f"error: {first}" if first else f"error: {type(problem).__name__}")
    for detail in details:
        note(f"  {detail}")


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(f"{record.levelname.lower()}: {record.getMessage()}")


def log_to_standard_error() -> None:
    """Show what the libraries log, from warnings on. Idempotent."""
    for name in ("rb_core", "rb_plugins"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _Notes) for handler in logger.handlers):
            logger.addHandler(_Notes(level=logging.WARNING))
