"""The run that a command is about, where one is named and where none is."""

from __future__ import annotations

from pathlib import Path

from rb_core.errors import InvalidInput
from rb_core.lease import living_holder
from rb_core.ports import Clock
from rb_plugins.rundir import RunDirectory
from rb_plugins.surveyed import is_profiling


def to_report(home: Path, reference: str | None = None) -> RunDirectory:
    """The latest run that has begun; where none has, the latest profiling, else the latest of what is there.

    Args:
        home: where runs are kept.
        reference: of the one that is meant, as of `RunDirectory.find`; None for the latest.

    Raises:
        InvalidInput: nothing is there, or not what is meant.
    """
    if reference is not None:
        return RunDirectory.find(home, reference)
    found = RunDirectory.latest(home)
    if not found:
        raise InvalidInput("RUN", f"there is no run in {home / 'runs'} yet; begin one with `rb-tune run`")
    begun = [directory for directory in found if directory.began]
    return next((directory for directory in begun if not is_profiling(directory)), (begun or found)[0])


def to_stop(home: Path, clock: Clock, reference: str | None = None) -> RunDirectory:
    """The latest run or profiling that a process is at work on; where none is, as `to_report`.

    Args:
        home: where runs are kept.
        clock: the time.
        reference: of the one that is meant; None for the latest.

    Raises:
        InvalidInput: nothing is there, or not what is meant.
    """
    if reference is not None:
        return RunDirectory.find(home, reference)
    alive = (each for each in RunDirectory.latest(home) if living_holder(each.lease, clock) is not None)
    return next(alive, None) or to_report(home)
