"""What an account holds of ours, for people and as JSON: each thing with its run, its price so far and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rb_core.collecting import Collected, Found
from rb_core.errors import InvalidInput
from rb_core.estate import NOTHING_KNOWN, Belonging, Kind, Known, Trouble
from rb_core.events import SCHEMA
from rb_core.hardware import Market, PriceBook
from rb_core.report import Table, money

Price = Callable[[Belonging], float | None]
"""What a belonging has cost so far, in usd; None where that is not known."""

_WORDS = ("what", "run", "run's state", "node", "type", "zone", "market", "state", "since", "expires")


def price_so_far(runs: Mapping[str, Known], book: PriceBook | None, now: datetime) -> Price:
    """Prices of machines: what their run's log says, else what the book has.

    Counted from the request on, of which the first half minute or so is not billed.

    Args:
        runs: the runs that are known here.
        book: prices of the provider; None where there are none.
        now: the wall clock, UTC.
    """

    def price(belonging: Belonging) -> float | None:
        if belonging.kind is not Kind.NODE or belonging.since is None:
            return None
        per_hour = _known(belonging, runs).usd_per_hour.get(_node(belonging, runs))
        if per_hour is None and book is not None:
            per_hour = _listed(belonging, book)
        return None if per_hour is None else per_hour * max(0.0, (now - belonging.since).total_seconds()) / 3600.0

    return price


def nodes_answer(seen: Collected, runs: Mapping[str, Known], price: Price) -> dict[str, Any]:
    """What `rb-tune nodes --json` prints."""
    return {
        "schema": SCHEMA,
        "belongings": [
            {**_record(found.belonging, runs), "cost_usd": price(found.belonging)} for found in seen.found
        ],
        "troubles": _troubles(seen.troubles),
    }  # fmt: skip


def nodes_table(seen: Collected, runs: Mapping[str, Known], price: Price, where: str) -> Table:
    """Everything that was seen; times are UTC."""
    return Table(
        title=f"{len(seen.found)} thing(s) of ours in {where}",
        columns=("id", *_WORDS, "usd"),
        words=_WORDS,
        rows=tuple(_row(found.belonging, runs, price(found.belonging)) for found in seen.found),
    )


def gc_answer(collected: Collected, runs: Mapping[str, Known], *, dry_run: bool) -> dict[str, Any]:
    """What `rb-tune gc --json` prints."""
    return {
        "schema": SCHEMA,
        "dry_run": dry_run,
        "ended": [_judged(found, runs) for found in collected.found if found.judgement.ends and found.gone],
        "to_end": [_judged(found, runs) for found in collected.found if found.judgement.ends and not found.gone],
        "left_alone": [_judged(found, runs) for found in collected.found if not found.judgement.ends],
        "troubles": _troubles(collected.troubles),
    }


def gc_table(collected: Collected, *, dry_run: bool) -> Table:
    """What became of each thing, and why."""
    return Table(
        title=_summary(collected, dry_run=dry_run),
        columns=("id", "what", "region", "run", "outcome", "why"),
        words=("what", "region", "run", "outcome", "why"),
        rows=tuple(
            (
                found.belonging.ident,
                found.belonging.kind.value,
                found.belonging.region,
                found.belonging.run,
                _outcome(found, dry_run),
                found.judgement.reason,
            )
            for found in collected.found
        ),
    )


def _summary(collected: Collected, *, dry_run: bool) -> str:
    going = [found for found in collected.found if found.judgement.ends]
    ended = sum(found.gone for found in going)
    alone = len(collected.found) - len(going)
    what = f"{len(going)} would be ended" if dry_run else f"{ended} of {len(going)} ended"
    return f"{what}, {alone} left alone"


def _outcome(found: Found, dry_run: bool) -> str:
    if not found.judgement.ends:
        return "left alone"
    if found.gone:
        return "ended"
    return "would end" if dry_run else "still there"


def _row(belonging: Belonging, runs: Mapping[str, Known], usd: float | None) -> tuple[str, ...]:
    return (
        belonging.ident,
        belonging.kind.value,
        belonging.run,
        _life(belonging, runs),
        _node(belonging, runs),
        belonging.shape,
        belonging.zone or belonging.region,
        belonging.market,
        belonging.state,
        _short(belonging.since),
        _short(belonging.expires),
        "" if belonging.kind is not Kind.NODE else "?" if usd is None else money(usd).removesuffix(" usd"),
    )


def _record(belonging: Belonging, runs: Mapping[str, Known]) -> dict[str, Any]:
    return {
        "id": belonging.ident,
        "kind": belonging.kind.value,
        "region": belonging.region,
        "run": belonging.run or None,
        "life": _life(belonging, runs) or None,
        "node": _node(belonging, runs) or None,
        "type": belonging.shape or None,
        "zone": belonging.zone or None,
        "market": belonging.market or None,
        "state": belonging.state or None,
        "since": _iso(belonging.since),
        "expires": _iso(belonging.expires),
    }


def _judged(found: Found, runs: Mapping[str, Known]) -> dict[str, Any]:
    return {**_record(found.belonging, runs), "reason": found.judgement.reason}


def _troubles(troubles: Sequence[Trouble]) -> list[dict[str, str]]:
    return [
        {"region": t.region, "subject": t.subject, "problem": t.problem, "remedy": t.remedy} for t in troubles
    ]  # fmt: skip


def _life(belonging: Belonging, runs: Mapping[str, Known]) -> str:
    return _known(belonging, runs).life.value if belonging.run else ""


def _node(belonging: Belonging, runs: Mapping[str, Known]) -> str:
    """The log tells which of a renting call's nodes it is; its tag only where the call was for one."""
    return _known(belonging, runs).rented.get(belonging.ident, "") or belonging.node


def _known(belonging: Belonging, runs: Mapping[str, Known]) -> Known:
    return runs.get(belonging.run, NOTHING_KNOWN)


def _listed(belonging: Belonging, book: PriceBook) -> float | None:
    try:
        market = Market(belonging.market)
        return book.offering(belonging.shape, region=belonging.region, market=market).instance_type.usd_per_hour
    except (InvalidInput, ValueError):
        return None


def _short(time: datetime | None) -> str:
    return "" if time is None else f"{time:%m-%d %H:%M}"


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="seconds")
