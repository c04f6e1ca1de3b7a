"""The trial and the study as an objective sees them in a process of its own."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, TypeVar

from optuna.distributions import (
    BaseDistribution,
    CategoricalChoiceType,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
)
from optuna.study import StudyDirection
from optuna.trial import BaseTrial

from rb_core.trial import Message
from rb_optuna._compat import NESTED as NESTED
from rb_optuna.gate import Gate, Line
from rb_optuna.messages import Answer, Facts, SetAttribute, StopStudy, Suggest

T = TypeVar("T")


def asked(line: Line, message: Message) -> Any:
    """What the parent answers. Raises what asking raised there."""
    answer = line.ask(message)
    if not isinstance(answer, Answer):
        raise TypeError(f"an answer was due, not {answer!r}")
    if answer.error is not None:
        raise answer.error
    return answer.value


class ProxyStudy:
    """What `trial.study` is in an objective's own process: the study itself stays with the parent.

    Attributes:
        study_name: its name.
        directions: its directions.
    """

    def __init__(self, line: Line, facts: Facts) -> None:
        self.study_name = facts.study_name
        self.directions = list(facts.directions)
        self._line = line

    @property
    def direction(self) -> StudyDirection:
        """The direction of the study."""
        return self.directions[0]

    def stop(self) -> None:
        """Let no further trial begin."""
        self._line.send(StopStudy())

    def optimize(self, *args: Any, **kwargs: Any) -> None:
        """Refuse, as a study does within its own objective."""
        raise RuntimeError(NESTED)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"`trial.study.{name}` is not available in an objective that runs in a process of its own; "
            'use `RubberBandExecutor(..., launcher="inline")`, or open the study anew with `optuna.load_study`.'
        )


class ProxyTrial(BaseTrial):
    """A trial whose calls are answered by the parent; every rank of a trial has one.

    All ranks see the same parameters and the same verdicts, exactly. Only rank 0 is heard: what another rank
    reports or sets changes nothing.
    """

    def __init__(self, line: Line, gate: Gate, facts: Facts, *, rank: int) -> None:
        self._line = line
        self._gate = gate
        self._facts = facts
        self._rank = rank
        self._params = dict(facts.params)
        self._distributions = dict(facts.distributions)
        self._user_attrs = dict(facts.user_attrs)
        self._system_attrs = dict(facts.system_attrs)
        self._constraints = dict(facts.constraints)

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Suggest a value for the floating point parameter."""
        return float(self._suggest(name, FloatDistribution(low, high, log=log, step=step)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Suggest a value for the integer parameter."""
        return int(self._suggest(name, IntDistribution(low, high, log=log, step=step)))

    def suggest_categorical(self, name: str, choices: Sequence[CategoricalChoiceType]) -> CategoricalChoiceType:  # type: ignore[override]
        """Suggest a value for the categorical parameter."""
        value: CategoricalChoiceType = self._suggest(name, CategoricalDistribution(choices))
        return value

    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        """As `suggest_float`."""
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        """As `suggest_float` with ``log=True``."""
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> float:
        """As `suggest_float` with ``step=q``."""
        return self.suggest_float(name, low, high, step=q)

    def report(self, value: float, step: int) -> None:
        """Report an intermediate value for a given step."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"The `value` argument is of type '{type(value)}' but supposed to be a float.") from None
        try:
            whole = int(step)
        except (TypeError, ValueError):
            raise TypeError(f"The `step` argument is of type '{type(step)}' but supposed to be an int.") from None
        if whole < 0:
            raise ValueError(f"The `step` argument is {whole} but cannot be negative.")
        if self._rank == 0:
            self._gate.report(number, whole)

    def should_prune(self) -> bool:
        """Whether the trial was dropped; waits at a rung until that is decided."""
        return self._gate.should_prune()

    def set_user_attr(self, key: str, value: Any) -> None:
        """Set a user attribute."""
        self._set("set_user_attr", key, value)
        self._user_attrs[key] = value

    def set_system_attr(self, key: str, value: Any) -> None:
        """Set a system attribute."""
        self._set("set_system_attr", key, value)
        self._system_attrs[key] = value

    def set_constraint(self, key: str, value: float) -> None:
        """Set a constraint."""
        self._set("set_constraint", key, value)
        self._constraints.setdefault(key, float(value))

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that have been suggested."""
        return dict(self._params)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """What they were drawn from."""
        return dict(self._distributions)

    @property
    def user_attrs(self) -> dict[str, Any]:
        """User attributes."""
        return dict(self._user_attrs)

    @property
    def system_attrs(self) -> dict[str, Any]:
        """System attributes."""
        return dict(self._system_attrs)

    @property
    def constraints(self) -> dict[str, float]:
        """Constraints."""
        return dict(self._constraints)

    @property
    def datetime_start(self) -> datetime.datetime | None:
        """When the trial began."""
        return self._facts.datetime_start

    @property
    def number(self) -> int:
        """The trial's number in the study."""
        return self._facts.number

    @property
    def study(self) -> ProxyStudy:
        """What an objective may use of its study."""
        return ProxyStudy(self._line, self._facts)

    def _suggest(self, name: str, distribution: BaseDistribution) -> Any:
        if name in self._distributions:
            check_distribution_compatibility(self._distributions[name], distribution)
        else:
            self._params[name] = asked(self._line, Suggest(name=name, distribution=distribution))
            self._distributions[name] = distribution
        return self._params[name]

    def _set(self, kind: str, key: str, value: Any) -> None:
        if self._rank == 0:
            asked(self._line, SetAttribute(kind=kind, key=key, value=value))
