"""What an account holds of ours, run by run, and what of it may be ended: values, one rule, and the port."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from rb_core.errors import InvalidInput

SETTLING_S = 60.0
"""A renting call whose caller is dead has brought by then, for all to see, whatever it will bring."""


class Kind(StrEnum):
    """What can be left behind in an account."""

    NODE = "node"
    """A machine."""
    DISK = "disk"
    """A disk that is not part of a machine any more."""
    REQUEST = "request"
    """A standing request for machines."""
    SECRET = "secret"
    """An entry in which nodes find how to reach their run."""
    GROUP = "group"
    """A rule of who may reach whom; it costs nothing, and runs share it."""


class Life(StrEnum):
    """What this machine knows of a run."""

    LIVES = "lives"
    """A process is at work on it."""
    ABANDONED = "abandoned"
    """Its log is here and was never closed, and nobody is at work on it."""
    CLOSED = "closed"
    """Its log is here and closed: everything was to be given back."""
    UNKNOWN = "unknown"
    """Its log is on another machine, or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """One thing in an account that carries our tags.

    Attributes:
        kind: what it is.
        ident: the provider's own name of it.
        region: where.
        run: the run that its tag names; empty where the tag is missing or it belongs to none.
        node: the node that it is, or was part of, in the run's own words.
        shape: its type or size.
        zone: where it stands.
        market: how it is bought; empty of what is not bought.
        state: how it stands, in the provider's words.
        ending: whether it is about to be gone, so that nothing is left to do.
        used: of a group, whether anything is in it.
        since: when it was asked for; None where that is not known.
        expires: when it ends by itself; None where that is not known.
    """

    kind: Kind
    ident: str
    region: str
    run: str = ""
    node: str = ""
    shape: str = ""
    zone: str = ""
    market: str = ""
    state: str = ""
    ending: bool = False
    used: bool = False
    since: datetime | None = None
    expires: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that could not be looked at, or not be ended.

    Attributes:
        region: where.
        subject: what: the provider's name of a thing, or a kind of things.
        problem: why not.
        remedy: what a person can do.
        passing: whether it may succeed in a moment.
        unseen: the kind of things that could not be looked at; None where one thing could not be ended.
    """

    region: str
    subject: str
    problem: str
    remedy: str
    passing: bool = False
    unseen: Kind | None = None

    def __str__(self) -> str:
        return f"{self.region}: {self.subject}: {self.problem}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one region holds of ours.

    Attributes:
        belongings: what was found.
        troubles: what could not be looked at; all else was.
    """

    belongings: tuple[Belonging, ...] = ()
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the log of one run tells of what it may have left behind.

    Attributes:
        life: how the run stands.
        settled: until when one of its renting calls may still bring something; None where none can.
        rented: the provider's own names of machines that it was granted, with the names of their nodes.
        usd_per_hour: what each of its nodes costs, by name.
    """

    life: Life
    settled: datetime | None = None
    rented: Mapping[str, str] = field(default_factory=dict)
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)


NOTHING_KNOWN = Known(life=Life.UNKNOWN)


class Estate(Protocol):
    """Lists and ends what an account holds of ours; a provider's other half, which needs no run.

    Every call blocks for a bounded time and can be repeated.
    """

    name: str

    def regions(self) -> Sequence[str]:
        """All regions that the account can use. Raises `RubberBandError` where they cannot be listed."""

    def usual_region(self) -> str:
        """The region that this machine is set up for; empty where it is for none."""

    def look(self, region: str, *, run: str | None = None, also: Collection[str] = ()) -> Inventory:
        """Everything in a region that carries our tags, what is about to be gone included.

        Args:
            region: where.
            run: only what is tagged with this run.
            also: the provider's own names of machines to look at whatever their tags say.
        """

    def end(self, region: str, belongings: Sequence[Belonging]) -> Sequence[Trouble]:
        """End these; what could not be ended is told. Returns before they are gone. Idempotent."""

    def close(self) -> None:
        """Let go of connections. Idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether a belonging is to be ended, and why or why not.

    Attributes:
        ends: whether it is.
        reason: in words.
        altered: whether its tags contradict the log, so that a person has to look.
    """

    ends: bool
    reason: str
    altered: bool = False


def judge_all(
    inventory: Inventory, runs: Mapping[str, Known], now: datetime, *, named: str | None = None
) -> tuple[Judgement, ...]:
    """What becomes of everything in one region, in its order.

    Nothing of a run that lives is ended, nothing whose tags were changed under a run that is known here (for the tags
    are all that says whose it is), and nothing that runs share while anything of any run stays.

    Args:
        inventory: all of one region.
        runs: the runs that are known here, by their ids.
        now: the wall clock, UTC.
        named: the one run that is to be collected, where a person named it.
    """
    belongings = inventory.belongings
    own = {belonging.ident: _judge(belonging, runs, now, named) for belonging in belongings if not _shared(belonging)}
    staying = next((belonging for belonging in belongings if _stays(belonging, own)), None)
    living = next((run for run, known in runs.items() if known.life is Life.LIVES), None)
    if living is not None:
        kept = f"run {living} lives and may come to use it"
    elif staying is not None:
        kept = f"{staying.ident} stays, whose run may come to use it"
    else:
        kept = f"{inventory.troubles[0].subject} could not be listed, and one may use it" if inventory.troubles else ""
    return tuple(
        _judge_shared(belonging, kept) if _shared(belonging) else own[belonging.ident] for belonging in belongings
    )


def _shared(belonging: Belonging) -> bool:
    return belonging.kind is Kind.GROUP and not belonging.run


def _stays(belonging: Belonging, judged: Mapping[str, Judgement]) -> bool:
    return belonging.ident in judged and not judged[belonging.ident].ends


def _judge_shared(group: Belonging, kept: str) -> Judgement:
    if group.used or kept:
        return Judgement(ends=False, reason="is in use" if group.used else kept)
    return Judgement(ends=True, reason="nothing uses it")


def _judge(belonging: Belonging, runs: Mapping[str, Known], now: datetime, named: str | None) -> Judgement:
    owner = next((run for run, known in runs.items() if belonging.ident in known.rented), belonging.run)
    known = runs.get(owner, NOTHING_KNOWN)
    expired = belonging.expires is not None and belonging.expires <= now
    if known.life is Life.LIVES:
        return Judgement(ends=False, reason=f"run {owner} lives; `rb-tune stop {owner}` ends it")
    if owner != belonging.run:
        said = f"is tagged as run {belonging.run!r}" if belonging.run else "carries no run's tag any more"
        reason = f"{said}, but the log of run {owner} rented it"
        return Judgement(ends=False, reason=reason, altered=not belonging.ending)
    if known.life in (Life.CLOSED, Life.ABANDONED):
        return Judgement(ends=True, reason=f"run {owner} is {known.life.value}")
    if expired and belonging.expires is not None:
        return Judgement(ends=True, reason=f"expired at {belonging.expires:%Y-%m-%d %H:%M} UTC")
    if named is not None and owner == named:
        return Judgement(ends=True, reason=f"run {owner} was named")
    until = "has no end of its own"
    if belonging.expires is not None:
        until = f"ends by itself at {belonging.expires:%Y-%m-%d %H:%M} UTC"
    whose = f"the log of run {owner} is not on this machine" if owner else "its tags name no run"
    by_name = f"; `rb-tune gc --run {owner}` ends it at once" if owner else ""
    return Judgement(ends=False, reason=f"{whose}; it {until}{by_name}")


def check_run(key: str, run: str, runs: Mapping[str, Known]) -> str:
    """A run that may be collected by its name.

    Raises:
        InvalidInput: it lives, or it is no name of one run.
    """
    if not run.strip() or set(run) & set("*?"):
        raise InvalidInput(key, f"must be the id of one run, with neither '*' nor '?', got {run!r}")
    if run in runs and runs[run].life is Life.LIVES:
        raise InvalidInput(key, f"must be a run that nobody is at work on; {run} lives, `rb-tune stop {run}` ends it")
    return run
