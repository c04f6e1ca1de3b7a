"""One kill: under what condition, at which point, and what comes after it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum


class Condition(StrEnum):
    """How the cloud behaves."""

    PLAIN = "plain"
    """As it should."""
    LOST = "lost"
    """Every third call that changes something is obeyed and its answer is lost."""
    THROTTLED = "throttled"
    """Every third call is refused, for there were too many."""
    SLOW = "slow"
    """What was rented is invisible for a while."""


class After(StrEnum):
    """What comes after the kill."""

    RESUME = "resume"
    """Another process goes on with the run."""
    COLLECT = "collect"
    """Nobody does, and what it left is collected by its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kill.

    Attributes:
        condition: how the cloud behaves.
        fatal: numbers of the steps at which the first process, and those that resume the run after it, are killed.
        after: what comes then.
        spot: whether the later stages are on spot.
        away_s: time between a process and the next.
        visible_s: how long what was rented is invisible, where that is the condition.
        offset: which of three calls is the one that goes wrong.
        grace_s: how long the provider reckons with what is invisible.
    """

    condition: Condition
    fatal: tuple[int, ...] = ()
    after: After = After.RESUME
    spot: bool = False
    away_s: float = 5.0
    visible_s: float = 12.0
    offset: int = 0
    grace_s: float = 30.0


MOST_STEPS = 640
"""Numbers of steps are drawn below; a run that ends before is not killed, and has to be sound all the same."""


def case_of(number: int) -> Case:
    """The case of that number, by chance."""
    chance = random.Random(number)
    return Case(
        condition=list(Condition)[number % len(Condition)],
        fatal=tuple(chance.randrange(MOST_STEPS) for _ in range(chance.choice((1, 1, 2, 3)))),
        after=chance.choice(list(After)),
        spot=chance.random() < 0.5,
        away_s=chance.choice((0.0, 1.0, 5.0, 20.0, 90.0)),
        visible_s=chance.uniform(12.0, 28.0),
        offset=chance.randrange(3),
    )


def relay_of(number: int) -> Case:
    """A case in which one process after the other is killed a few steps on, six of them."""
    chance = random.Random(number)
    fatal = tuple(chance.randrange(1, 100) for _ in range(6))
    return replace(case_of(number), fatal=fatal, after=After.RESUME)
