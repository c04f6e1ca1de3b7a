"""What may be said anew of a run, when it begins or goes on: its limits, and what happens at its deadline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rb_core.check import one_of, positive
from rb_core.errors import InvalidInput
from rb_core.plan import Objective
from rb_plugins.config.durations import factor, seconds
from rb_plugins.config.objective import ObjectiveTable
from rb_plugins.config.shape import shaped
from rb_plugins.tuning import ON_DEADLINE, AtDeadline, Tuning

_OPTIONS = {
    "deadline_s": "--deadline",
    "budget_usd": "--budget",
    "max_usd": "--max-usd",
    "run.max_usd": "--max-usd",
    "on_deadline": "--on-deadline",
    "run.on_deadline": "--on-deadline",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What may be changed when a run goes on; None leaves it as it was.

    Attributes:
        deadline_s: a deadline, in seconds since the run's first node was requested; takes the objective's place.
        budget_usd: a budget of the whole run; takes the objective's place.
        max_usd: hard limit of the whole bill.
        on_deadline: what happens when the deadline has come.
    """

    deadline_s: float | None = None
    budget_usd: float | None = None
    max_usd: float | None = None
    on_deadline: AtDeadline | None = None

    def __post_init__(self) -> None:
        for key in ("deadline_s", "budget_usd", "max_usd"):
            if getattr(self, key) is not None:
                positive(key, getattr(self, key))
        if self.deadline_s is not None and self.budget_usd is not None:
            raise InvalidInput("deadline_s", "must be left out where a budget is given: a run has one objective")
        if self.on_deadline is not None:
            one_of("on_deadline", self.on_deadline, ON_DEADLINE)

    def objective(self, before: Objective | None) -> Objective | None:
        """The objective that holds from now on; the wanted confidence stays."""
        if self.deadline_s is None and self.budget_usd is None:
            return before
        confidence = before.confidence if before else None
        return Objective(deadline_s=self.deadline_s, budget_usd=self.budget_usd, confidence=confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The same as the command is given it.

    Attributes:
        deadline: in words.
        budget_usd: as in `Terms`.
        max_usd: as in `Terms`.
        on_deadline: as in `Terms`.
        launcher: what starts trials, of a run that begins.
    """

    deadline: str | None = None
    budget_usd: float | None = None
    max_usd: float | None = None
    on_deadline: AtDeadline | None = None
    launcher: str | None = None

    def words(self) -> tuple[str, ...]:
        """The command's words that give these options."""
        given = {
            "--launcher": self.launcher,
            "--deadline": self.deadline,
            "--budget": self.budget_usd,
            "--max-usd": self.max_usd,
            "--on-deadline": self.on_deadline,
        }
        return tuple(word for name, value in given.items() if value is not None for word in (name, str(value)))

    def terms(self) -> Terms:
        """For a run that goes on. Raises `InvalidInput` under the option's name."""
        if self.launcher is not None:
            raise InvalidInput("--launcher", "must be left out with --resume: a run goes on with the one that it has")
        if self.deadline is not None and factor(self.deadline) is not None:
            raise InvalidInput(
                "--deadline",
                f"must be a time since the run began, such as 2h: {self.deadline!r} is a multiple of the fastest plan "
                "of the whole, part of which has been done under another",
            )
        with named_options():
            return Terms(
                deadline_s=None if self.deadline is None else asked_seconds(self.deadline, key="deadline_s"),
                budget_usd=self.budget_usd,
                max_usd=self.max_usd,
                on_deadline=self.on_deadline,
            )

    def of(self, tuning: Tuning) -> Tuning:
        """A run that begins, under these terms. Raises `InvalidInput` under the option's name."""
        objective = tuning.objective
        with named_options():
            if self.deadline is not None or self.budget_usd is not None:
                given = {
                    "deadline_s": _seconds_or_factor(self.deadline),
                    "budget_usd": self.budget_usd,
                    "confidence": objective.confidence,
                }
                table = {key: value for key, value in given.items() if value is not None}
                objective = shaped(ObjectiveTable, table).value()
            return replace(
                tuning,
                objective=objective,
                max_usd=tuning.max_usd if self.max_usd is None else self.max_usd,
                on_deadline=tuning.on_deadline if self.on_deadline is None else self.on_deadline,
                launcher=tuning.launcher if self.launcher is None else self.launcher,
            )


@contextmanager
def named_options() -> Iterator[None]:
    """Let errors within name the option in the place of the key."""
    try:
        yield
    except InvalidInput as error:
        if error.key in _OPTIONS:
            raise InvalidInput(_OPTIONS[error.key], error.problem) from None
        raise


def asked_seconds(text: str, *, key: str) -> float:
    """A duration in words, or a number of seconds, as an option holds it. Raises `InvalidInput` for anything else."""
    try:
        return float(text)
    except ValueError:
        return seconds(text, key=key)


def _seconds_or_factor(text: str | None) -> float | str | None:
    return text if text is None or factor(text) is not None else asked_seconds(text, key="deadline_s")
