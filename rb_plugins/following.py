"""Watching a run until it ends: what it shows meanwhile is up to the caller."""

from __future__ import annotations

from collections.abc import Iterator

from rb_core.clock import pause
from rb_core.condition import Condition
from rb_core.lease import TTL_S
from rb_core.ports import Clock
from rb_plugins.rundir import RunDirectory
from rb_plugins.watched import Watch, Watched

LOOK_EVERY_S = 0.5
"""How often a run is looked at."""

_STATUS = {Condition.DONE: 0, Condition.DEADLINE: 0, Condition.INTERRUPTED: 130}


def follow(directory: RunDirectory, clock: Clock) -> Iterator[Watched]:
    """The run at one moment after the other, until it has ended or its process is gone; the last one is its end.

    One of which nothing is written and that nobody is at work on is waited for as long as a lease is good for: it may
    be about to begin.

    Args:
        directory: of the run.
        clock: the time; it passes between two looks.
    """
    watch = Watch(directory, clock)
    until_s = clock.now() + TTL_S
    while True:
        watched = watch.look()
        yield watched
        unbegun = watched.condition is Condition.UNBEGUN
        if not watched.condition.goes_on or (unbegun and clock.now() >= until_s):
            return
        pause(clock, LOOK_EVERY_S)


def exit_status(watched: Watched) -> int:
    """What `rb-tune run` would have ended with: 0 done, also at its deadline, 130 interrupted, else 1."""
    return _STATUS.get(watched.condition, 1)


def to_follow(home: list[RunDirectory], clock: Clock) -> RunDirectory | None:
    """The run that is followed where none is named: the one that began last of those that go on, else of all.

    Args:
        home: the directories of all runs.
        clock: the time.
    """
    seen = [Watch(directory, clock, whole=False).look() for directory in home]
    ranked = [(w.condition.lives, w.started.utc if w.started else "", w.directory) for w in seen]
    return max(ranked, key=lambda row: row[:2])[2] if ranked else None
