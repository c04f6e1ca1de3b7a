"""How long nodes took to start in the runs of this user: `latencies.json` beside the runs, pool by pool."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rb_core.clock import pause
from rb_core.errors import InvalidInput, UnusableLog
from rb_core.eventlog import read_log
from rb_core.events import SCHEMA
from rb_core.hardware import Cloud, MarketPolicy
from rb_core.ports import Clock
from rb_core.startups import Pool, Startups, startups
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import read_table
from rb_plugins.rundir import RunDirectory, write_json

FILE = "latencies.json"
"""Its name, in the folder that holds the runs' folder."""

MOST_STARTS = 64
"""Starts that are kept of one pool, the newest: a cloud of last year says little."""

MOST_REFUSALS = 16
"""Refusals that are kept of one pool, the newest."""

MOST_POOLS = 256
"""Pools that are kept, those with the newest starts or refusals."""

SIMULATED = ("local",)
"""Providers whose nodes start when the file says so: there is nothing to learn from them."""

_LOCK_S = 5.0
"""Another process holds the file for milliseconds; one that is halted meanwhile must not halt others."""

_LOOK_S = 0.05
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRow:
    """One node that began to run, as `rb_core.startups.NodeStart`."""

    node: str
    run: str
    utc: str
    launch_s: float
    init_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalRow:
    """One renting call that was refused, as `rb_core.startups.Refusal`."""

    run: str
    utc: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """One pool, as `rb_core.startups.Pool`, with what was seen of it, the oldest first."""

    provider: str
    region: str
    zone: str
    instance_type: str
    market: str
    starts: tuple[StartRow, ...] = ()
    refused: tuple[RefusalRow, ...] = ()

    @property
    def pool(self) -> Pool:
        """Where its nodes come from."""
        return Pool(
            provider=self.provider,
            region=self.region,
            zone=self.zone,
            instance_type=self.instance_type,
            market=self.market,
        )

    @property
    def newest(self) -> str:
        """When something was seen of it last."""
        return max([*(row.utc for row in self.starts), *(row.utc for row in self.refused)], default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyTable:
    """What the file holds."""

    pools: tuple[PoolRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of the starts of a cloud's nodes.

    Attributes:
        starts: of all its pools, by instance type.
        refused: renting calls that were refused.
    """

    starts: dict[str, tuple[StartRow, ...]] = field(default_factory=dict)
    refused: tuple[RefusalRow, ...] = ()

    @property
    def every(self) -> tuple[StartRow, ...]:
        """All starts."""
        return tuple(row for rows in self.starts.values() for row in rows)


class LatencyBook:
    """The file, which processes of one user share. Whatever is wrong with it, no run is the worse for it."""

    def __init__(self, home: Path) -> None:
        """A book that may not exist yet.

        Args:
            home: the folder that holds the runs' folder.
        """
        self._path = home / FILE

    def seen(self, cloud: Cloud) -> Seen:
        """What is known of the pools that a cloud's nodes come from; nothing where nodes start as the file says."""
        if cloud.provider in SIMULATED:
            return Seen()
        markets = {found.name: {found.market.value} for found in cloud.instance_types}
        if cloud.market is MarketPolicy.SPOT_THEN_ON_DEMAND:
            markets = {name: {"spot", "on_demand"} for name in markets}
        starts: dict[str, tuple[StartRow, ...]] = {}
        refused: tuple[RefusalRow, ...] = ()
        try:
            pools = self._read().pools
        except InvalidInput as error:
            _logger.warning("%s cannot be used: %s", self._path, error)
            return Seen()
        for row in pools:
            here = (row.provider, row.region) == (cloud.provider, cloud.region)
            if here and row.market in markets.get(row.instance_type, ()):
                starts[row.instance_type] = (*starts.get(row.instance_type, ()), *row.starts)
                refused += row.refused
        return Seen(starts={name: rows for name, rows in starts.items() if rows}, refused=refused)

    def add(self, told: Startups, clock: Clock) -> None:
        """Keep what a log tells; what is in the file already is not kept twice. Tells of trouble in the log alone."""
        if not (told.starts or told.refusals):
            return
        try:
            with _locked(self._path.with_suffix(".lock"), clock):
                pools = {row.pool: row for row in self._read().pools}
                for pool, row in _rows(told).items():
                    pools[pool] = _joined(pools[pool], row) if pool in pools else row
                newest = sorted(pools.values(), key=lambda row: row.newest)[-MOST_POOLS:]
                write_json(self._path, {"schema": SCHEMA, **asdict(_bounded(newest))})
        except (OSError, TimeoutError, InvalidInput) as error:
            _logger.warning("how long nodes took to start could not be kept in %s: %s", self._path, error)

    def _read(self) -> LatencyTable:
        """What the file holds. Raises `InvalidInput` where a later version wrote it; a damaged one is put aside."""
        if not self._path.exists():
            return LatencyTable()
        try:
            return shaped(LatencyTable, read_table(self._path, nulls_under=("pools",)), free=("pools",))
        except InvalidInput as error:
            if error.key == "schema":
                raise
            _logger.warning("%s is damaged (%s) and begun anew", self._path, error)
            return LatencyTable()


def remember(directory: RunDirectory, provider: str, clock: Clock) -> None:
    """Keep what the log of a run tells of the starts of its nodes, for the plans to come.

    Args:
        directory: of the run; of one that is not among others nothing is kept.
        provider: the run's.
        clock: the time.
    """
    if provider in SIMULATED or directory.home is None or not directory.began:
        return
    try:
        told = startups(read_log(directory.events).events)
    except UnusableLog as error:
        _logger.warning("how long nodes took to start is not known: %s", error)
        return
    LatencyBook(directory.home).add(told, clock)


def _rows(told: Startups) -> dict[Pool, PoolRow]:
    rows: dict[Pool, PoolRow] = {}
    for start in told.starts:
        row = rows.get(start.pool) or PoolRow(**asdict(start.pool))
        kept = StartRow(
            node=start.node, run=start.run, utc=start.utc, launch_s=start.launch_s, init_s=start.init_s
        )  # fmt: skip
        rows[start.pool] = replace(row, starts=(*row.starts, kept))
    for refusal in told.refusals:
        row = rows.get(refusal.pool) or PoolRow(**asdict(refusal.pool))
        rows[refusal.pool] = replace(
            row, refused=(*row.refused, RefusalRow(run=refusal.run, utc=refusal.utc, reason=refusal.reason))
        )
    return rows


def _joined(before: PoolRow, now: PoolRow) -> PoolRow:
    """Both, each node once: a run that goes on tells of its first nodes again."""
    starts = {row.node: row for row in (*before.starts, *now.starts)}
    return replace(
        before,
        starts=tuple(sorted(starts.values(), key=lambda row: row.utc)),
        refused=tuple(sorted(dict.fromkeys([*before.refused, *now.refused]), key=lambda row: row.utc)),
    )


def _bounded(pools: list[PoolRow]) -> LatencyTable:
    rows = [replace(row, starts=row.starts[-MOST_STARTS:], refused=row.refused[-MOST_REFUSALS:]) for row in pools]
    return LatencyTable(pools=tuple(rows))


@contextmanager
def _locked(path: Path, clock: Clock) -> Iterator[None]:
    """Hold a lock file. Raises `TimeoutError` when another process does not let go of it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until_s = clock.now() + _LOCK_S
        while not _taken(descriptor):
            if clock.now() >= until_s:
                raise TimeoutError(f"another process holds {path}")
            pause(clock, _LOOK_S)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
