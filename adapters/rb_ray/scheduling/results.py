"""What a result of a trial tells: how far it is, and what it has come to at a rung."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rb_core.bracket import Verdict
from rb_ray.scheduling.remarks import Remarks
from rb_ray.scheduling.rungs import Rungs
from rb_ray.scheduling.terms import Terms

MISSES = 1000
"""A trial that reports so often in a row without the attribute that rungs are measured in takes no part in them."""


class Results:
    """Reads results and reports their scores at rungs. As with Tune's own schedulers none of them is an error."""

    def __init__(self, terms: Terms, metric: str, rungs: Rungs, remarks: Remarks) -> None:
        """Nothing has been read.

        Args:
            terms: what rungs are measured in, and how far they reach.
            metric: what trials are ranked by.
            rungs: told the scores.
            remarks: says what is missing.
        """
        self._time_attr, self._metric, self._r, self._most = terms.time_attr, metric, terms.r, terms.R
        self._rungs = rungs
        self._remarks = remarks
        self._missed: dict[int, int] = {}

    def reached(self, result: Mapping[str, Any]) -> int | None:
        """How far a result says that its trial is; None where it does not."""
        value = number(result.get(self._time_attr))
        return None if value is None or not math.isfinite(value) else math.floor(value)

    def missed(self, trial: int, *, reached: bool) -> bool:
        """Whether a trial has left out for too long how far it is.

        Args:
            trial: its number.
            reached: whether its result says it this time.
        """
        if reached:
            self._missed.pop(trial, None)
            return False
        self._remarks.once(
            "time",
            f"A result has no number as `{self._time_attr}`, and is passed over. RubberBandScheduler measures its "
            "rungs in it: report it every time, or name another `time_attr`.",
        )
        missed = self._missed[trial] = self._missed.get(trial, 0) + 1
        if missed < MISSES:
            return False
        self._remarks.once(f"misses {trial}", f"Trial {trial} has left it out {missed} times in a row, and is stopped.")
        return True

    def score(self, trial: int, iterations: int, result: Mapping[str, Any]) -> None:
        """Take a result's score where it counts at a rung; one that never comes is taken for NaN after a while."""
        rung = self._rungs.rung
        if iterations < min(rung, self._r):
            return
        score = number(result.get(self._metric))
        if score is None:
            if iterations < rung or self._rungs.verdict(trial, gathered=True) is not Verdict.CONTINUE:
                return
            limit = min(2 * rung, self._most)
            self._remarks.once(
                "metric",
                f"Trial {trial} stands at a rung ({rung} {self._time_attr}), but its result has no number as "
                f"`{self._metric}`: it goes on until it reports one, and ranks last if it has none by {limit}.",
            )
            if iterations < limit:
                return
            score = math.nan
        self._rungs.report(trial, iterations, score)


def number(value: object) -> float | None:
    """A number that a result holds, of whatever type; None for anything else."""
    if value is None or isinstance(value, str | bytes | bool):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
