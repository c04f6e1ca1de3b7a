"""How the trials of a stage go through its places: list scheduling, vectorised over samples.

Trials queue in order, and each takes the place that is usable and free earliest. Arrays have shape (nodes, places or
trials, samples).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rb_core.placement import Placement

Samples = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """What became of the places of a stage.

    Attributes:
        last_start_s: when the last trial starts; shape (samples,).
        last_end_s: when the last trial ends; shape (samples,).
        free_s: when the last trial of each place ends; for a place without one, when it is usable.
            Shape (places, samples).
    """

    last_start_s: Samples = field(repr=False)
    last_end_s: Samples = field(repr=False)
    free_s: Samples = field(repr=False)


def ready_places(nodes_s: Samples, placement: Placement) -> Samples:
    """When the places that trials can take become usable.

    Args:
        nodes_s: when each node does, ascending; shape (nodes, samples).
        placement: how the trials lie on these nodes.

    Returns:
        Ascending; shape (at most as many places as trials, samples).
    """
    if placement.spans:
        group = placement.nodes_per_trial
        places = nodes_s[group - 1 :: group]
    else:
        places = np.repeat(nodes_s[: placement.nodes_for_all], placement.per_node, axis=0)
    return places[: placement.trials]


def last_end(places_s: Samples, durations_s: Samples, trials: int) -> Samples:
    """When the last of `trials` ends; arguments as of `occupied`, result of shape (samples,)."""
    return occupied(places_s, durations_s, trials).last_end_s


def occupied(places_s: Samples, durations_s: Samples, trials: int) -> Occupancy:
    """Send trials through places, each in order taking the one that is usable and free earliest.

    Args:
        places_s: when each place becomes usable, ascending; shape (places, samples), at most `trials` places.
        durations_s: shape (trials or 1, samples or 1).
        trials: how many.
    """
    count, samples = places_s.shape
    durations = np.broadcast_to(durations_s, (trials, samples))
    free = places_s + durations[:count]
    start, last = places_s[-1].copy(), free.max(axis=0)
    # A place that is freed before a late one becomes usable takes the late one's trial.
    early = places_s[-1] > free[:-1].min(axis=0) if count > 1 else np.zeros(samples, dtype=bool)
    if early.any():
        late = places_s[:, early].copy()
        start[early], last[early] = _one_by_one(late, durations[:count, early])
        free[:, early] = late
    if trials > count:
        skipped = _rounds_of_equals(free, durations_s, trials - count)
        if skipped:
            trials -= skipped * count
            free = free + skipped * durations[0]
            end = free.max(axis=0)
            start, last = end - durations[0], np.maximum(last, end)
    if trials > count:
        start, end = _one_by_one(free, durations[count:trials])
        last = np.maximum(last, end)
    return Occupancy(last_start_s=start, last_end_s=last, free_s=free)


def spared(
    nodes_s: Samples, places_s: Samples, occupancy: Occupancy, placement: Placement, kept: int
) -> tuple[NDArray[np.intp], Samples]:
    """The nodes that can be given back before the stage is over, and when.

    A node is idle once the last trial has started and its own have ended; one without a trial as soon as it is usable.
    Idle nodes go as long as more than `kept` are usable, those that fall idle first; of nodes that fall idle at one
    time those without a trial come first, then the others as their trials were started. Where idle nodes have waited
    for others to become usable, the one that was usable first goes first.

    Args:
        nodes_s: when each node is usable, ascending; shape (nodes, samples).
        places_s: of `ready_places`.
        occupancy: of `occupied`.
        placement: how the trials lie on the nodes.
        kept: how many are needed after the stage.

    Returns:
        Rows in `nodes_s`, and times; shape (nodes - kept, samples) each.
    """
    idle_s, used = _idle(nodes_s, places_s, occupancy, placement)
    rows = np.lexsort((used, idle_s), axis=0)[: len(nodes_s) - kept]
    times_s = np.take_along_axis(idle_s, rows, axis=0)
    # So many nodes are usable from then on that one of them can go.
    enough_s = nodes_s[kept:]
    late = np.any(times_s < enough_s, axis=0)
    if late.any():
        rows[:, late], times_s[:, late] = _waiting(idle_s[:, late], used[:, late], enough_s[:, late])
    return rows, times_s


def _waiting(idle_s: Samples, used: NDArray[np.bool_], enough_s: Samples) -> tuple[NDArray[np.intp], Samples]:
    """As `spared`, node by node, for samples in which idle nodes wait for others to become usable."""
    left_s, samples = idle_s.copy(), np.arange(idle_s.shape[1])
    rows, times_s = np.empty(enough_s.shape, dtype=np.intp), np.empty(enough_s.shape)
    for number, at_s in enumerate(enough_s):
        can_s = np.maximum(left_s, at_s)
        times_s[number] = can_s.min(axis=0)
        soonest = can_s == times_s[number]
        before = soonest & ~(used & (left_s > at_s))
        rows[number] = np.where(before.any(axis=0), before.argmax(axis=0), soonest.argmax(axis=0))
        left_s[rows[number], samples] = np.inf
    return rows, times_s


def _idle(
    nodes_s: Samples, places_s: Samples, occupancy: Occupancy, placement: Placement
) -> tuple[Samples, NDArray[np.bool_]]:
    """When each node falls idle, and whether it had any trial; shape (nodes, samples)."""
    ends_s = np.where(occupancy.free_s > places_s, occupancy.free_s, -np.inf)
    if placement.spans:
        ends_s = np.repeat(ends_s, placement.nodes_per_trial, axis=0)
    else:
        ends_s = np.maximum.reduceat(ends_s, np.arange(0, len(ends_s), placement.per_node))
    idle_s = np.maximum(nodes_s, occupancy.last_start_s)
    used = np.zeros(idle_s.shape, dtype=bool)
    used[: len(ends_s)] = np.isfinite(ends_s)
    idle_s[: len(ends_s)] = np.maximum(idle_s[: len(ends_s)], ends_s)
    return idle_s, used


def _rounds_of_equals(free_s: Samples, durations_s: Samples, trials: int) -> int:
    """How often each place takes one more of equal trials before anything else can happen.

    Places that are free within one duration of each other take trials in turn, for ever.
    """
    if len(durations_s) > 1 or np.any(free_s.max(axis=0) - free_s.min(axis=0) > durations_s[0]):
        return 0
    return trials // len(free_s)


def _one_by_one(free_s: Samples, durations_s: Samples) -> tuple[Samples, Samples]:
    """Give each trial in order the place that is free first: updates `free_s`.

    Returns:
        When the last one starts, and when the last one ends; shape (samples,) each.
    """
    # One sample a row, so that the smallest of each is sought in memory that is contiguous.
    by_sample = np.ascontiguousarray(free_s.T)
    flat = by_sample.reshape(-1)
    rows = np.arange(free_s.shape[1]) * free_s.shape[0]
    start = np.full(free_s.shape[1], -np.inf)
    last = start.copy()
    for duration in durations_s:
        first = rows + by_sample.argmin(axis=1)
        start = flat[first]
        end = start + duration
        flat[first] = end
        np.maximum(last, end, out=last)
    free_s[:] = by_sample.T
    return start, last
