"""What the logs on this machine tell of runs that may have left something in an account."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from rb_core.errors import UnusableLog
from rb_core.estate import SETTLING_S, Known, Life
from rb_core.eventlog import open_log, parse_log
from rb_core.events import (
    Event,
    LaunchAttempted,
    LaunchGranted,
    LaunchRefused,
    NodeRequested,
    NodeRunning,
    RunEnded,
    RunStarted,
)
from rb_core.inspection import Refusal
from rb_core.lease import living_holder
from rb_core.ports import Clock
from rb_plugins.rundir import RunDirectory

LONGEST_LIFE = timedelta(days=31)
"""No machine outlives its renting call by so much: nobody needs to look for it any more."""

_TOLD = (RunStarted, NodeRequested, NodeRunning, LaunchAttempted, LaunchGranted, LaunchRefused)
_MARKS = tuple(f'"{kind.__name__}"'.encode() for kind in _TOLD)


def known_runs(home: Path, provider: str, clock: Clock) -> dict[str, Known]:
    """The runs of a provider whose logs are here, by their ids. A log that cannot be read is passed over.

    Args:
        home: where runs are kept.
        provider: its name.
        clock: tells whether a lease on another machine is stale.
    """
    return {directory.run: _known(directory, events, clock) for directory, events in _runs(home, provider)}


def known_regions(home: Path, provider: str) -> tuple[str, ...]:
    """The regions in which runs of a provider whose logs are here rented, sorted."""
    regions = set()
    for _, events in _runs(home, provider):
        regions.add(_cloud(events).get("region", ""))
        regions |= {str(e.request.get("region", "")) for e in events if isinstance(e, LaunchAttempted)}
    return tuple(sorted(regions - {""}))


def refusals(home: Path, provider: str) -> tuple[Refusal, ...]:
    """The renting calls of a provider that were refused, by the logs that are here; the newest last."""
    found = []
    for _, events in _runs(home, provider):
        requests = {event.attempt: event.request for event in events if isinstance(event, LaunchAttempted)}
        found += [
            Refusal(request=requests.get(event.attempt, {}), reason=event.reason, at=datetime.fromisoformat(event.utc))
            for event in events
            if isinstance(event, LaunchRefused)
        ]
    return tuple(sorted(found, key=lambda refusal: refusal.at))


def _known(directory: RunDirectory, events: tuple[Event, ...], clock: Clock) -> Known:
    nodes: dict[str, tuple[str, ...]] = {}
    rented: dict[str, str] = {}
    prices: dict[str, float] = {}
    settled = None
    for event in events:
        match event:
            case LaunchAttempted():
                nodes[event.attempt] = event.nodes
                settled = datetime.fromisoformat(event.utc) + timedelta(seconds=SETTLING_S)
            case LaunchGranted():
                rented.update(zip(event.instances, nodes.get(event.attempt, ()), strict=False))
            case NodeRequested():
                prices[event.node] = event.usd_per_hour
            case NodeRunning() if event.usd_per_hour is not None:
                prices[event.node] = event.usd_per_hour
            case _:
                pass
    if living_holder(directory.lease, clock) is not None:
        life = Life.LIVES
    else:
        life = Life.CLOSED if _closed(directory) else Life.ABANDONED
    if settled is not None and settled + LONGEST_LIFE < clock.utc():
        rented = {}
    return Known(life=life, settled=settled, rented=rented, usd_per_hour=prices)


def _runs(home: Path, provider: str) -> Iterator[tuple[RunDirectory, tuple[Event, ...]]]:
    for path in sorted((home / "runs").glob("*/events.jsonl")):
        directory = RunDirectory(path.parent)
        try:
            # Most lines tell of trials; reading those as events would take the most time.
            with open_log(path) as log:
                lines = [line for line in log if any(mark in line for mark in _MARKS)]
            events = parse_log(b"".join(lines), str(path)).events
        except (OSError, UnusableLog):
            continue
        if events and isinstance(events[0], RunStarted) and _cloud(events).get("provider") == provider:
            yield directory, events


def _cloud(events: tuple[Event, ...]) -> Mapping[str, str]:
    started = events[0]
    cloud = started.problem.get("cloud", {}) if isinstance(started, RunStarted) else {}
    return cloud if isinstance(cloud, Mapping) else {}


def _closed(directory: RunDirectory) -> bool:
    lines = directory.events.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    try:
        return bool(whole) and json.loads(whole[-1]).get("event") == RunEnded.__name__
    except (ValueError, AttributeError):
        return False
