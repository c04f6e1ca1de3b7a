"""What would fail, said before anything is rented: one finding for each thing that was looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Protocol, runtime_checkable

from rb_core.errors import RubberBandError
from rb_core.hardware import Cloud


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    """Nothing stands in the way."""
    WARNING = "warning"
    """The run can start; it may fail of this, or this could not be found out."""
    PROBLEM = "problem"
    """The run would fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        verdict: how bad it is.
        subject: what was looked at, in a word or two.
        said: what was found.
        remedy: what to do; empty where all is well.
    """

    verdict: Verdict
    subject: str
    said: str
    remedy: str = ""


def ok(subject: str, said: str) -> Finding:
    """Nothing stands in the way."""
    return Finding(verdict=Verdict.OK, subject=subject, said=said)


def warning(subject: str, said: str, remedy: str) -> Finding:
    """The run may fail of it."""
    return Finding(verdict=Verdict.WARNING, subject=subject, said=said, remedy=remedy)


def problem(subject: str, said: str, remedy: str) -> Finding:
    """The run would fail of it."""
    return Finding(verdict=Verdict.PROBLEM, subject=subject, said=said, remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A renting call of an earlier run that was refused.

    Attributes:
        request: what had been asked for, in the provider's own plain values.
        reason: why it was refused.
        at: when.
    """

    request: Mapping[str, object]
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A run that is about to begin, as far as it is known.

    Attributes:
        cloud: what it may run on.
        peak: most nodes of each type held at one time, by the type's name.
        length_s: how long it is expected to take; None where that is not known yet.
        planned: whether `peak` is a plan's; otherwise it is what `max_nodes` allows.
        launcher: name of what starts its trials.
        refusals: what earlier runs of this machine were refused, the newest last.
    """

    cloud: Cloud
    peak: Mapping[str, int]
    length_s: float | None = None
    planned: bool = False
    launcher: str = ""
    refusals: Sequence[Refusal] = field(default=())


@runtime_checkable
class Inspecting(Protocol):
    """What a provider offers besides, that can say in advance what of a run would fail."""

    def inspect(self, intent: Intent) -> Sequence[Finding]:
        """Look at all that the run needs. Changes nothing, costs nothing; blocks for a bounded time.

        What cannot be found out is a finding of its own; nothing is raised for it.
        """


class UnreadyRun(RubberBandError):
    """Something that a run needs is not as it must be; nothing was started.

    Attributes:
        problems: what, and what to do.
    """

    exit_status: ClassVar[int] = 2

    def __init__(self, problems: Sequence[Finding]) -> None:
        lines = (f"{finding.subject}: {finding.said}; {finding.remedy}" for finding in problems)
        super().__init__("\n".join([f"{len(problems)} problem(s) would make this run fail:", *lines]))
        self.problems = tuple(problems)
