"""What counts as a score."""

from __future__ import annotations

import math
from typing import Any

from rb_core.errors import TrialMisuse


def real_score(score: Any) -> float:
    """The score as a float. What is not finite is NaN: it ranks last, whatever the mode.

    Args:
        score: a number, or a tensor or array of one element.

    Raises:
        TrialMisuse: anything else.
    """
    value = score
    if hasattr(score, "item"):
        try:
            value = score.item()
        except (ValueError, RuntimeError):
            raise TrialMisuse(
                f"trial.report(score) must be given one number, got a {type(score).__name__} of several; "
                "report its mean, for example"
            ) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TrialMisuse(f"trial.report(score) must be given a real number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise TrialMisuse("trial.report(score) must be given a number that a float can hold") from None
    return number if math.isfinite(number) else math.nan
