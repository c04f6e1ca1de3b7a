"""The rows of the table: what each planner needs for one case and one deadline."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from beside import StaticBeside
from study import DEADLINE_FACTORS, Case

from rb_core.errors import NoFeasiblePlan
from rb_core.expectation import expected
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.objective import lower_bound_usd, resolve
from rb_plugins import make_manager

PLANNERS = ("static-1", "static", "static-beside", "naive", "greedy", "exact")
CASE_COLUMNS = ("experiment", "cloud", "workload", "deadline_factor", "deadline_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a planner's plan takes and costs."""

    jct_s: float
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case under one deadline.

    Attributes:
        case: which.
        deadline_factor: the deadline as a multiple of the fastest plan's time.
        deadline_s: the deadline.
        outcomes: by planner; None for one that finds no plan in time.
        lower_bound_usd: what no plan can cost less than.
        exact_plan: what the exact planner chose, in words.
    """

    case: Case
    deadline_factor: float
    deadline_s: float
    outcomes: Mapping[str, Outcome | None]
    lower_bound_usd: float
    exact_plan: str

    def saving(self, against: str) -> float | None:
        """The fraction of another planner's cost that the exact one saves; None where that one finds no plan."""
        other, exact = self.outcomes[against], self.outcomes["exact"]
        return None if other is None or exact is None else 1.0 - exact.cost_usd / other.cost_usd


def worked_out(case: Case) -> Iterator[Row]:
    """The rows of a case, the tightest deadline first."""
    planners = make_manager().planners()
    for factor in DEADLINE_FACTORS:
        problem = resolve(case.problem(factor))
        plans: dict[str, AllocationPlan | None] = {}
        for name in PLANNERS:
            try:
                if name == StaticBeside.name:
                    plans[name] = StaticBeside().plan(problem)
                else:
                    plans[name] = planners[name]().plan(problem, np.random.default_rng(0))
            except NoFeasiblePlan:
                plans[name] = None
        yield Row(
            case=case,
            deadline_factor=factor,
            deadline_s=problem.objective.deadline_s,
            outcomes={name: plan and _outcome(problem, plan) for name, plan in plans.items()},
            lower_bound_usd=lower_bound_usd(problem),
            exact_plan=in_words(problem, plans["exact"]),
        )


def _outcome(problem: Problem, plan: AllocationPlan) -> Outcome:
    jct_s, cost_usd = expected(problem, plan)
    return Outcome(jct_s=jct_s, cost_usd=cost_usd)


def in_words(problem: Problem, plan: AllocationPlan) -> str:
    """Nodes, type and slots per trial of every stage; equal stages in a row are said once.

    Such as ``16 p3.8xlarge w1 (x2) > 1 p3.8xlarge w4``: two stages on 16 nodes with one slot a trial, then one stage
    on one node with four.
    """
    chains = []
    for chain in plan.chains:
        runs = ((step, len(list(same))) for step, same in groupby(chain))
        chains.append(
            " > ".join(
                f"{step.nodes} {step.instance_type} w{step.slots_per_trial}" + (f" (x{count})" if count > 1 else "")
                for step, count in runs
            )
        )
    return chains[0] if len(chains) == 1 else f"{plan.order}: " + " | ".join(chains)


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """One line a row; a planner without a plan leaves its two cells empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        figures = [f"{name}_{unit}" for name in PLANNERS for unit in ("s", "usd")]
        writer.writerow([*CASE_COLUMNS, *figures, "lower_bound_usd", "exact_plan"])
        for row in rows:
            cells = [row.case.experiment, row.case.cloud, row.case.workload]
            cells += [f"{row.deadline_factor:g}", f"{row.deadline_s:.1f}"]
            for name in PLANNERS:
                outcome = row.outcomes[name]
                cells += ["", ""] if outcome is None else [f"{outcome.jct_s:.1f}", f"{outcome.cost_usd:.4f}"]
            writer.writerow([*cells, f"{row.lower_bound_usd:.4f}", row.exact_plan])


def read_csv(path: Path) -> list[Row]:
    """The rows that `write_csv` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(
                case=Case(experiment=line["experiment"], cloud=line["cloud"], workload=line["workload"]),
                deadline_factor=float(line["deadline_factor"]),
                deadline_s=float(line["deadline_s"]),
                outcomes={
                    name: Outcome(jct_s=float(line[f"{name}_s"]), cost_usd=float(line[f"{name}_usd"]))
                    if line[f"{name}_s"]
                    else None
                    for name in PLANNERS
                },
                lower_bound_usd=float(line["lower_bound_usd"]),
                exact_plan=line["exact_plan"],
            )
            for line in csv.DictReader(file)
        ]
