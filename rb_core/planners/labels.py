"""Labels of the exact planner: partial plans at a barrier, as arrays, and when one makes another superfluous.

Labels with the same nodes at the same barrier are kept together. Each has a time T, the bill C of all nodes it has
released, and the times at which its held nodes began to run and became or become usable. What a held node will cost is
open, since rounding up and the minimum charge depend on its age at release; so a label has two prices:

- `floor_usd` = C plus the unrounded accrual of its held nodes. Whatever follows, the final bill is at least this plus
  the accrual still to come.
- `ceiling_usd` = `floor_usd` plus a granule for each held node, or what it lacks to the minimum. The final bill is at
  most this plus the accrual still to come.

Label x makes label y superfluous when T_x <= T_y and ceiling_x <= floor_y and all of x's nodes are usable (or both
have none starting): whatever y does next, x can do as well, with every barrier no later (list scheduling of equal
trials ends no later when places are usable no later), hence with every node that is still to be requested held no
longer, and every held node's further accrual no larger.

The granule can be too coarse a tolerance (hourly billing), so a second test compares node by node. When x's node is
the younger one (both in the order of release), its final charge is at most that of y's node. When it is the older one
by delta, it is at most ``granularity * ceil(delta / granularity)`` more; and where y's node does not run yet, and may
be cancelled for nothing, the minimum and the download come on top. With C_x plus these allowances at most C_y, x is
again as good as y, exactly. Here x may hold starting nodes too, if y's take the very same time until they are usable:
then every stage to come takes the same time for both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rb_core.billing import bill
from rb_core.hardware import Billing, BillingMode

Column = NDArray[np.float64]
Index = NDArray[np.intp]

TOLERANCE = 1e-9
"""Times and prices this close are equal."""

_FEW = 256
"""Up to so many labels with equal nodes are not worth the comparison node by node."""

_PATIENCE = 16
"""The comparison node by node ends when it is this many rounds ahead of the labels that it has removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What decides the bill of a node of one type.

    Attributes:
        billing: the rule.
        usd_per_s: price of a node.
        data_usd: price of its download of the data set.
        launch_s: seconds from its request to its running.
        init_s: seconds from its running to its being usable.
    """

    billing: Billing
    usd_per_s: float
    data_usd: float
    launch_s: float
    init_s: float

    @property
    def rent_usd_per_s(self) -> float:
        """What holding a node costs per second: nothing when only training is billed."""
        return 0.0 if self.billing.mode is BillingMode.PER_FUNCTION else self.usd_per_s

    def open_usd(self, age_s: Column) -> Column:
        """At most what rounding and the minimum add to a node of that age, whenever it is released."""
        return self.rent_usd_per_s * np.maximum(self.billing.granularity_s, self.billing.minimum_s - age_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Partial plans at one barrier, as columns.

    Attributes:
        time_s: barrier times T; shape (labels,).
        closed_usd: bills of what has been released, and of all training that is billed by itself; shape (labels,).
        running_s: when each held node began or begins to run; shape (labels, columns).
        usable_s: when it became or becomes usable, ascending in each row; same shape.
        nodes: how many of these columns count; shape (labels,).
        origin: index of each label's parent among all labels of the stage before; shape (labels,).
    """

    time_s: Column
    closed_usd: Column
    running_s: NDArray[np.float64]
    usable_s: NDArray[np.float64]
    nodes: Index
    origin: Index

    def __len__(self) -> int:
        return len(self.time_s)

    def take(self, index: Index | NDArray[np.bool_] | slice) -> Labels:
        """The labels at those places."""
        return Labels(
            time_s=self.time_s[index],
            closed_usd=self.closed_usd[index],
            running_s=self.running_s[index],
            usable_s=self.usable_s[index],
            nodes=self.nodes[index],
            origin=self.origin[index],
        )


def nothing(columns: int) -> Labels:
    """No labels, with so many columns for nodes."""
    return joined([], columns)


