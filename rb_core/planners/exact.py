"""The exact planner: every plan that is not beaten in both time and cost, by label-setting over the stages.

A label is a partial plan at a barrier (see `labels`). From stage to stage, labels are first taken apart: node after
node is given back, newest first as the model has it, and at each number of kept nodes superfluous labels are dropped.
What has given back everything forms one front over all instance types. Then every label is continued with every number
of nodes on its type, or on any type from nothing, with the width that ends the stage soonest.

Exactness, without noise. (1) All plans are reached: a plan is a sequence of (type, nodes, width), the release is in
the model's order, and the only choices left out are slower widths under PER_INSTANCE. A slower width only delays every
later event, so no node is held for less time and no barrier comes earlier; and under PER_FUNCTION, where a slower width
can be cheaper, every width is kept as an option of its own. (2) No dropped label was needed: that is the argument of
`labels`. (3) What is reported is priced by `bill`, node by node, and not by the bounds used on the way. More nodes than
any later stage could occupy are not tried, since they would be held and paid for without changing any time.

With noise the same search runs over expectations (see `durations`), which approximates; so the plans that come close to
its front are kept as well, all are sampled as whole jobs under common random numbers, and the front is that of the
sampled means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rb_core.expectation import ExpectedModel, expected
from rb_core.hardware import InstanceType
from rb_core.placement import divides
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.planners.candidate import Candidate, stages_in_order
from rb_core.planners.durations import StageTimes
from rb_core.planners.labels import (
    TOLERANCE,
    Column,
    Index,
    Labels,
    Price,
    joined,
    pruned,
    refined,
    release_newest,
    undominated,
)
from rb_core.planners.objective import Limit, no_room

_QUICK_LABELS = 12
"""The quick search keeps no more labels of equal nodes than this."""

_NEAR = 0.02
"""With noise, plans up to this much dearer than the modelled front are sampled too."""


class Exact:
    """The cheapest (or fastest) of all plans under the expected-value model."""

    name = "exact"

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The best plan there is for the objective. Raises as `Planner.plan`."""
        model = ExpectedModel(problem)
        limit = Limit(model, rng)
        candidates = front(model)
        best = limit.first(candidates)
        if best is None:
            raise limit.infeasible(self.name, candidates)
        return best.plan(limit.problem)


def front(model: ExpectedModel) -> list[Candidate]:
    """All undominated plans, the fastest first.

    Raises:
        NoFeasiblePlan: not even one trial fits on any type.
    """
    problem = model.problem
    incumbent = undominated_candidates(_Search(model, quick=True).run())
    candidates = [*incumbent, *_Search(model, incumbent=incumbent).run()]
    if not candidates:
        raise no_room(problem)
    if problem.noisy:
        candidates = [_sampled(problem, candidate) for candidate in candidates]
    return undominated_candidates(candidates)


def undominated_candidates(candidates: list[Candidate]) -> list[Candidate]:
    """Those that none beats in both time and cost, the fastest first."""
    best: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.jct_s, c.cost_usd)):
        if not best or candidate.cost_usd < best[-1].cost_usd - TOLERANCE:
            best.append(candidate)
    return best


def _sampled(problem: Problem, candidate: Candidate) -> Candidate:
    jct_s, cost_usd = expected(problem, candidate.plan(problem))
    return Candidate(allocations=candidate.allocations, jct_s=jct_s, cost_usd=cost_usd)


