"""Learning curves that were recorded, read from a table."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from rb_core.errors import InvalidInput
from rb_core.sim.reference import best_first
from rb_core.spec import ExperimentSpec

COLUMNS = ("trial", "iterations", "score")
"""The columns that a file of curves has; others are passed over."""


class RecordedCurves:
    """Scores by trial and iterations; between two points the earlier one holds."""

    def __init__(self, points: Mapping[int, Sequence[tuple[int, float]]]) -> None:
        """Curves through points.

        Args:
            points: of each trial, (iterations, score) by ascending iterations; at least one.
        """
        self._iterations = {trial: [at for at, _ in own] for trial, own in points.items()}
        self._scores = {trial: [score for _, score in own] for trial, own in points.items()}

    @classmethod
    def read(cls, path: Path) -> RecordedCurves:
        """Read a CSV file with the columns trial, iterations and score; rows may come in any order.

        Raises:
            InvalidInput: it cannot be read, a column is missing, or a value is none; the line is named.
        """
        points: dict[int, dict[int, float]] = {}
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                rows = csv.DictReader(file)
                missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
                if missing:
                    raise InvalidInput(
                        str(path), f"must have the columns {', '.join(COLUMNS)}; {', '.join(missing)} is missing"
                    )
                for row in rows:
                    trial, iterations, score = _point(row, f"{path}, line {rows.line_num}")
                    if iterations in points.setdefault(trial, {}):
                        raise InvalidInput(
                            f"{path}, line {rows.line_num}",
                            f"gives the score of trial {trial} after {iterations} iterations twice; keep one",
                        )
                    points[trial][iterations] = score
        except OSError as error:
            raise InvalidInput(str(path), f"cannot be read: {error.strerror}; name a file that can be") from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise InvalidInput(str(path), f"is not a CSV file in UTF-8: {error}; save it as one") from None
        return cls({trial: sorted(own.items()) for trial, own in points.items()})

    def score(self, trial: int, iterations: int) -> float:
        """The score recorded last at or before so many iterations."""
        index = bisect_right(self._iterations[trial], iterations) - 1
        return self._scores[trial][max(0, index)]

    def check(self, experiment: ExperimentSpec, mode: str) -> None:
        """See to it that every trial has a score wherever the experiment will ask for one.

        A trial is asked for a score at the end of each stage up to the one that its scores end it at; a point within
        that stage must be recorded.

        Args:
            experiment: whose trials these are, by their numbers.
            mode: ``max`` or ``min``.

        Raises:
            InvalidInput: a trial or a stage of one is missing.
        """
        first = 0
        for chain in experiment.chains:
            trials: Sequence[int] = range(first, first + chain[0].trials)
            first += chain[0].trials
            missing = [trial for trial in trials if trial not in self._scores]
            if missing:
                raise InvalidInput(
                    "curves",
                    f"must hold every trial from 0 to {experiment.trials - 1}; trial {missing[0]} is missing: "
                    "record it, or rehearse an experiment with fewer trials",
                )
            begin = 0
            for stage, end in zip(chain, accumulate(stage.iterations for stage in chain), strict=True):
                trials = best_first({trial: self.score(trial, begin) for trial in trials}, mode)[: stage.trials]
                for trial in trials:
                    self._check_stage(trial, begin, end)
                begin = end

    def _check_stage(self, trial: int, begin: int, end: int) -> None:
        index = bisect_right(self._iterations[trial], end) - 1
        if index < 0 or self._iterations[trial][index] <= begin:
            raise InvalidInput(
                "curves",
                f"trial {trial} must have a score recorded after {begin + 1} to {end} iterations, where a stage ends; "
                "record it, or rehearse an experiment whose stages end where scores are",
            )


def _point(row: Mapping[str, str | None], line: str) -> tuple[int, int, float]:
    trial = _whole(row["trial"], f"{line}: trial", 0)
    iterations = _whole(row["iterations"], f"{line}: iterations", 1)
    text = row["score"] or ""
    try:
        score = float(text)
    except ValueError:
        score = math.inf
    if math.isinf(score):
        raise InvalidInput(f"{line}: score", f"must be a finite number or nan, got {text!r}")
    return trial, iterations, score


def _whole(text: str | None, key: str, least: int) -> int:
    try:
        number = int(text or "")
    except ValueError:
        number = least - 1
    if number < least:
        raise InvalidInput(key, f"must be an integer of at least {least}, got {text!r}")
    return number
