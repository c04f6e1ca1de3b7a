"""Ends what is left behind in an account, and looks again until it is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rb_core.clock import pause
from rb_core.errors import InvalidInput, RubberBandError
from rb_core.estate import Belonging, Estate, Inventory, Judgement, Kind, Known, Life, Trouble, judge_all
from rb_core.ports import Clock

POLL_S = 5.0
"""Longest pause between two looks at what is to go; the first are shorter, for much of it goes at once."""

_FIRST_S = 0.25

PATIENCE_S = 300.0
"""How long what is to go may take; machines take a minute or two to shut down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One belonging, and what becomes of it.

    Attributes:
        belonging: as it was seen last.
        judgement: what becomes of it.
        gone: whether it was seen no more.
    """

    belonging: Belonging
    judgement: Judgement
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What came of collecting.

    Attributes:
        found: everything with our tags.
        troubles: what could not be looked at, not be ended, or has to be looked at by a person.
    """

    found: tuple[Found, ...]
    troubles: tuple[Trouble, ...]

    @property
    def left(self) -> tuple[Belonging, ...]:
        """What was to go and is still there."""
        return tuple(f.belonging for f in self.found if f.judgement.ends and not f.gone)


@dataclass(slots=True)
class _Region:
    """The books of one region while it is collected."""

    name: str
    found: dict[str, Found] = field(default_factory=dict)
    unseen: tuple[Trouble, ...] = ()
    refused: tuple[Trouble, ...] = ()

    def take(self, inventory: Inventory, runs: Mapping[str, Known], now: datetime, run: str | None) -> None:
        """What is seen now."""
        self.unseen = inventory.troubles
        judgements = judge_all(inventory, runs, now, named=run)
        for belonging, judgement in zip(inventory.belongings, judgements, strict=True):
            self.found[belonging.ident] = Found(belonging=belonging, judgement=judgement)
        hidden = {trouble.unseen for trouble in inventory.troubles}
        seen = {belonging.ident for belonging in inventory.belongings}
        for ident in self.found.keys() - seen:
            before = self.found[ident]
            if before.belonging.kind not in hidden:
                self.found[ident] = Found(belonging=before.belonging, judgement=before.judgement, gone=True)

    @property
    def going(self) -> list[Belonging]:
        return [f.belonging for f in self.found.values() if f.judgement.ends and not f.gone]

    @property
    def hopeless(self) -> bool:
        """Whether all that is left was refused for good, or cannot even be looked at."""
        blind = {trouble.unseen for trouble in self.unseen if not trouble.passing}
        lasting = {trouble.subject for trouble in self.refused if not trouble.passing}
        if not self.going:
            return Kind.NODE in blind
        return all(belonging.ident in lasting or belonging.kind in blind for belonging in self.going)


def collect(
    estate: Estate,
    regions: Sequence[str],
    runs: Callable[[], Mapping[str, Known]],
    clock: Clock,
    *,
    run: str | None = None,
    dry_run: bool = False,
    patience_s: float = PATIENCE_S,
    poll_s: float = POLL_S,
) -> Collected:
    """End everything in these regions that nobody will: see `judge_all`. Idempotent.

    What a refusal leaves in one region keeps no other from being collected. Looked at again until nothing is left and
    no renting call of a dead run may still bring something, or `patience_s` is over.

    Args:
        estate: the account.
        regions: where to look.
        runs: tells of the runs that are known here, by their ids; asked before each round, since a dead run may be
            resumed meanwhile.
        clock: the time.
        run: only what belongs to this one.
        dry_run: end nothing.
        patience_s: how long to wait for the last to be gone.
        poll_s: longest pause between two looks.
    """
    also = _rented(runs(), run)
    books = [_Region(name=name) for name in dict.fromkeys(regions)]
    end_s, pause_s = clock.now() + patience_s, min(_FIRST_S, poll_s)
    open_books = books
    while True:
        seen = [(book, estate.look(book.name, run=run, also=also)) for book in open_books]
        known = runs()
        for book, inventory in seen:
            book.take(inventory, known, clock.utc(), run)
        if dry_run:
            break
        unsettled = _unsettled(known, run, clock.utc())
        open_books = [book for book in open_books if (book.going or unsettled) and not book.hopeless]
        for book in open_books:
            standing = [belonging for belonging in book.going if not belonging.ending]
            book.refused = tuple(estate.end(book.name, standing)) if standing else ()
        if not open_books or clock.now() >= end_s:
            break
        pause(clock, pause_s)
        pause_s = min(2 * pause_s, poll_s)
    return Collected(
        found=tuple(found for book in books for found in book.found.values()),
        troubles=tuple(trouble for book in books for trouble in _troubles(book, dry_run)),
    )


def _rented(runs: Mapping[str, Known], run: str | None) -> Collection[str]:
    """Machines that runs which nobody is at work on were granted: their tags may have been changed since."""
    chosen = runs.values() if run is None else [runs[run]] if run in runs else []
    return sorted({ident for known in chosen if known.life is Life.ABANDONED for ident in known.rented})


def _unsettled(runs: Mapping[str, Known], run: str | None, now: datetime) -> bool:
    chosen = runs.values() if run is None else [runs[run]] if run in runs else []
    return any(
        known.settled is not None and known.settled > now
        for known in chosen
        if known.life in (Life.ABANDONED, Life.CLOSED)
    )


def _troubles(book: _Region, dry_run: bool) -> Sequence[Trouble]:
    left = {belonging.ident for belonging in book.going}
    told = [*book.unseen, *(trouble for trouble in book.refused if trouble.subject in left)]
    for found in book.found.values():
        belonging = found.belonging
        if found.judgement.altered and not found.gone:
            told.append(
                Trouble(
                    region=book.name,
                    subject=belonging.ident,
                    problem=found.judgement.reason,
                    remedy="put the tag back, or end it by hand",
                )
            )
    refused = {trouble.subject for trouble in told}
    if not dry_run:
        told += [
            Trouble(
                region=book.name,
                subject=belonging.ident,
                problem=f"is still {belonging.state or 'there'}",
                remedy="run `rb-tune gc` again in a few minutes",
            )
            for belonging in book.going
            if belonging.ident not in refused
        ]
    return told


def check_seen(collected: Collected) -> None:
    """Raise `InvalidInput` where nothing at all could be looked at, for one and the same reason."""
    told = {(trouble.problem, trouble.remedy) for trouble in collected.troubles}
    blind = {trouble.unseen for trouble in collected.troubles} == set(Kind)
    if len(told) == 1 and blind and not collected.found and not any(each.passing for each in collected.troubles):
        regions = ", ".join(dict.fromkeys(trouble.region for trouble in collected.troubles))
        ((problem, remedy),) = told
        raise InvalidInput("", f"nothing in {regions} could be looked at: {problem}; {remedy}")


class UncollectedEstate(RubberBandError):
    """Something of ours is left in an account, or could not be looked at.

    Attributes:
        troubles: what, why and what to do.
    """

    def __init__(self, troubles: Sequence[Trouble]) -> None:
        lines = [f"{len(troubles)} thing(s) of ours could not be looked at or ended:", *map(str, troubles)]
        super().__init__("\n".join(lines))
        self.troubles = tuple(troubles)
