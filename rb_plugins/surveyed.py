"""What came of a profiling: made from its log, as that of a run is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rb_core.errors import InvalidInput, UnusableLog
from rb_core.eventlog import open_log, parse_log, read_log
from rb_core.events import SCHEMA, Event, RunStarted
from rb_core.lease import Holder
from rb_core.ledger import Ledger, ledger
from rb_core.oneline import first_line
from rb_core.report import Table, duration, money
from rb_core.state import RunState, fold
from rb_core.survey import PROFILING
from rb_plugins.config.cloud import read_cloud
from rb_plugins.logged import no_books
from rb_plugins.rundir import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """A profiling by its log.

    Attributes:
        directory: where everything about it is.
        target: what was measured, in words.
        state: its last state; its stages are instance types.
        bill: what its nodes cost; of one that has not ended, so far.
        holder: who is at work on it; None when nobody is.
    """

    directory: RunDirectory
    target: str
    state: RunState = field(repr=False)
    bill: Ledger = field(repr=False)
    holder: Holder | None = None

    @property
    def ending(self) -> str:
        """How it ended; ``unfinished`` while it has not."""
        return "unfinished" if self.state.ending is None else self.state.ending.value

    def table(self) -> dict[str, Any]:
        """What `rb-tune report --json` prints of it."""
        return {
            "schema": SCHEMA,
            "run": self.state.run,
            "run_dir": str(self.directory.path),
            "kind": PROFILING,
            "target": self.target,
            "state": self.ending,
            "reason": self.state.reason,
            "actual": {"profiling_s": self.state.t_s, "profiling_usd": self.bill.cost_usd},
            "types": [
                {"instance_type": stage.instance_type, "nodes": stage.nodes, "cost_usd": cost.cost_usd}
                for stage, cost in zip(self.state.stages, self.bill.stages, strict=True)
            ],
            "held": list(self.state.held),
            "profile": str(self.directory.profile) if self.directory.profile.exists() else None,
            "warnings": list(self.state.warnings),
        }

    def types_table(self) -> Table:
        """The types for people."""
        rows = tuple(
            (stage.instance_type, str(stage.nodes), "no" if stage.end_s is None else "yes", money(cost.cost_usd))
            for stage, cost in zip(self.state.stages, self.bill.stages, strict=True)
        )
        return Table(
            title=f"Profiling of {self.target}", columns=("instance type", "nodes", "measured", "cost"), rows=rows
        )  # fmt: skip

    def lines(self) -> list[str]:
        """The sentences for people."""
        reason = f" ({first_line(self.state.reason)})" if self.state.reason else ""
        told = [f"profiling {self.directory.run}: {self.ending}{reason}"]
        if self.holder is not None:
            told.append(f"{self.holder} is at work on it; `rb-tune stop {self.directory.run}` ends it")
        elif self.state.held:
            told.append(f"{len(self.state.held)} node(s) were not given back: {', '.join(self.state.held)}")
        told.append(f"it took {duration(self.state.t_s)} and cost {money(self.bill.cost_usd)}")
        if self.directory.profile.exists():
            told.append(f"what was measured is in {self.directory.profile}")
        return told


def read_surveyed(directory: RunDirectory, holder: Holder | None = None) -> Surveyed | None:
    """What the log of a profiling tells; None for that of a run.

    Args:
        directory: of the profiling.
        holder: who is at work on it; None when nobody is.

    Raises:
        UnusableLog: the log cannot be read.
    """
    if not is_profiling(directory):
        return None
    events = read_log(directory.events).events
    started = _profiling(events)
    if started is None:
        return None
    state = fold(events)
    try:
        cloud = read_cloud(started.problem.get("cloud"), folder=directory.path, price_books=no_books)
    except InvalidInput:
        return None
    return Surveyed(
        directory=directory, target=started.target, state=state, bill=ledger(state, cloud), holder=holder
    )  # fmt: skip


def is_profiling(directory: RunDirectory) -> bool:
    """Whether a log begins as that of a profiling; of one that cannot be read nobody can say so."""
    try:
        with open_log(directory.events) as log:
            first = log.readline()
        # A run's is long, and need not be parsed.
        if f'"{PROFILING}"'.encode() not in first:
            return False
        return _profiling(parse_log(first, str(directory.events)).events) is not None
    except (OSError, UnusableLog):
        return False


def _profiling(events: Sequence[Event]) -> RunStarted | None:
    """The start of a profiling; None where these are the events of something else."""
    started = events[0] if events else None
    return started if isinstance(started, RunStarted) and PROFILING in started.problem else None
