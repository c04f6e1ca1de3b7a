"""What the engine is asked for: a run as its directory records it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

from rb_core.engine.request import OnDeadline, RunRequest
from rb_core.plan import AllocationPlan, Problem
from rb_core.ports import Depot
from rb_plugins.config.problem import problem_table
from rb_plugins.recorded import Recorded
from rb_plugins.rundir import RunDirectory

PATIENCE = 10.0
"""A trial that says nothing for a minute and so many times the longest step that is expected of it hangs."""


def run_request(
    directory: RunDirectory,
    recorded: Recorded,
    problem: Problem,
    plan: AllocationPlan,
    depot: Depot | None = None,
    *,
    warnings: tuple[str, ...] = (),
) -> RunRequest:
    """The request for a run.

    Args:
        directory: of the run.
        recorded: how it was asked for.
        problem: what holds now, with its deadline in seconds.
        plan: the plan that it begins, or began, with.
        depot: what keeps its checkpoints, where `recorded` names the address of one.
        warnings: what its log is to say at its start.
    """
    return RunRequest(
        run=directory.run,
        problem=problem,
        plan=plan,
        configs=recorded.configs,
        storage=Path(recorded.storage) if depot is None else directory.checkpoints,
        logs=directory.logs,
        metric=recorded.train.metric,
        mode=recorded.train.mode,
        seed=recorded.train.seed,
        target=recorded.train.target,
        record=problem_table(problem),
        environment=environment(),
        env=recorded.env,
        checkpoint_every_s=recorded.checkpoint_every_s,
        patience=PATIENCE,
        max_usd=None if recorded.max_usd is None else recorded.max_usd - directory.profiling_usd,
        on_deadline=OnDeadline(recorded.on_deadline),
        replan=recorded.replan,
        warnings=warnings,
        depot=depot,
    )


def environment() -> dict[str, str]:
    """Versions and machine."""
    versions = {}
    for name in ("rubberband-tune", "torch", "numpy", "scipy", "scikit-learn", "optuna", "ray"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": str(len(os.sched_getaffinity(0))),
        **versions,
    }
