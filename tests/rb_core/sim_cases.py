"""The cases with known answers, as problems and plans to rehearse."""

from __future__ import annotations

import json
from pathlib import Path

from rb_core.plan import AllocationPlan, Problem
from rb_plugins.config.plan import read_plan
from rb_plugins.config.problem import read_problem

FOLDER = Path(__file__).parents[1] / "cases"
CASES = sorted(path.stem for path in FOLDER.glob("*.json"))


class Falling:
    """Scores that fall with the trial's number, so that the survivors are always the first ones."""

    def score(self, trial: int, iterations: int) -> float:
        return -float(trial)


def case_of(name: str) -> tuple[Problem, AllocationPlan]:
    """A case's problem, and the plan that is known for it."""
    path = FOLDER / f"{name}.json"
    case = json.loads(path.read_text(encoding="utf-8"))
    problem = read_problem(case["problem"], folder=FOLDER, price_books={}.__getitem__)
    plan = case.get("plan") or {"stages": case["optimum"]["a_plan"]}
    return problem, read_plan(plan, problem).plan
