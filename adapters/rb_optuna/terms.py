"""What an executor is asked for, checked and in the core's words."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from optuna.distributions import BaseDistribution
from optuna.pruners import MedianPruner
from optuna.study import Study

from rb_core.check import positive
from rb_core.errors import InvalidInput
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import Objective
from rb_core.planners.objective import NO_LIMIT
from rb_core.profile import ScalingProfile
from rb_core.providers.machine import devices
from rb_core.rounds import Rounds
from rb_core.spec import ExperimentSpec
from rb_optuna import _compat
from rb_optuna.desk import Desk
from rb_optuna.pruner import RubberBandPruner
from rb_optuna.sampler import RubberBandSampler
from rb_plugins.config.durations import factor, seconds
from rb_plugins.config.profile import read_profile
from rb_plugins.storing import storage_of
from rb_plugins.tuning import ON_DEADLINE, AtDeadline, Measuring

INLINE = "inline"
"""The launcher that runs objectives in the executor's own process."""

UNMEASURED = ScalingProfile(iteration_s={1: Latency(mean=1.0)})
"""Stands for the profile where nothing is planned, and nobody looks at one."""

Unresumable = Literal["restart", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an executor was made with.

    Attributes:
        rounds: how trials are grouped.
        deadline_s: when all is to be over, in seconds since `optimize` was called.
        deadline_factor: the same as a multiple of what the fastest plan takes.
        budget_usd: what all may cost.
        profile: how the objective scales, or how to measure it.
        cloud: where trials run.
        launcher: what starts them.
        planner: who plans.
        unresumable: what happens to objectives that cannot be resumed where slots do not suffice.
        search_space: what is sampled when a trial begins.
        max_usd: hard limit of the bill.
        on_deadline: what happens when the deadline has come.
        seed: of planning and training.
        name: of the runs.
        checkpoints: folder of the checkpoints, or the address of a store; None for each run's own directory.
    """

    rounds: Rounds
    deadline_s: float | None
    deadline_factor: float | None
    budget_usd: float | None
    profile: ScalingProfile | Measuring
    cloud: Cloud | None
    launcher: str
    planner: str
    unresumable: Unresumable
    search_space: Mapping[str, BaseDistribution] | None
    max_usd: float | None
    on_deadline: AtDeadline
    seed: int
    name: str
    checkpoints: Path | str | None = None

    @property
    def planned(self) -> bool:
        """Whether there is anything to plan for."""
        return not (self.deadline_s is None and self.deadline_factor is None and self.budget_usd is None)

    def objective(self, *, left: int | None, gone_s: float, spent_usd: float) -> Objective:
        """What the next round is planned for: its part of what is left.

        Args:
            left: rounds that are left, the next one included; None when there is no end of them: then as many as
                possible are to fit, and a round is planned to be fast before a deadline, and cheap within a budget.
            gone_s: seconds since `optimize` was called.
            spent_usd: what the rounds before have cost.

        Raises:
            InvalidInput: nothing is left.
        """
        if self.deadline_factor is not None:
            return Objective(deadline_factor=self.deadline_factor)
        if self.deadline_s is not None:
            left_s = positive("deadline", self.deadline_s - gone_s)
            return Objective(budget_usd=NO_LIMIT) if left is None else Objective(deadline_s=left_s / left)
        left_usd = positive("budget_usd", (self.budget_usd or 0.0) - spent_usd)
        return Objective(deadline_s=NO_LIMIT) if left is None else Objective(budget_usd=left_usd / left)


def local_cloud(n_jobs: int) -> Cloud:
    """This machine, a slot each of its GPUs, or of its cores where it has none; at no price.

    Args:
        n_jobs: most slots; 1, Optuna's default, and -1 mean all there are.

    Raises:
        ValueError: more than there are.
    """
    most = len(devices())
    slots = most if n_jobs in (1, -1) else n_jobs
    if not 1 <= slots <= most:
        raise ValueError(f"`n_jobs` must be -1 or between 1 and {most}, the slots of this machine, but got {n_jobs}.")
    return free_cloud("slot", slots)


def free_cloud(name: str, nodes: int) -> Cloud:
    """So many nodes of one slot that cost nothing."""
    node = InstanceType(name=name, slots=1, usd_per_hour=0.0)
    return Cloud(instance_types=(node,), max_nodes=nodes, billing=Billing(minimum_s=0.0))


def read_terms(
    study: Study,
    *,
    deadline: float | str | None,
    budget_usd: float | None,
    max_resource: int | None,
    min_resource: int | None,
    reduction_factor: int | None,
    hyperband: bool,
    profile: ScalingProfile | Measuring | str | Path | None,
    cloud: Cloud | None,
    provider: str,
    launcher: str | None,
    planner: str,
    unresumable: str,
    search_space: Mapping[str, BaseDistribution] | None,
    max_usd: float | None,
    on_deadline: str,
    seed: int,
    checkpoints: Path | str | None = None,
) -> Terms:
    """Check what an executor is asked for. Asks nothing of the study but what it is.

    Raises:
        ValueError: the first thing that is wrong.
    """
    if _compat.is_multi_objective(study):
        raise ValueError(
            "`RubberBandExecutor` supports single-objective studies only; this one has several directions."
        )
    pruner = study.pruner if isinstance(study.pruner, RubberBandPruner) else None
    if pruner is not None:
        min_resource = pruner.min_resource if min_resource is None else min_resource
        max_resource = pruner.max_resource if max_resource is None else max_resource
        reduction_factor = pruner.reduction_factor if reduction_factor is None else reduction_factor
    if max_resource is None:
        raise ValueError(
            "`max_resource` must be given, here or with the study's `RubberBandPruner`: "
            "the iterations (steps) of a trial that is never pruned."
        )
    if deadline is not None and budget_usd is not None:
        raise ValueError("Specify either `deadline` or `budget_usd`, not both.")
    if unresumable not in get_args(Unresumable):
        raise ValueError(f"`unresumable` must be 'restart' or 'error', but got {unresumable!r}.")
    if on_deadline not in ON_DEADLINE:
        raise ValueError(f"`on_deadline` must be one of {', '.join(map(repr, ON_DEADLINE))}, but got {on_deadline!r}.")
    with _in_optuna_s_words():
        times, limit_s = _deadline(deadline)
        for key, usd in (("budget_usd", budget_usd), ("max_usd", max_usd)):
            if usd is not None:
                positive(key, usd)
    if cloud is not None and provider not in ("local", cloud.provider):
        raise ValueError(f"`provider` is {provider!r}, but `cloud` names {cloud.provider!r}.")
    if cloud is None and provider != "local":
        raise ValueError(f"`provider={provider!r}` needs a `cloud` that says what can be rented there.")
    if launcher is None:
        launcher = "ddp" if "torch" in sys.modules else "process"
    if launcher == INLINE and (deadline is not None or budget_usd is not None or cloud is not None):
        raise ValueError(
            "The inline launcher has one slot, so there is nothing to plan: leave out `deadline`, `budget_usd` and "
            "`cloud`, or use another launcher."
        )
    if launcher == INLINE and checkpoints is not None:
        raise ValueError("The inline launcher keeps no checkpoints: leave out `checkpoints`, or use another launcher.")
    return Terms(
        rounds=_rounds(min_resource, max_resource, reduction_factor, hyperband=hyperband),
        deadline_s=limit_s,
        deadline_factor=times,
        budget_usd=budget_usd,
        profile=_profile(profile),
        cloud=cloud,
        launcher=launcher,
        planner=planner,
        unresumable="error" if unresumable == "error" else "restart",
        search_space=search_space,
        max_usd=max_usd,
        on_deadline="stop" if on_deadline == "stop" else "finish",
        seed=seed,
        name=study.study_name,
        checkpoints=None if checkpoints is None else storage_of(checkpoints, Path.cwd()),
    )


def pruner_is_passed_over(study: Study) -> bool:
    """Whether the study has a pruner of the user's choice, which an executor does not consult."""
    return not isinstance(study.pruner, MedianPruner | RubberBandPruner)


def words_on_small_round(rounds: Rounds, n_trials: int | None) -> str:
    """What to say of fewer trials than a full round has; empty when there are enough."""
    if n_trials is None or n_trials <= 0 or n_trials >= rounds.trials:
        return ""
    first = next(rounds.of(n_trials))
    shape = " | ".join(" -> ".join(str(stage.trials) for stage in chain) for chain in first.chains)
    return f"{n_trials} trials are fewer than the {rounds.trials} of a full round, so a smaller one is run: {shape}."


def each_round(
    study: Study, rounds: Rounds, desk: Desk, n_trials: int | None
) -> Iterator[tuple[ExperimentSpec, int | None]]:
    """The rounds of so many trials until no further trial is to begin, each with how many are left, itself included.

    Endless for None, and then None are left.
    """
    if n_trials is None:
        numbered: Iterable[tuple[ExperimentSpec, int | None]] = ((each, None) for each in rounds.of(None))
    else:
        experiments = list(rounds.of(max(0, n_trials)))
        numbered = zip(experiments, range(len(experiments), 0, -1), strict=True)
    for experiment, left in numbered:
        if desk.stopped:
            return
        if isinstance(study.sampler, RubberBandSampler):
            study.sampler.begin_bracket(experiment.trials)
        yield experiment, left


def share_of_restarts(experiment: ExperimentSpec) -> float:
    """How much more is trained when every stage begins from nothing."""
    return experiment.from_nothing.trial_iterations / experiment.trial_iterations


def _deadline(deadline: float | str | None) -> tuple[float | None, float | None]:
    """As a multiple and as seconds; at most one of them."""
    if deadline is None:
        return None, None
    if isinstance(deadline, str):
        times = factor(deadline)
        if times is not None:
            return positive("deadline", times), None
        deadline = seconds(deadline, key="deadline")
    return None, positive("deadline", deadline)


def _rounds(min_resource: int | None, max_resource: int, reduction_factor: int | None, *, hyperband: bool) -> Rounds:
    with _in_optuna_s_words():
        return Rounds(
            r=1 if min_resource is None else min_resource,
            R=max_resource,
            eta=3 if reduction_factor is None else reduction_factor,
            hyperband=hyperband,
        )


_NAMES = {"r": "min_resource", "R": "max_resource", "eta": "reduction_factor"}
"""What Optuna calls what the core calls otherwise."""


@contextmanager
def _in_optuna_s_words() -> Iterator[None]:
    """Let what the core refuses be refused in Optuna's words."""
    try:
        yield
    except InvalidInput as error:
        if error.key == "trials":
            raise ValueError(
                f"A full round has too many trials, {error.problem}: raise `min_resource` or `reduction_factor`."
            ) from None
        problem = error.problem.replace("R (", "`max_resource` (")
        raise ValueError(f"`{_NAMES.get(error.key, error.key)}` {problem}.") from None


def _profile(profile: ScalingProfile | Measuring | str | Path | None) -> ScalingProfile | Measuring:
    if profile is None:
        return Measuring()
    if isinstance(profile, str | Path):
        return read_profile(str(profile), folder=Path.cwd())
    return profile


def warn_user(text: str) -> None:
    """Warn whoever called `optimize`."""
    warnings.warn(text, UserWarning, stacklevel=4)
