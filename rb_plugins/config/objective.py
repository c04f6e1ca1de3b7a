"""The key `objective`: a deadline, absolute or relative, or a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from rb_core.errors import InvalidInput
from rb_core.plan import Objective
from rb_plugins.config import durations


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """A multiple of the fastest plan's expected time."""

    factor: float


_WORDS = f'{durations.WORDS}, or a multiple of the fastest plan\'s expected time such as "1.5x"'


def _deadline(value: object) -> object:
    if isinstance(value, str):
        factor = durations.factor(value)
        return durations.seconds(value, words=_WORDS) if factor is None else _Times(factor=factor)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput("", f"{_WORDS}, got {value!r}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveTable:
    """An `Objective` whose deadline may be in words."""

    deadline_s: Annotated[Any, BeforeValidator(_deadline)] = None
    budget_usd: float | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> Objective:
        """The objective.

        Raises:
            InvalidInput: it is none; the key is relative to `objective`.
        """
        relative = isinstance(self.deadline_s, _Times)
        return Objective(
            deadline_s=None if relative else self.deadline_s,
            deadline_factor=self.deadline_s.factor if relative else None,
            budget_usd=self.budget_usd,
            confidence=self.confidence,
        )


def objective_table(objective: Objective) -> dict[str, Any]:
    """The canonical form of an objective."""
    table: dict[str, Any] = {}
    if objective.deadline_s is not None:
        table["deadline_s"] = float(objective.deadline_s)
    if objective.deadline_factor is not None:
        table["deadline_s"] = f"{objective.deadline_factor!r}x"
    if objective.budget_usd is not None:
        table["budget_usd"] = float(objective.budget_usd)
    if objective.confidence is not None:
        table["confidence"] = float(objective.confidence)
    return table
