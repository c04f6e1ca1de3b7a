"""What all commands of `rb-tune` share: the group, common options, errors as exit statuses, signals, the session."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rb_plugins.session import Session

FILE = click.Path(path_type=Path)
"""The type of options and arguments that are files."""


def check_html(path: Path | None) -> None:
    """Refuse, before anything begins, a page that could not be written.

    Args:
        path: where it is asked for; None where it is not.

    Raises:
        InvalidInput: the file cannot be written.
    """
    if path is not None:
        from rb_plugins.page.pages import check_page

        check_page(path)


class _Commands(click.Group):
    """The commands; an error of how one was called says what to do next."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _usage():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _usage():
            return super().invoke(ctx)


@contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        called = "rb-tune" if error.ctx is None else error.ctx.command_path
        said = error.format_message().rstrip(".")
        if not said.endswith("?"):  # "Did you mean ...?" is a remedy
            said = f"{said}; `{called} --help` says what it takes"
        raise click.UsageError(said, ctx=error.ctx) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rubberband-tune")
def main() -> None:
    """Elastic hyperparameter tuning: time and cost before anything runs, and no idle nodes while it does.

    Exit status: 0 done, 1 the run failed, 2 bad usage or input, 3 no feasible plan, 4 vetoed or over budget,
    130 interrupted.
    """


def command(function: Callable[..., None]) -> click.Command:
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

    show.prepare()
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
    except Exception as error:
        if debug:
            raise
        show.note(f"error: this is a fault of rb-tune itself: {type(error).__name__}: {error}; --debug shows where")
        sys.exit(1)


def open_session() -> Session:
    """A session with all installed plugins."""
    from rb_plugins.session import Session

    return Session()
