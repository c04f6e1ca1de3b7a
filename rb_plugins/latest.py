"""The run that a command is about where none is named."""

from __future__ import annotations

from pathlib import Path

from rb_core.errors import InvalidInput
from rb_core.lease import living_holder
from rb_core.ports import Clock
from rb_plugins.rundir import RunDirectory
from rb_plugins.surveyed import is_profiling


def to_report(home: Path) -> RunDirectory:
    """The latest run that has begun; where none has, the latest profiling, else the latest of what is there.

    Args:
        home: where runs are kept.

    Raises:
        InvalidInput: nothing is there.
    """
    found = RunDirectory.latest(home)
    if not found:
        raise InvalidInput("RUN", f"there is no run in {home / 'runs'} yet; begin one with `rb-tune run`")
    begun = [directory for directory in found if directory.began]
    return next((directory for directory in begun if not is_profiling(directory)), (begun or found)[0])


def to_stop(home: Path, clock: Clock) -> RunDirectory:
    """The latest run or profiling that a process is at work on; where none is, as `to_report`.

    Args:
        home: where runs are kept.
        clock: the time.

    Raises:
        InvalidInput: nothing is there.
    """
    alive = (each for each in RunDirectory.latest(home) if living_holder(each.lease, clock) is not None)
    return next(alive, None) or to_report(home)
