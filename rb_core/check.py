"""Checks of single values; each returns the value or raises `InvalidInput` naming key, limit and what was given."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from rb_core.errors import InvalidInput


def positive_int(key: str, value: object) -> int:
    """An integer of at least 1 (a bool is not one)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(key, f"must be a positive integer, got {value!r}")
    return value


def non_negative(key: str, value: object) -> float:
    """A finite number of at least 0."""
    return _number(key, value, "must be a finite number of at least 0", lambda x: x >= 0)


def positive(key: str, value: object) -> float:
    """A finite number above 0."""
    return _number(key, value, "must be a finite number above 0", lambda x: x > 0)


def between(key: str, value: object, low: float, high: float) -> float:
    """A number within [low, high]."""
    return _number(key, value, f"must be a number from {low:g} to {high:g}", lambda x: low <= x <= high)


def non_empty(key: str, value: object) -> str:
    """A string with at least one character that is not white space."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(key, f"must be a non-empty string, got {value!r}")
    return value


def one_of(key: str, value: str, known: Collection[str]) -> str:
    """A name out of a known set."""
    if value not in known:
        raise InvalidInput(key, f"must be one of {', '.join(sorted(known))}; got {value!r}")
    return value


def _number(key: str, value: object, limit: str, accepts: Callable[[float], bool]) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(key, f"{limit}, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInput(key, f"{limit}, got an integer of {len(str(value))} digits") from None
    if not math.isfinite(number) or not accepts(number):
        raise InvalidInput(key, f"{limit}, got {value!r}")
    return number
