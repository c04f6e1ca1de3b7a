"""A cloud in the light of what was measured of it: speeds of its types, and how long its nodes take to start.

What a file says by hand stays as it is. A cloud has one launch and one init latency for all of its types, so what was
seen is pooled over them: the planners' expectations and simulations are cached by them, a stage may hold nodes of any
type, and EC2's types of one image start alike, within the spread of any one of them. Where they do not, a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.measurement import MeasuredSpeed
from rb_core.report import seconds
from rb_core.startups import LEAST_STARTS, latency_of
from rb_plugins.config.given import Given, Speeds
from rb_plugins.latencies import Seen, StartRow

MOST_APART = 1.5
"""Types whose nodes take so many times as long as others' are told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Informed:
    """A cloud, and where its figures come from.

    Attributes:
        cloud: what to plan with.
        notes: what was put in the place of defaults and what was not, one sentence each.
    """

    cloud: Cloud
    notes: tuple[str, ...] = ()


def with_speeds(cloud: Cloud, given: Given, speeds: Speeds) -> Informed:
    """A cloud with the measured speeds of its types.

    Args:
        cloud: as it was asked for.
        given: what of it was said by hand.
        speeds: what was measured.
    """
    notes, reference = [], speeds.reference
    types: list[InstanceType] = []
    for found in cloud.instance_types:
        speed = speeds.measured.get(found.name)
        if speed is not None and found.name in given.speeds:
            notes.append(
                f"the speed of {found.name} is {found.speed:g}, as the file has it; measured was {_speed(speed)}"
            )
        elif speed is not None:
            notes.append(f"the speed of {found.name} is {_speed(speed)} of that of {reference}, as measured")
            found = replace(found, speed=speed.mean)
        elif reference and found.name not in (reference, *given.speeds):
            notes.append(
                f"the speed of {found.name} is not known and taken for that of {reference}: "
                f"`rb-tune profile --instance-types {reference},{found.name}` measures it"
            )
        types.append(found)
    return Informed(cloud=replace(cloud, instance_types=tuple(types)), notes=tuple(notes))


def with_latencies(cloud: Cloud, given: Given, seen: Seen) -> Informed:
    """A cloud with the launch and init latencies that earlier runs saw, where they saw enough of them.

    Args:
        cloud: as it was asked for.
        given: what of it was said by hand.
        seen: what earlier runs saw of its pools.
    """
    launches = {name: [row.launch_s for row in rows] for name, rows in seen.starts.items()}
    inits = {name: [row.init_s for row in rows if row.init_s is not None] for name, rows in seen.starts.items()}
    notes: list[str] = []
    launch_s, init_s = cloud.launch_s, cloud.init_s
    if not given.launch_s:
        launch_s = _told("launch_s", cloud.launch_s, launches, seen.every, notes)
    if not given.init_s:
        ready = tuple(row for row in seen.every if row.init_s is not None)
        init_s = _told("init_s", cloud.init_s, inits, ready, notes)
    return Informed(cloud=replace(cloud, launch_s=launch_s, init_s=init_s), notes=tuple(notes))


def _told(
    key: str, default: Latency, observed: Mapping[str, Sequence[float]], rows: Sequence[StartRow], notes: list[str]
) -> Latency:
    latency = latency_of(default, [value for values in observed.values() for value in values])
    if latency is None:
        return default
    runs = len({row.run for row in rows})
    last = max(row.utc for row in rows)[:10]
    instead = f"in the place of {_latency(default)}" if default.mean > 0 else "where nothing was given"
    notes.append(
        f"{key} is {_latency(latency)}, from {len(rows)} starts of {runs} run{'s' if runs > 1 else ''}, last {last}, "
        f"{instead}"
    )
    means = {name: fmean(values) for name, values in observed.items() if len(values) >= LEAST_STARTS}
    if means:
        slow, fast = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        if means[slow] > MOST_APART * means[fast]:
            notes.append(
                f"{key} of {slow} was {seconds(means[slow])} and of {fast} {seconds(means[fast])} in the mean; plans "
                "take one figure for both"
            )
    return latency


def _speed(speed: MeasuredSpeed) -> str:
    return f"{speed.mean:.3g} (std {speed.std:.2g})"


def _latency(latency: Latency) -> str:
    return f"{seconds(latency.mean)} (std {seconds(latency.std)})"
