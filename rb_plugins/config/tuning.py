"""Experiment files: a problem file, and what is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from rb_core.errors import InvalidInput
from rb_core.plan import Policies
from rb_core.profile import ScalingProfile
from rb_core.space import Space, distribution
from rb_core.target import Target
from rb_plugins.config.cloud import PriceBooks, read_cloud
from rb_plugins.config.durations import Seconds
from rb_plugins.config.experiment import ExperimentTable
from rb_plugins.config.given import Speeds, read_given
from rb_plugins.config.objective import ObjectiveTable
from rb_plugins.config.profile import read_profile_table
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import naming, read_table
from rb_plugins.storing import storage_of
from rb_plugins.tuning import (
    DEFAULT_CHECKPOINT_EVERY_S,
    DEFAULT_LAUNCHER,
    DEFAULT_POLICIES,
    DEFAULT_PROFILING_S,
    Measuring,
    Tuning,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTable:
    """The key `train`."""

    target: str
    metric: str = "score"
    mode: Literal["max", "min"] = "max"
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTable:
    """The key `run`."""

    launcher: str = DEFAULT_LAUNCHER
    storage: str | None = None
    checkpoint_every_s: Seconds = DEFAULT_CHECKPOINT_EVERY_S
    max_usd: float | None = None
    on_deadline: Literal["finish", "stop"] = "finish"
    replan: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    sampling: Literal["random", "sobol"] = "random"


def _list_of_slots(value: object) -> object:
    if not isinstance(value, list):
        raise InvalidInput("", f"must be a list of numbers of slots, such as [1, 2], got {value!r}")
    return tuple(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringTable:
    """The key `profile` where it says how to measure."""

    slots: Annotated[tuple[int, ...], BeforeValidator(_list_of_slots)] = ()
    budget_s: Seconds = DEFAULT_PROFILING_S
    types: Literal["all", "first"] = "all"

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> Measuring:
        """How to measure. Raises `InvalidInput` under a key relative to `profile`."""
        return Measuring(slots=self.slots, budget_s=self.budget_s, types=self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesTable:
    """The key `policies`; what is left out is as in a run without it."""

    early_release: bool = DEFAULT_POLICIES.early_release
    prefetch: bool = DEFAULT_POLICIES.prefetch
    early_promotion: bool = DEFAULT_POLICIES.early_promotion

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> Policies:
        """The policies. Raises `InvalidInput` under a key relative to `policies`."""
        return Policies(early_release=self.early_release, prefetch=self.prefetch, early_promotion=self.early_promotion)


def _no_lists(value: object) -> object:
    if not isinstance(value, dict) or not value:
        raise InvalidInput("", "must name at least one hyperparameter, each with its choices or a distribution")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningTable:
    """The outermost keys; `space`, `profile` and `cloud` have readers of their own."""

    train: TrainTable
    space: Annotated[Mapping[str, Any], BeforeValidator(_no_lists)]
    experiment: ExperimentTable
    cloud: Any
    objective: ObjectiveTable
    profile: Any = field(default_factory=dict)
    run: RunTable = field(default_factory=RunTable)
    policies: PoliciesTable = field(default_factory=PoliciesTable)
    name: str = ""


def load_tuning(path: Path, *, price_books: PriceBooks) -> Tuning:
    """The run that a file asks for; paths in it are relative to its folder. Imports and starts nothing.

    Raises:
        InvalidInput: the first thing that is wrong, under its full path, with the file's name as a note.
    """
    with naming(path):
        table = shaped(TuningTable, read_table(path), free=("space",))
        folder = path.parent
        profile, speeds = _profile(table.profile, folder)
        return Tuning(
            name=table.name or path.stem,
            target=Target.parse(table.train.target, base=folder),
            metric=table.train.metric,
            mode=table.train.mode,
            seed=table.train.seed,
            space=read_space(table.space),
            experiment=table.experiment.spec(),
            profile=profile,
            speeds=speeds,
            given=read_given(table.cloud, folder=folder),
            cloud=read_cloud(table.cloud, folder=folder, price_books=price_books, rented=True),
            objective=table.objective.value(),
            launcher=table.run.launcher,
            storage=None if table.run.storage is None else storage_of(table.run.storage, folder),
            checkpoint_every_s=table.run.checkpoint_every_s,
            max_usd=table.run.max_usd,
            on_deadline=table.run.on_deadline,
            replan=table.run.replan,
            env=table.run.env,
            sampling=table.run.sampling,
            policies=table.policies.value(),
            file=path.absolute(),
        )


def read_space(table: Mapping[str, Any], *, key: str = "space") -> Space:
    """Lists of choices as they are, and distributions by their scipy names: ``{loguniform = [1e-4, 1e-1]}``.

    Raises:
        InvalidInput: a value is neither.
    """
    space: dict[str, Any] = {}
    for name, value in table.items():
        where = f"{key}.{name}"
        if isinstance(value, list):
            space[name] = value
        elif isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), list):
            ((family, arguments),) = value.items()
            space[name] = distribution(family, arguments, key=f"{where}.{family}")
        else:
            raise InvalidInput(
                where,
                "must be a list of choices such as [16, 32], or one distribution such as "
                f"{{loguniform = [1e-4, 1e-1]}}, got {value!r}",
            )
    return space


_KNOWN = "{iteration_s = {1 = 10.0, 2 = 6.0}}"
_MEASURED = '{slots = [1, 2], budget_s = "60s"}'


def _profile(data: object, folder: Path) -> tuple[ScalingProfile | Measuring, Speeds]:
    if not isinstance(data, str | Mapping):
        raise InvalidInput(
            "profile",
            f"must be the path of a profile file, a profile such as {_KNOWN}, or how to measure one, such as "
            f"{_MEASURED}; got {data!r}",
        )
    if isinstance(data, Mapping) and "iteration_s" in data:
        for name in ("slots", "budget_s", "types"):
            if name in data:
                raise InvalidInput(
                    f"profile.{name}",
                    "says how to measure, and iteration_s gives what was measured; write either a profile such as "
                    f"{_KNOWN}, or how to measure one, such as {_MEASURED}",
                )
    if isinstance(data, str) or "iteration_s" in data:
        known = read_profile_table(data, folder=folder)
        return known.value(), known.known_speeds()
    return shaped(MeasuringTable, data, "profile").value(), Speeds()