class _Search:
    """Label-setting over the stages of one problem."""

    def __init__(
        self, model: ExpectedModel, *, quick: bool = False, incumbent: Sequence[Candidate] = ()
    ) -> None:
        self._model = model
        self._quick = quick
        self._incumbent = _Incumbent(incumbent)
        self._problem = model.problem
        self._stages = stages_in_order(model.problem)
        self._types = model.problem.cloud.instance_types
        self._prices = [_price(model.problem, instance_type) for instance_type in self._types]
        # For each stage, how its labels came about: rows of (parent, type, nodes, width).
        self._made: list[NDArray[np.intp]] = []

    def run(self) -> list[Candidate]:
        """The complete plans of the final front (with noise also those near it); none when no trial fits."""
        most = [self._useful_nodes(instance_type) for instance_type in self._types]
        closed = Labels(
            time_s=np.zeros(1),
            closed_usd=np.zeros(1),
            running_s=np.empty((1, 0)),
            nodes=np.zeros(1, dtype=np.intp),
            origin=np.full(1, -1, dtype=np.intp),
        )
        held: list[list[Labels]] = [[] for _ in self._types]
        least_left = self._least_left() if self._incumbent else None
        for position, (chain, stage) in enumerate(self._stages):
            made = _Made()
            released = []
            for number, instance_type in enumerate(self._types):
                price, limit = self._prices[number], most[number][position]
                times = self._times(chain, stage, instance_type)
                source = _Source([closed, *held[number]], price, times, limit, self._quick)
                if least_left:
                    source.bound = partial(self._incumbent.beats, least_left[position])
                grown = [source.grown(nodes, number, made) for nodes in range(1, limit + 1)]
                held[number], free = _taken_apart(grown, price)
                released.append(free)
            self._made.append(made.rows())
            closed = _front_of(joined(released, 0), near=self._problem.noisy and position == len(self._stages) - 1)
            if not len(closed):
                return []
        return [self._candidate(closed, number) for number in range(len(closed))]

    def _times(self, chain: int, stage: int, instance_type: InstanceType) -> StageTimes:
        key = (chain, stage, instance_type.name)
        cache = self._model.stage_times
        if key not in cache:
            cache[key] = StageTimes(self._model, chain, stage, instance_type, self._problem.cloud.max_nodes)
        return cache[key]

    def _least_left(self) -> list[tuple[Column, Column]]:
        """For the end of every stage, points (seconds, usd) of which one is below whatever the rest can take and cost.

        In each stage, on any type and with any width: at least the time on all nodes at once, and at least the rent of
        the places while they train.
        """
        left = (np.zeros(1), np.zeros(1))
        points = [left]
        for chain, stage in reversed(self._stages[1:]):
            options = [
                least
                for number, instance_type in enumerate(self._types)
                for least in self._times(chain, stage, instance_type).least(self._prices[number].usd_per_s)
            ]
            time_s = np.add.outer(left[0], [option[0] for option in options]).ravel()
            cost_usd = np.add.outer(left[1], [option[1] for option in options]).ravel()
            keep = undominated(time_s, cost_usd, cost_usd)
            left = _thinned(time_s[keep], cost_usd[keep])
            points.append(left)
        return points[::-1]

    def _useful_nodes(self, instance_type: InstanceType) -> list[int]:
        """For every stage the most nodes that it or a later one could occupy, at most `max_nodes`."""
        useful, most = [], 0
        for chain, stage in reversed(self._stages):
            trials = self._problem.experiment.chains[chain][stage].trials
            for width in self._problem.profile.slots:
                if divides(width, instance_type.slots):
                    group, per_node = max(1, width // instance_type.slots), max(1, instance_type.slots // width)
                    most = max(most, -(-trials // per_node) * group)
            useful.append(min(most, self._problem.cloud.max_nodes))
        return useful[::-1]

    def _candidate(self, closed: Labels, number: int) -> Candidate:
        """Read a complete plan back, stage by stage from the last."""
        allocations: list[StageAllocation] = []
        label = int(closed.origin[number])
        for made in reversed(self._made):
            parent, type_index, nodes, width = (int(value) for value in made[label])
            allocations.append(
                StageAllocation(
                    instance_type=self._types[type_index].name, nodes=nodes, slots_per_trial=width
                )
            )
            label = parent
        return Candidate(
            allocations=tuple(reversed(allocations)),
            jct_s=float(closed.time_s[number]),
            cost_usd=float(closed.closed_usd[number]),
        )


class _Incumbent:
    """Complete plans that are known, to drop labels that cannot lead to anything better."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        best = undominated_candidates(list(candidates))
        self._time_s = np.array([c.jct_s for c in best])
        self._cost_usd = np.array([math.inf, *(c.cost_usd for c in best)])

    def __bool__(self) -> bool:
        return len(self._time_s) > 0

    def beats(self, left: tuple[Column, Column], time_s: Column, floor: Column) -> NDArray[np.bool_]:
        """Whether a known plan is as good as the best that each label can still become; shape (labels,).

        Args:
            left: points (seconds, usd) below whatever is still to come.
            time_s: barrier times of the labels.
            floor: their lower prices.
        """
        ends = time_s[:, None] + left[0]
        known = self._cost_usd[np.searchsorted(self._time_s, ends + TOLERANCE, side="right")]
        return (known <= floor[:, None] + left[1] + TOLERANCE).all(axis=1)


def _thinned(time_s: Column, cost_usd: Column, most: int = 16) -> tuple[Column, Column]:
    """At most so many points below all those of a front (ascending times): the lower left corners of its pieces."""
    first = np.unique(np.linspace(0, len(time_s), min(most, len(time_s)) + 1).astype(int)[:-1])
    last = np.append(first[1:], len(time_s)) - 1
    return time_s[first], cost_usd[last]


class _Made:
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


class _Source:
    """Labels at a barrier by what they keep of one type, ready to be continued on it."""

    def __init__(self, kept: list[Labels], price: Price, times: StageTimes, most: int, quick: bool) -> None:
        self._price, self._times = price, times
        usable = [part for part in kept if len(part) and part.running_s.shape[1] <= most]
        flat = joined(usable, most)
        self._quick = quick
        self.bound: Callable[[Column, Column], NDArray[np.bool_]] | None = None
        self._flat = flat
        rows = np.arange(len(flat))
        newest = flat.running_s[rows, np.maximum(flat.nodes, 1) - 1] if most else np.empty(0)
        self._newest_s = np.where(flat.nodes > 0, newest, -np.inf)
        self._running_sum_s = np.nansum(flat.running_s, axis=1)
        ages_s = flat.time_s[:, None] - flat.running_s
        self._starting = (ages_s < price.init_s - TOLERANCE).sum(axis=1)

    def grown(self, nodes: int, type_index: int, made: _Made) -> Labels:
        """The labels of the stage's end after running it on so many nodes, with superfluous ones dropped."""
        end = int(np.searchsorted(self._flat.nodes, nodes, side="right"))
        rows = np.arange(end)
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
        labels = refined(
            Labels(
                time_s=grown.time_s,
                closed_usd=grown.closed_usd,
                running_s=running_s,
                nodes=np.full(len(parent), nodes),
                origin=np.arange(len(parent)),
            ),
            self._price,
        )
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
        possible = np.isfinite(grown.time_s)
        if self._quick:
            possible &= grown.group == 0
        grown = grown.take(possible)
        ceiling = grown.floor if self._quick else grown.ceiling
        grown = grown.take(undominated(grown.time_s, grown.floor, ceiling, grown.group))
        if self.bound:
            grown = grown.take(~self.bound(grown.time_s, grown.floor))
        return grown

    def _looked_up(self, nodes: int, rows: Index, number: int) -> tuple[Column, Index]:
        """(seconds, width) of the stage for labels continued with one option, as if kept nodes were usable."""
        option = self._times.options[number]
        kept = self._flat.nodes[rows]
        new = nodes - kept
        seconds, width = option.seconds[kept, new], option.width[kept, new]
        if self._quick:
            idle = (new > 0) & (option.seconds[kept, np.maximum(new - 1, 0)] <= seconds + TOLERANCE)
            seconds = np.where(idle, np.inf, seconds)
        return seconds, width

    def _continued(self, nodes: int, rows: Index, number: int, seconds: Column, width: Index) -> _Grown:
        """Labels continued with one option, given the seconds and the width of each."""
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
        # Labels with so many new nodes under one option have them at one age; where kept ones start too, none is alike.
        starting = (new > 0) & (new_age_s < price.init_s - TOLERANCE)
        group = np.where(starting, new + number * (nodes + 1), 0)
        group = np.where(newest_age_s < price.init_s - TOLERANCE, -1, group)
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
        """(seconds, width) of the stage for labels with kept nodes that are still starting, all from one request."""
        flat, starting = self._flat, self._starting[rows]
        offset_s = self._newest_s[rows] + self._price.init_s - flat.time_s[rows]
        kept = flat.nodes[rows]
        return self._times.starting(number, kept - starting, offset_s, starting, nodes - kept)


def _taken_apart(grown: list[Labels], price: Price) -> tuple[list[Labels], Labels]:
    """Labels by the number of nodes that they keep, from 1 up, and those that keep none.

    Args:
        grown: labels by the number of nodes that they hold, from 1 up.
        price: of these nodes.
    """
    kept: list[Labels] = []
    down = joined([], len(grown))
    for nodes in range(len(grown), 0, -1):
        here = pruned(joined([grown[nodes - 1], down], nodes), price) if len(down) else grown[nodes - 1]
        kept.append(here)
        down = release_newest(here, price)
    return kept[::-1], down


def _front_of(closed: Labels, *, near: bool) -> Labels:
    """Of labels that hold nothing those that none beats in both; with `near` also those little dearer."""
    floor = closed.closed_usd / (1.0 + _NEAR) if near else closed.closed_usd
    return closed.take(undominated(closed.time_s, floor, closed.closed_usd))


def _price(problem: Problem, instance_type: InstanceType) -> Price:
    cloud = problem.cloud
    return Price(
        billing=cloud.billing,
        usd_per_s=instance_type.usd_per_s,
        data_usd=cloud.data_usd,
        launch_s=cloud.launch_s.mean,
        init_s=cloud.init_s.mean,
    )
