"""Figures that may be missing, where they are not."""

from __future__ import annotations

from typing import TypeVar

from rb_core.plan import Problem

T = TypeVar("T")


def known(figure: T | None) -> T:
    """A figure that is there.

    Raises:
        ValueError: it is not.
    """
    if figure is None:
        raise ValueError("a figure is missing that the other figures of its row suppose")
    return figure


def deadline_of(problem: Problem) -> float:
    """The deadline in seconds of a problem that has one.

    Raises:
        ValueError: it has none.
    """
    return known(known(problem.objective).deadline_s)
