"""What has become of a run: by how its log ends, and by whether somebody is at work on it."""

from __future__ import annotations

from enum import StrEnum

from rb_core.events import RunEnding


class Condition(StrEnum):
    """Where a run stands, seen from outside. A run that ended is in the condition of its `RunEnding`'s name."""

    UNBEGUN = "unbegun"
    """Its log is empty and nobody is at work on it: it is about to begin, or was ended before it did."""
    STARTING = "starting"
    """A process is about to begin it, or to go on with it, and has written nothing of that yet."""
    RUNNING = "running"
    """A process is at work on it."""
    KILLED = "killed"
    """It has not ended, and its process is gone."""
    DONE = "done"
    """All stages ran."""
    FAILED = "failed"
    """An error ended it."""
    INTERRUPTED = "interrupted"
    """Its user stopped it."""
    DEADLINE = "deadline"
    """Its time was up, and it had been told to stop then."""
    UNREADABLE = "unreadable"
    """Its log is of another version, or was edited."""

    @property
    def goes_on(self) -> bool:
        """Whether something may still happen by itself."""
        return self is Condition.UNBEGUN or self.lives

    @property
    def lives(self) -> bool:
        """Whether a process is at work on it, or about to be."""
        return self in (Condition.STARTING, Condition.RUNNING)

    @property
    def ended(self) -> bool:
        """Whether its log was closed."""
        return self.value in set(RunEnding)


def condition(*, began: bool, ending: RunEnding | None, lives: bool, silent: bool = False) -> Condition:
    """The condition of a run whose log can be read.

    Args:
        began: whether anything is in its log.
        ending: how it ended; None while it has not.
        lives: whether a process is at work on it.
        silent: whether that process has written nothing yet.
    """
    # Nobody goes on with one that is done.
    if lives and (silent or not began) and ending is not RunEnding.DONE:
        return Condition.STARTING
    if ending is not None:
        return Condition(ending.value)
    if lives:
        return Condition.RUNNING
    return Condition.KILLED if began else Condition.UNBEGUN