def joined(parts: list[Labels], columns: int) -> Labels:
    """All labels of the parts, with `columns` columns for nodes."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return _none(columns)
    if len(parts) == 1 and parts[0].running_s.shape[1] == columns:
        return parts[0]
    shape, first = (sum(len(part) for part in parts), columns), 0
    running_s, usable_s = np.full(shape, np.nan), np.full(shape, np.nan)
    for part in parts:
        here = slice(first, first + len(part)), slice(part.running_s.shape[1])
        running_s[here], usable_s[here] = part.running_s, part.usable_s
        first += len(part)
    return Labels(
        time_s=np.concatenate([part.time_s for part in parts]),
        closed_usd=np.concatenate([part.closed_usd for part in parts]),
        running_s=running_s,
        usable_s=usable_s,
        nodes=np.concatenate([part.nodes for part in parts]),
        origin=np.concatenate([part.origin for part in parts]),
    )


def _none(columns: int) -> Labels:
    nobody, nowhere, no_nodes = np.empty(0), np.empty(0, dtype=np.intp), np.empty((0, columns))
    return Labels(
        time_s=nobody, closed_usd=nobody, running_s=no_nodes, usable_s=no_nodes, nodes=nowhere, origin=nowhere
    )


def thinned(labels: Labels, most: int | None) -> Labels:
    """At most so many of labels that are sorted, evenly spread over them; None keeps all."""
    if most is None or len(labels) <= most:
        return labels
    return labels.take(np.unique(np.linspace(0, len(labels) - 1, most).astype(int)))


def release_newest(labels: Labels, price: Price) -> Labels:
    """Labels of equally many nodes after each has given back the node that became usable last."""
    usd = bill(
        price.billing,
        usd_per_s=price.usd_per_s,
        running_s=labels.running_s[:, -1],
        released_s=labels.time_s,
        data_usd=price.data_usd,
    )
    return replace(
        labels,
        closed_usd=labels.closed_usd + usd,
        running_s=labels.running_s[:, :-1],
        usable_s=labels.usable_s[:, :-1],
        nodes=labels.nodes - 1,
    )


def pruned(labels: Labels, price: Price) -> Labels:
    """Of labels of equally many nodes those that no other one makes superfluous, by ascending time."""
    if len(labels) <= 1:
        return labels
    ages = labels.time_s[:, None] - labels.running_s
    running = labels.nodes if ages.min() >= 0 else (ages >= 0).sum(axis=1)
    floor = labels.closed_usd + price.rent_usd_per_s * ages.sum(axis=1) + price.data_usd * running
    ceiling = floor + _open_usd(ages, price) + price.data_usd * (labels.nodes - running)
    # The last node is the last to be usable.
    late = np.flatnonzero(labels.usable_s[:, -1] > labels.time_s + TOLERANCE)
    group = None
    if len(late):
        # Rows agree when an irrational mixture of their columns does, which is far quicker to sort than the rows.
        left_s = labels.usable_s[late] - labels.time_s[late, None]
        starting_s = np.where(left_s > TOLERANCE, left_s, 0.0)
        mixture = starting_s @ np.sqrt(np.arange(2.0, ages.shape[1] + 2.0))
        group = np.zeros(len(labels), dtype=np.intp)
        group[late] = np.unique(np.round(mixture, 6), return_inverse=True)[1].reshape(-1) + 1
    return refined(labels.take(undominated(labels.time_s, floor, ceiling, group)), price)


def _open_usd(ages: NDArray[np.float64], price: Price) -> Column:
    """What rounding and the minimum add at most to all nodes of each label; shape (labels,)."""
    if ages.min() >= price.billing.minimum_s - price.billing.granularity_s:
        granule_usd = price.rent_usd_per_s * price.billing.granularity_s
        return np.full(len(ages), ages.shape[1] * granule_usd)
    total: Column = price.open_usd(ages).sum(axis=1)
    return total


def committed_usd(labels: Labels, price: Price) -> Column:
    """What each label's bill is at least, even if all were given back at once; shape (labels,)."""
    usd = bill(
        price.billing,
        usd_per_s=price.usd_per_s,
        running_s=labels.running_s,
        released_s=labels.time_s[:, None],
        data_usd=price.data_usd,
    )
    total: Column = labels.closed_usd + usd.sum(axis=1)
    return total


