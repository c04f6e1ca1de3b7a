"""What `rb-tune size` is asked, and what it answers as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.events import SCHEMA
from rb_core.plan import Problem
from rb_core.planners.candidate import Candidate
from rb_core.sizing import Family, Kind, Purse, Size, Sizes, family
from rb_plugins.config.durations import seconds


def asked_family(*, kind: str, longest: int, eta: int, first: int, rungs: str) -> Family:
    """The experiments that the options name. Raises `InvalidInput` under the option's name."""
    if kind == Kind.HYPERBAND and rungs != "cumulative":
        raise InvalidInput("--rungs", "is for successive halving; leave it out with Hyperband")
    try:
        return family(Kind(kind), R=longest, eta=eta, r=first, incremental=rungs == "incremental")
    except InvalidInput as error:
        raise (InvalidInput(f"--{error.key}", error.problem) if error.key else error) from None


def asked_purse(problem: Problem, *, deadline: str | None, budget: float | None, confidence: float | None) -> Purse:
    """Both limits: from the options, or from the problem's objective.

    Raises:
        InvalidInput: one of them is nowhere, or out of its limits.
    """
    objective = problem.objective
    deadline_s = seconds(deadline, key="--deadline") if deadline is not None else None
    if objective is not None:
        deadline_s = objective.deadline_s if deadline_s is None else deadline_s
        budget = objective.budget_usd if budget is None else budget
        confidence = objective.confidence if confidence is None else confidence
    if deadline_s is None:
        raise InvalidInput("--deadline", "is required where the problem has no deadline in seconds, such as 2h")
    if budget is None:
        raise InvalidInput("--budget", "is required where the problem has no budget, such as 50")
    return Purse(deadline_s=deadline_s, budget_usd=budget, confidence=confidence)


def sizes_answer(problem: Problem, told: Sizes) -> dict[str, Any]:
    """The object that `rb-tune size --json` prints."""
    largest = told.largest
    planned = dataclasses.replace(problem, experiment=largest.experiment)
    return {
        "schema": SCHEMA,
        "deadline_s": told.purse.deadline_s,
        "budget_usd": told.purse.budget_usd,
        "confidence": told.purse.confidence,
        "largest": {told.family.letter: largest.size},
        "sizes": [_row(told.family.letter, row) for row in told.tried],
        "plan": largest.both.plan(planned).record(planned.experiment) if largest.both else None,
        "expected": _figures(largest.both),
    }


def _row(letter: str, row: Size) -> dict[str, Any]:
    return {
        letter: row.size,
        "trials": row.experiment.trials,
        "trial_iterations": row.experiment.trial_iterations,
        "fits": row.both is not None,
        "cheapest_by_deadline": _figures(row.in_time),
        "fastest_within_budget": _figures(row.in_budget),
    }


def _figures(candidate: Candidate | None) -> dict[str, float] | None:
    return None if candidate is None else {"jct_s": candidate.jct_s, "cost_usd": candidate.cost_usd}
