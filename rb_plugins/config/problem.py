"""Problem files: all that a plan depends on, read, written in canonical form, and fingerprinted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.events import SCHEMA
from rb_core.hardware import Cloud
from rb_core.plan import CHECKPOINT_EVERY_S, Policies, Problem
from rb_plugins.config.cloud import PriceBooks, cloud_table, read_cloud
from rb_plugins.config.durations import Seconds
from rb_plugins.config.experiment import ExperimentTable, experiment_table
from rb_plugins.config.given import Given, Speeds, read_given
from rb_plugins.config.objective import ObjectiveTable, objective_table
from rb_plugins.config.profile import profile_table, read_profile_table
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import check_schema, naming, read_table
from rb_plugins.informed import with_speeds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemTable:
    """The outermost keys; `profile` and `cloud` have readers of their own."""

    experiment: ExperimentTable
    profile: Any
    cloud: Any
    objective: ObjectiveTable | None = None
    policies: Policies = field(default_factory=Policies)
    checkpoint_every_s: Seconds = CHECKPOINT_EVERY_S


Inform = Callable[[Cloud, Given, Speeds], Cloud]
"""Puts what was measured of a cloud in the place of its defaults; what was said by hand stays."""


def with_measured_speeds(cloud: Cloud, given: Given, speeds: Speeds) -> Cloud:
    """The cloud with the speeds that its profile file tells of."""
    return with_speeds(cloud, given, speeds).cloud


def load_problem(
    path: Path, *, price_books: PriceBooks, objective: bool = False, inform: Inform = with_measured_speeds
) -> Problem:
    """The problem in a file; paths in it are relative to its folder.

    Args:
        path: the file.
        price_books: where catalogues come from.
        objective: whether one must be there.
        inform: puts what was measured in the place of defaults.

    Raises:
        InvalidInput: the first thing that is wrong, under its full path, with the file's name as a note.
    """
    with naming(path):
        problem = read_problem(read_table(path), folder=path.parent, price_books=price_books, inform=inform)
        if objective and problem.objective is None:
            raise InvalidInput("objective", 'is required to plan, such as {"deadline_s": "2h"}')
        return problem


def read_problem(
    data: Mapping[str, Any], *, folder: Path, price_books: PriceBooks, inform: Inform = with_measured_speeds
) -> Problem:
    """The problem that plain values stand for; arguments as of `load_problem`.

    Raises:
        InvalidInput: the first thing that is wrong, under its full path.
    """
    table = dict(data)
    check_schema(table)
    if "train" in table:
        raise InvalidInput(
            "train",
            "belongs to an experiment file, and must be left out of a problem file; `rb-tune run` plans an experiment, "
            "and `rb-tune profile` measures the `profile` that a problem needs",
        )
    shape = shaped(ProblemTable, table, free=("profile", "cloud"))
    profile = read_profile_table(shape.profile, folder=folder)
    cloud = read_cloud(shape.cloud, folder=folder, price_books=price_books)
    keeps_nothing = bool(profile.measurements) and profile.checkpoint_gib == 0
    return Problem(
        experiment=shape.experiment.spec(),
        profile=profile.value(),
        cloud=inform(cloud, read_given(shape.cloud, folder=folder), profile.known_speeds()),
        objective=None if shape.objective is None else shape.objective.value(),
        policies=shape.policies,
        checkpoint_every_s=math.inf if keeps_nothing else shape.checkpoint_every_s,
    )


def problem_table(problem: Problem) -> dict[str, Any]:
    """The canonical form: defaults filled in, catalogues and files resolved, every experiment as stages."""
    table = {
        "schema": SCHEMA,
        "experiment": experiment_table(problem.experiment),
        "profile": profile_table(problem.profile),
        "cloud": cloud_table(problem.cloud),
        "policies": {
            "early_release": problem.policies.early_release,
            "prefetch": problem.policies.prefetch,
            "early_promotion": problem.policies.early_promotion,
        },
    }
    if problem.cloud.interruptible:
        table["checkpoint_every_s"] = float(problem.checkpoint_every_s)
    if problem.objective is not None:
        table["objective"] = objective_table(problem.objective)
    return table


def fingerprint(problem: Problem) -> str:
    """SHA-256 of the canonical form with sorted keys, in hexadecimal; equal prices of two dates give the same."""
    table = problem_table(replace(problem, cloud=replace(problem.cloud, prices=None)))
    return sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