def undominated(time_s: Column, floor: Column, ceiling: Column, group: Index | None = None) -> Index:
    """Indices, by ascending time, of labels that no other one makes superfluous by its ceiling.

    Args:
        time_s: barrier times.
        floor: lower prices.
        ceiling: upper prices.
        group: 0 for labels without starting nodes, which may replace any other; a positive number shared by labels
            whose starting nodes agree in number and age, which may replace each other; negative for the rest, which
            replace none. None is 0 throughout.
    """
    if group is not None and not group.any():
        group = None
    order = np.lexsort((floor, time_s))
    low, high = floor[order], ceiling[order]
    best = np.minimum.accumulate(high if group is None else np.where(group[order] == 0, high, np.inf))
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = best[:-1] > low[1:] + TOLERANCE
    order = order[keep]
    if group is None or not (group[order] > 0).any():
        return order
    alike = np.flatnonzero(group[order] > 0)
    alike = alike[np.argsort(group[order[alike]], kind="stable")]
    members = order[alike]
    # Ranks instead of prices let one running minimum start anew at every group without losing a digit.
    ranks = np.argsort(np.argsort(np.concatenate([ceiling[members], floor[members] + TOLERANCE]), kind="stable"))
    _, segment = np.unique(group[members], return_inverse=True)
    shift = -segment.reshape(-1) * len(ranks)
    best_rank = np.minimum.accumulate(ranks[: len(members)] + shift)
    worse = np.zeros(len(members), dtype=bool)
    worse[1:] = (best_rank[:-1] <= ranks[len(members) :][1:] + shift[1:]) & (
        segment.reshape(-1)[1:] == segment.reshape(-1)[:-1]
    )
    keep = np.ones(len(order), dtype=bool)
    keep[alike[worse]] = False
    return order[keep]


def refined(labels: Labels, price: Price) -> Labels:
    """Labels of equally many nodes, by ascending time, after the comparison node by node."""
    if len(labels) <= _FEW:
        return labels
    rent, billing = price.rent_usd_per_s, price.billing
    cancellable_usd = rent * (billing.minimum_s + billing.granularity_s) + price.data_usd
    ages, left_s = labels.time_s[:, None] - labels.running_s, labels.usable_s - labels.time_s[:, None]
    # Nodes of one request share their times, so few columns differ from their neighbour.
    distinct = np.ones(ages.shape[1], dtype=bool)
    distinct[1:] = ((np.diff(ages, axis=1) != 0) | (np.diff(left_s, axis=1) != 0)).any(axis=0)
    columns = np.flatnonzero(distinct)
    weights = np.diff(np.append(columns, ages.shape[1]))
    ages, left_s = ages[:, columns], left_s[:, columns]
    closed, left = labels.closed_usd, np.arange(len(labels))
    settled = 0
    while settled < len(left) - 1 and len(labels) - len(left) >= settled - _PATIENCE:
        # `left` holds labels that none before has replaced; its next one is compared with all that follow.
        x, y = left[settled], left[settled + 1 :]
        older = ages[x] - ages[y]
        granules = np.ceil(np.maximum(0.0, older) / billing.granularity_s - TOLERANCE)
        allowance = rent * billing.granularity_s * granules
        allowance += np.where((older > 0) & (ages[y] < 0), cancellable_usd, 0.0)
        alike = ((left_s[x] <= TOLERANCE) | (np.abs(left_s[x] - left_s[y]) <= TOLERANCE)).all(axis=1)
        better = alike & (closed[x] + allowance @ weights <= closed[y] + TOLERANCE)
        settled += 1
        left = np.concatenate([left[:settled], y[~better]])
    return labels.take(left)
