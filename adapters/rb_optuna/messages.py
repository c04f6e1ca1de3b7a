"""What a rank that runs an objective and the parent, which alone talks to Optuna, say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection

from rb_core.trial import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a trial's proxy knows when its objective begins.

    Attributes:
        number: the trial's number in the study.
        params: parameters that have values already.
        distributions: what these were drawn from.
        user_attrs: user attributes.
        system_attrs: system attributes.
        constraints: constraints that are set.
        first_step: the first step that was ever reported; None when none was.
        last_step: the last step that was ever reported; None when none was.
        datetime_start: when the trial began.
        study_name: name of the study.
        directions: of the study.
    """

    number: int
    params: Mapping[str, Any]
    distributions: Mapping[str, BaseDistribution]
    user_attrs: Mapping[str, Any]
    system_attrs: Mapping[str, Any]
    constraints: Mapping[str, float]
    first_step: int | None
    last_step: int | None
    datetime_start: datetime | None
    study_name: str
    directions: tuple[StudyDirection, ...]


# From a rank to the parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach(Message):
    """The objective is about to begin; answered with `Facts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggest(Message):
    """A parameter is needed; answered with its value."""

    name: str
    distribution: BaseDistribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Message):
    """An intermediate value; not answered.

    Attributes:
        value: the value.
        step: its step.
        iterations: iterations that are done with it.
        stored: whether the study has it already.
    """

    value: float
    step: int
    iterations: int
    stored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAttribute(Message):
    """A user attribute, a system attribute or a constraint, answered when it is stored.

    Attributes:
        kind: name of the method of `optuna.Trial` that takes it.
        key: its key.
        value: its value.
    """

    kind: str
    key: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StopStudy(Message):
    """`study.stop()` was called in the objective; not answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanResume(Message):
    """The objective keeps what it needs to go on from a checkpoint; not answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRung(Message):
    """Rank 0 asks whether to prune, at a rung; answered with `Verdict` once the rung is decided."""

    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed(Message):
    """Rank 0 of several asked whether to prune where nothing is decided; not answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow(Message):
    """Another rank asks for the `call`-th answer, from 0, that rank 0 got; answered with `Verdict`."""

    call: int


class End(StrEnum):
    """How an objective ended."""

    VALUE = "value"
    """It returned."""
    PRUNED = "pruned"
    """It raised `optuna.TrialPruned`."""
    FAILED = "failed"
    """It raised something else."""
    SUSPENDED = "suspended"
    """It was unwound to go on later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Message):
    """The objective has ended; not answered.

    Attributes:
        end: how.
        value: what it returned.
        error: what it raised.
        pickled: the same from another process, as cloudpickle wrote it; empty where that is impossible.
        words: what it raised, in words.
        traceback: of that, from another process.
        lost_peer: whether it looks as if another rank had gone first.
    """

    end: End
    value: Any = None
    error: Exception | None = None
    pickled: bytes = b""
    words: str = ""
    traceback: str = ""
    lost_peer: bool = False


# From the parent to a rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Message):
    """What was asked for, or the error that asking for it raised."""

    value: Any = None
    error: Exception | None = None


class Order(StrEnum):
    """What a trial that asked whether to prune is to do."""

    CONTINUE = "continue"
    """Go on in this process."""
    PRUNE = "prune"
    """It was dropped."""
    SUSPEND = "suspend"
    """Give the slots away; it goes on from its checkpoint in another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Message):
    """The answer to a question whether to prune.

    Attributes:
        order: what to do.
        to_iteration: where the next rung lies.
    """

    order: Order
    to_iteration: int = 0
