"""How the exact planner's labels go through one stage on so many nodes of one type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from rb_core.planners.durations import StageTimes, WidthTimes
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
    thinned,
    undominated,
)

_COARSE = 1.01
"""Where rounding and the minimum add less than this factor, what labels are committed to drops hardly any."""

_BATCHES = 4
"""Labels with more batches of starting nodes are worked out one by one: the formula's work doubles with each batch."""

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
        return _Grown(**{name: getattr(self, name)[index] for name in _COLUMNS})


_COLUMNS = tuple(field.name for field in fields(_Grown))


def _stacked(parts: list[_Grown]) -> _Grown:
    if len(parts) == 1:
        return parts[0]
    return _Grown(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS})


class Growth:
    """Labels at a barrier, ready to go through the next stage on one type."""

    def __init__(
        self,
        fresh: Labels,
        intact: list[Labels],
        trimmed: list[Labels],
        price: Price,
        times: StageTimes,
        *,
        most: int,
        quick: bool = False,
        most_labels: int | None = None,
        beaten: Beaten | None = None,
    ) -> None:
        """Prepare to go on from these labels.

        Args:
            fresh: labels that hold nothing and may request nodes of the type.
            intact: labels that have released nothing at the barrier, by the nodes of the type that they hold, from 1
                up; these alone may request more, since nodes that are held are kept.
            trimmed: labels that have released down to so many nodes, or none, by the nodes that they keep, from 1 up.
            price: of a node of the type.
            times: of the stage on the type.
            most: largest number of nodes worth holding.
            quick: compare labels by their lower prices alone, and pass over those with nodes that still start.
            most_labels: labels with equal nodes to keep at most; None keeps all that may be needed.
            beaten: drops labels in view of plans that are known.
        """
        self._price, self._times, self._quick, self._beaten = price, times, quick, beaten
        self._most_labels = most_labels
        growing = [fresh, *intact[:most]]
        self._flat = flat = joined([*growing, *trimmed[:most]], most)
        self._growing_ends = np.cumsum([len(part) for part in growing])
        self._trimmed_ends = self._growing_ends[-1] + np.cumsum([0, *(len(part) for part in trimmed[:most])])
        self._newest_s = np.fmax.reduce(flat.running_s, axis=1, initial=-np.inf)
        self._usable_s = np.full(len(flat), -np.inf)
        holding = np.flatnonzero(flat.nodes > 0)
        self._usable_s[holding] = flat.usable_s[holding, flat.nodes[holding] - 1]
        self._running_sum_s = np.nansum(flat.running_s, axis=1)
        # Nodes that are starting still; the last one is, if any.
        self._starting = np.zeros(len(flat), dtype=np.intp)
        late = np.flatnonzero(self._usable_s > flat.time_s + TOLERANCE)
        self._starting[late] = (flat.usable_s[late] > flat.time_s[late, None] + TOLERANCE).sum(axis=1)

    def on(self, nodes: int, type_index: int, made: Made) -> Labels:
        """The labels of the stage's end after running it on so many nodes, with superfluous ones dropped."""
        rows = np.arange(self._growing_ends[min(nodes, len(self._growing_ends)) - 1])
        if nodes < len(self._trimmed_ends):
            rows = np.concatenate([rows, np.arange(self._trimmed_ends[nodes - 1], self._trimmed_ends[nodes])])
        if self._quick:
            rows = rows[self._starting[rows] == 0]
        if not len(rows) or not self._times.options:
            return nothing(nodes)
        grown = self._worth(_stacked([self._looked_up(nodes, rows, k) for k in range(len(self._times.options))]))
        # A label that is beaten with the time that it would take at best is not worth its true one.
        grown = self._unbeaten(grown)
        if not self._quick and len(grown.time_s):
            grown = self._unbeaten(self._settled(nodes, grown))
        if not len(grown.time_s):
            return nothing(nodes)
        parent = grown.parent
        held = np.arange(nodes) < self._flat.nodes[parent][:, None]
        new_s = self._flat.time_s[parent, None] + self._price.launch_s
        running_s = np.where(held, self._flat.running_s[parent, :nodes], new_s)
        usable_s = np.where(held, self._flat.usable_s[parent, :nodes], new_s + self._price.init_s)
        labels = Labels(
            time_s=grown.time_s,
            closed_usd=grown.closed_usd,
            running_s=running_s,
            usable_s=usable_s,
            nodes=np.full(len(parent), nodes),
            origin=np.arange(len(parent)),
        )
        if self._beaten and (grown.ceiling > _COARSE * grown.floor).any():
            committed = committed_usd(labels, self._price)
            labels = labels.take(~self._beaten(grown.time_s, grown.floor, committed))
        labels = thinned(refined(labels, self._price), self._most_labels)
        chosen = labels.origin
        numbers = made.add(self._flat.origin[parent[chosen]], type_index, nodes, grown.width[chosen])
        return replace(labels, origin=numbers)

    def _settled(self, nodes: int, grown: _Grown) -> _Grown:
        """The same labels with their true times, and with slower widths where these may pay.

        Where kept nodes were still starting at the barrier, the table was too optimistic. Where nodes are still
        starting at the end, a slower width may pay: it puts off the next requests while the end of the next stage
        waits for these nodes in any case.
        """
        hurried = self._starting[grown.parent] > 0
        waiting = (grown.group > 0) & (len(self._times.options) == 1) & (len(self._times.widths) > 1)
        if not (hurried | waiting).any():
            return grown
        parts = [grown.take(~hurried)]
        for option in range(len(self._times.options)):
            for place, times in enumerate(self._times.of_option(option), start=1):
                rows = grown.parent[hurried & (grown.option == option)]
                parts.append(
                    self._continued(nodes, rows, option, self._worked_out(nodes, rows, times), times.width, place)
                )
                slower = waiting & ~hurried & (grown.width != times.width)
                rows = grown.parent[slower]
                kept = self._flat.nodes[rows]
                seconds = times.seconds[kept, nodes - kept]
                parts.append(self._continued(nodes, rows, option, seconds, times.width, place))
        return self._worth(_stacked(parts))

    def _unbeaten(self, grown: _Grown) -> _Grown:
        """Those that can still become better than the plans that are known."""
        return grown.take(~self._beaten(grown.time_s, grown.floor, grown.floor)) if self._beaten else grown

    def _worth(self, grown: _Grown) -> _Grown:
        """Those that are not superfluous, as far as their prices tell."""
        ceiling = grown.floor if self._quick else grown.ceiling
        return grown.take(undominated(grown.time_s, grown.floor, ceiling, grown.group))

    def _looked_up(self, nodes: int, rows: Index, option: int) -> _Grown:
        """Labels continued with one of the options, as if all kept nodes were usable."""
        table, kept = self._times.options[option], self._flat.nodes[rows]
        seconds, width = table.seconds[kept, nodes - kept], table.width[kept, nodes - kept]
        grown = self._continued(nodes, rows, option, seconds, width, 0)
        # Too optimistic a time must not drop others.
        grown.group[self._starting[grown.parent] > 0] = -1
        return grown

    def _continued(
        self, nodes: int, rows: Index, option: int, seconds: Column, width: Index | int, place: int
    ) -> _Grown:
        """Labels continued with an option, given the seconds and the width of each; without those that cannot be.

        `place` tells apart the widths of one option where these are given one by one, from 1.
        """
        possible = np.isfinite(seconds)
        width = np.broadcast_to(width, seconds.shape)
        if not possible.all():
            rows, seconds, width = rows[possible], seconds[possible], width[possible]
        flat, price = self._flat, self._price
        kept, began_s = flat.nodes[rows], flat.time_s[rows]
        new = nodes - kept
        time_s = began_s + seconds
        closed_usd = flat.closed_usd[rows] + self._times.options[option].training_usd
        newest_age_s = time_s - self._newest_s[rows]
        new_age_s = seconds - price.launch_s
        held_s = nodes * time_s - self._running_sum_s[rows] - new * (began_s + price.launch_s)
        floor = closed_usd + price.rent_usd_per_s * held_s
        ceiling = floor + kept * price.open_usd(newest_age_s) + new * price.open_usd(new_age_s)
        if price.data_usd > 0:
            floor += price.data_usd * (np.where(newest_age_s >= 0, kept, 0) + np.where(new_age_s >= 0, new, 0))
            ceiling += price.data_usd * nodes
        # New nodes of one number are of one age under one width, if the kept ones were all usable. Where kept ones are
        # starting still, a label stands for nothing but itself.
        starting = (new > 0) & (new_age_s < price.init_s - TOLERANCE)
        tables = len(self._times.widths) + 1
        alike = (option * tables + place) * (nodes + 1) + new
        group = np.where(starting, np.where(self._starting[rows] > 0, -1, alike), 0)
        group = np.where(self._usable_s[rows] > time_s + TOLERANCE, -1, group)
        return _Grown(
            time_s=time_s,
            closed_usd=closed_usd,
            floor=floor,
            ceiling=ceiling,
            group=group,
            width=width,
            parent=rows,
            option=np.full(len(rows), option),
        )

    def _worked_out(self, nodes: int, rows: Index, times: WidthTimes) -> Column:
        """Seconds of the stage for labels with kept nodes that are still starting."""
        flat, starting = self._flat, self._starting[rows]
        kept = flat.nodes[rows]
        new, now = nodes - kept, kept - starting
        columns = np.arange(nodes)
        offset_s = flat.usable_s[rows, :nodes] - flat.time_s[rows, None]
        starts = (columns >= now[:, None]) & (columns < kept[:, None])
        # Nodes of one request are a batch; there are several after two short stages, or when some came late.
        begins = starts.copy()
        begins[:, 1:] &= (offset_s[:, 1:] > offset_s[:, :-1] + TOLERANCE) | ~starts[:, :-1]
        batch = np.where(starts, np.cumsum(begins, axis=1), 0)
        batches = [
            (np.where(own, offset_s, 0.0).max(axis=1), own.sum(axis=1))
            for own in (batch == number for number in range(1, min(int(batch.max(initial=0)), _BATCHES) + 1))
        ]
        seconds = times.starting(now, batches, new)
        for place in np.flatnonzero(batch.max(axis=1, initial=0) > _BATCHES):
            usable_s = np.maximum(0.0, offset_s[place, : kept[place]])
            offsets = list(zip(*(column.tolist() for column in np.unique(usable_s, return_counts=True)), strict=True))
            seconds[place] = times.staggered(offsets, int(new[place]))
        return seconds
