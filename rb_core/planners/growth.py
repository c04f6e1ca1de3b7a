"""How the exact planner's labels go through one stage on so many nodes of one type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rb_core.planners.durations import StageTimes
from rb_core.planners.labels import (
    TOLERANCE,
    Column,
    Index,
    Labels,
    Price,
    committed_usd,
    joined,
    nothing,
    refined,
    undominated,
)

_QUICK_LABELS = 12
"""A quick search keeps no more labels with equal nodes than this."""

Beaten = Callable[[Column, Column, Column], NDArray[np.bool_]]
"""Given (time, floor, committed bill) of labels: which of them cannot become better than a plan that is known."""


class Made:
    """How the labels of one stage came about, numbered in the order in which they are added."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.intp]] = []
        self._count = 0

    def add(self, parent: Index, type_index: int, nodes: int, width: Index) -> Index:
        """Record labels and return their numbers."""
        row = np.empty((len(parent), 4), dtype=np.intp)
        row[:, 0], row[:, 1], row[:, 2], row[:, 3] = parent, type_index, nodes, width
        self._rows.append(row)
        first, self._count = self._count, self._count + len(parent)
        return np.arange(first, self._count)

    def rows(self) -> NDArray[np.intp]:
        """All of them; shape (labels, 4): parent, type, nodes, width."""
        return np.concatenate(self._rows) if self._rows else np.empty((0, 4), dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grown:
    """Labels at the end of a stage before they are given their nodes; all of shape (labels,), see `Labels`."""

    time_s: Column
    closed_usd: Column
    floor: Column
    ceiling: Column
    group: Index
    width: Index
    parent: Index
    option: Index

    def take(self, index: Index | NDArray[np.bool_]) -> _Grown:
        """Those at these places."""
        return _Grown(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


def _stacked(parts: list[_Grown]) -> _Grown:
    if len(parts) == 1:
        return parts[0]
    return _Grown(
        **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(_Grown)}
    )


class Growth:
    """Labels at a barrier by what they keep of one type, ready to be continued on it."""

    def __init__(
        self,
        kept: list[Labels],
        price: Price,
        times: StageTimes,
        *,
        most: int,
        quick: bool = False,
        beaten: Beaten | None = None,
    ) -> None:
        """Prepare to go on from these labels.

        Args:
            kept: labels by the number of nodes that they keep, from none up.
            price: of a node of the type.
            times: of the stage on the type.
            most: largest number of nodes worth holding.
            quick: keep few labels.
            beaten: drops labels in view of plans that are known.
        """
        self._price, self._times, self._quick, self._beaten = price, times, quick, beaten
        usable = [part for part in kept if len(part) and part.running_s.shape[1] <= most]
        self._flat = flat = joined(usable, most)
        rows = np.arange(len(flat))
        newest = flat.running_s[rows, np.maximum(flat.nodes, 1) - 1] if most else np.empty(0)
        self._newest_s = np.where(flat.nodes > 0, newest, -np.inf)
        self._running_sum_s = np.nansum(flat.running_s, axis=1)
        ages_s = flat.time_s[:, None] - flat.running_s
        self._starting = (ages_s < price.init_s - TOLERANCE).sum(axis=1)

    def on(self, nodes: int, type_index: int, made: Made) -> Labels:
        """The labels of the stage's end after running it on so many nodes, with superfluous ones dropped."""
        rows = np.arange(np.searchsorted(self._flat.nodes, nodes, side="right"))
        if self._quick:
            rows = rows[self._starting[rows] == 0]
        if not len(rows) or not self._times.options:
            return nothing(nodes)
        parts = [
            self._continued(nodes, rows, number, *self._looked_up(nodes, rows, number))
            for number in range(len(self._times.options))
        ]
        grown = self._worth(_stacked(parts))
        slow = self._starting[grown.parent] > 0
        if slow.any():
            # Where kept nodes are still starting the table was too optimistic; few labels are left to be worked out.
            exact = [grown.take(~slow)]
            for number in np.unique(grown.option[slow]):
                rows = grown.parent[slow & (grown.option == number)]
                exact.append(self._continued(nodes, rows, number, *self._worked_out(nodes, rows, number)))
            grown = self._worth(_stacked(exact))
        parent = grown.parent
        kept = self._flat.nodes[parent]
        running_s = np.where(
            np.arange(nodes) < kept[:, None],
            self._flat.running_s[parent, :nodes],
            (self._flat.time_s[parent] + self._price.launch_s)[:, None],
        )
        labels = Labels(
            time_s=grown.time_s,
            closed_usd=grown.closed_usd,
            running_s=running_s,
            nodes=np.full(len(parent), nodes),
            origin=np.arange(len(parent)),
        )
        if self._beaten:
            committed = committed_usd(labels, self._price)
            labels = labels.take(~self._beaten(grown.time_s, grown.floor, committed))
        labels = refined(labels, self._price)
        if self._quick and len(labels) > _QUICK_LABELS:
            labels = labels.take(np.unique(np.linspace(0, len(labels) - 1, _QUICK_LABELS).astype(int)))
        chosen = labels.origin
        numbers = made.add(self._flat.origin[parent[chosen]], type_index, nodes, grown.width[chosen])
        return Labels(
            time_s=labels.time_s,
            closed_usd=labels.closed_usd,
            running_s=labels.running_s,
            nodes=labels.nodes,
            origin=numbers,
        )

    def _worth(self, grown: _Grown) -> _Grown:
        """Those that are not superfluous, as far as their prices tell."""
        ceiling = grown.floor if self._quick else grown.ceiling
        return grown.take(undominated(grown.time_s, grown.floor, ceiling, grown.group))

    def _looked_up(self, nodes: int, rows: Index, number: int) -> tuple[Column, Index]:
        """(seconds, width) of the stage for labels continued with one option, as if kept nodes were usable."""
        option = self._times.options[number]
        kept = self._flat.nodes[rows]
        new = nodes - kept
        seconds, width = option.seconds[kept, new], option.width[kept, new]
        return seconds, width

    def _continued(self, nodes: int, rows: Index, number: int, seconds: Column, width: Index) -> _Grown:
        """Labels continued with one option, given the seconds and the width of each; without those that cannot be."""
        possible = np.isfinite(seconds)
        if not possible.all():
            rows, seconds, width = rows[possible], seconds[possible], width[possible]
        flat, price = self._flat, self._price
        kept, began_s = flat.nodes[rows], flat.time_s[rows]
        new = nodes - kept
        time_s = began_s + seconds
        closed_usd = flat.closed_usd[rows] + self._times.options[number].training_usd
        newest_age_s = time_s - self._newest_s[rows]
        new_age_s = seconds - price.launch_s
        held_s = nodes * time_s - self._running_sum_s[rows] - new * (began_s + price.launch_s)
        running = np.where(newest_age_s >= 0, kept, 0) + np.where(new_age_s >= 0, new, 0)
        floor = closed_usd + price.rent_usd_per_s * held_s + price.data_usd * running
        ceiling = floor + kept * price.open_usd(newest_age_s) + new * price.open_usd(new_age_s)
        # New nodes of one option and number are of one age. Labels whose kept nodes were still starting stand for
        # nothing but themselves.
        starting = (new > 0) & (new_age_s < price.init_s - TOLERANCE)
        group = np.where(starting, new + number * (nodes + 1), 0)
        group = np.where(self._starting[rows] > 0, -1, group)
        return _Grown(
            time_s=time_s,
            closed_usd=closed_usd,
            floor=floor,
            ceiling=ceiling + price.data_usd * (nodes - running),
            group=group,
            width=width,
            parent=rows,
            option=np.full(len(rows), number),
        )

    def _worked_out(self, nodes: int, rows: Index, number: int) -> tuple[Column, Index]:
        """(seconds, width) of the stage for labels with kept nodes that are still starting."""
        flat, starting = self._flat, self._starting[rows]
        offset_s = self._newest_s[rows] + self._price.init_s - flat.time_s[rows]
        kept = flat.nodes[rows]
        new = nodes - kept
        seconds, width = self._times.starting(number, kept - starting, offset_s, starting, new)
        oldest_s = flat.running_s[rows, kept - starting]
        for place in np.flatnonzero(oldest_s < self._newest_s[rows] - TOLERANCE):
            # Nodes of several requests are starting, which takes two short stages in a row.
            row = rows[place]
            usable_s = np.maximum(0.0, flat.running_s[row, : kept[place]] + self._price.init_s - flat.time_s[row])
            offsets = list(zip(*(column.tolist() for column in np.unique(usable_s, return_counts=True)), strict=True))
            seconds[place], width[place] = self._times.staggered(number, offsets, int(new[place]))
        return seconds, width
