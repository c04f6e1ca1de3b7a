"""What the shell offers for an option or argument: run ids, and names that plugins gave. Imports nothing heavy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from rb_plugins.manager import Manager

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the runs that are kept here, the latest first; files once a path has been begun."""
    from rb_plugins.rundir import home

    if "/" in incomplete or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="dir")]
    try:
        found = sorted((home() / "runs").iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []
    return _beginning(incomplete, (path.name for path in found))


def _named(names: Callable[[Manager], Iterable[str]]) -> Completer:
    def offered(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from rb_core.errors import RubberBandError
        from rb_plugins.manager import make_manager

        with quiet():
            try:
                return _beginning(incomplete, sorted(names(make_manager())))
            except RubberBandError:  # told of by the command itself
                return []

    return offered


planners = _named(lambda manager: manager.planners())
"""Names of planners."""

launchers = _named(lambda manager: manager.launchers())
"""Names of launchers."""

providers = _named(lambda manager: manager.providers())
"""Names of providers."""

estates = _named(lambda manager: manager.estates())
"""Names of providers whose accounts can be looked at."""

catalogs = _named(lambda manager: manager.price_books())
"""Names of catalogues."""


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing be logged: the shell would show it amid the line that is being typed."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
