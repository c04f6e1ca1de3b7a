"""Random rests of runs with nodes held, and all plans that there are for them, followed in plain Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from model_reference import Job, Node, every_plan, hurried_problem, random_problem

from rb_core.expectation import Batch
from rb_core.plan import AllocationPlan, Objective, Problem, StageAllocation
from rb_core.planners.rest import Rest
from rb_core.spec import ExperimentSpec, Stage

SIZES = (
    (90, {"stages": 2, "nodes": 3, "kinds": 2, "trials": 8}),
    (60, {"stages": 3, "nodes": 3, "kinds": 1, "trials": 8}),
    (40, {"stages": 1, "nodes": 5, "kinds": 3, "trials": 12}),
    (40, {"stages": 2, "nodes": 4, "kinds": 2, "trials": 6}),
)
"""How many random problems of which size are tried."""

HURRIED = 90
"""How many with stages that are shorter than a node's start."""


@dataclass(frozen=True)
class Case:
    """A rest whose current plan is any, the same as a job in plain Python, and (jct_s, cost_usd, ...) of all plans."""

    note: tuple[int, int]
    rest: Rest
    job: Job
    plans: list[tuple[float, float, tuple[StageAllocation, ...]]]

    def some(self, salt: int) -> np.random.Generator:
        """Randomness of this case, another for every salt."""
        return np.random.default_rng([*self.note, salt])


@cache
def cases() -> tuple[Case, ...]:
    """All on which a trial fits."""
    found: list[Case] = []
    for number, (count, sizes) in enumerate(SIZES):
        for seed in range(count):
            rng = np.random.default_rng([number, seed])
            found += _case((number, seed), rng, random_problem(rng, **sizes))
    for seed in range(HURRIED):
        rng = np.random.default_rng([len(SIZES), seed])
        found += _case((len(SIZES), seed), rng, hurried_problem(rng))
    return tuple(found)


def _case(note: tuple[int, int], rng: np.random.Generator, problem: Problem) -> Iterator[Case]:
    if rng.random() < 0.3:  # a stage that some of its trials are through with
        first = (Stage(trials=1, iterations=int(rng.integers(1, 9))),)
        problem = dataclasses.replace(problem, experiment=ExperimentSpec(chains=(first, *problem.experiment.chains)))
    held = _held(rng, problem)
    kind = problem.cloud.instance_types[rng.integers(len(problem.cloud.instance_types))] if held else None
    times = [(batch.running_s, batch.usable_s) for batch in held for _ in range(batch.count)]
    nodes = tuple(Node(number, *at) for number, at in enumerate(times))
    job = Job(closed_usd=round(float(rng.uniform(0, 2)), 2), held=nodes, kind=kind)
    plans = every_plan(problem, job)
    if plans:
        current = shaped(problem, plans[rng.integers(len(plans))][2])
        rest = Rest(problem=problem, current=current, instance_type=kind, held=held, spent_usd=job.closed_usd)
        yield Case(note, rest, job, plans)


def _held(rng: np.random.Generator, problem: Problem) -> tuple[Batch, ...]:
    """Nodes that have been usable for long, are young, start still or do not yet run; ready as expected, or not."""
    launch_s, init_s = problem.cloud.launch_s.mean, problem.cloud.init_s.mean
    batches = []
    for _ in range(rng.integers(0, 4)):
        running_s = round(float(rng.uniform(-300, min(launch_s, 60))) * 4) / 4
        usable_s = running_s + init_s
        if rng.random() < 0.5:
            usable_s = round(float(rng.uniform(running_s, launch_s + init_s)) * 4) / 4
        batches.append(Batch(count=int(rng.integers(1, 3)), running_s=running_s, usable_s=usable_s))
    return tuple(sorted(batches, key=lambda batch: batch.usable_s))


def shaped(problem: Problem, allocations: tuple[StageAllocation, ...]) -> AllocationPlan:
    """Allocations of stages in a row as a plan of the problem."""
    left = iter(allocations)
    return AllocationPlan(chains=tuple(tuple(next(left) for _ in chain) for chain in problem.experiment.chains))


def under(rest: Rest, **objective: float) -> Rest:
    """The same rest with an objective."""
    return dataclasses.replace(rest, problem=dataclasses.replace(rest.problem, objective=Objective(**objective)))
