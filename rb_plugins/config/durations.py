"""Durations as people write them: seconds, "90s", "45m", "2h", "1h30m"."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

from rb_core.errors import InvalidInput

_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?", re.ASCII)
_FACTOR = re.compile(rf"{_NUMBER}x", re.ASCII)
_UNITS_S = (3600.0, 60.0, 1.0)

WORDS = 'must be seconds or a duration such as "90s", "45m", "2h" or "1h30m"'


def seconds(text: str, *, key: str = "", words: str = WORDS) -> float:
    """The seconds of a duration in words.

    Raises:
        InvalidInput: the text is no such duration.
    """
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise InvalidInput(key, f"{words}, got {text!r}")
    return sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS_S, strict=True) if part)


def factor(text: str) -> float | None:
    """The 1.5 of "1.5x"; None for anything else."""
    match = _FACTOR.fullmatch(text)
    return float(match.group(1)) if match else None


def _number(value: object) -> object:
    return seconds(value) if isinstance(value, str) else value


Seconds = Annotated[float, BeforeValidator(_number)]
"""A number of seconds, or a duration in words."""
