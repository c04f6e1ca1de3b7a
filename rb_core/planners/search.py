"""The exact planner's walk through the stages: which labels are continued, and how complete plans are read back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rb_core.expectation import ExpectedModel, Progress
from rb_core.hardware import InstanceType
from rb_core.plan import Problem, StageAllocation
from rb_core.planners.candidate import Candidate, stages_in_order, useful_nodes
from rb_core.planners.durations import StageTimes
from rb_core.planners.growth import Growth, Made
from rb_core.planners.labels import (
    TOLERANCE,
    Column,
    Labels,
    Price,
    joined,
    nothing,
    pruned,
    release_newest,
    thinned,
    undominated,
)

_QUICK_LABELS = 24
"""A quick search keeps no more labels with equal nodes than this."""

_CORNERS = 32
"""Points that stand for what the rest of a job takes and costs at least."""


class StageTables:
    """The stage times of one problem, worked out once for all searches.

    Attributes:
        problem: the problem.
        stages: (chain, stage) of what a search walks through, in order.
        bound: type and width of the first of them, and the fewest of its nodes; None where it is free.
    """

    def __init__(
        self,
        model: ExpectedModel,
        *,
        chain: int | None = None,
        first: int = 0,
        bound: StageAllocation | None = None,
    ) -> None:
        """Those of all stages from the `first` on, one chain after another, or of one chain alone."""
        self._model = model
        self.problem = model.problem
        self.bound = bound
        stages = stages_in_order(model.problem)[first:]
        self.stages = tuple(place for place in stages if chain in (None, place[0]))
        self._times: dict[tuple[int, int, str], StageTimes] = {}

    def times(self, position: int, instance_type: InstanceType) -> StageTimes:
        """Those of the stage at that position on a type."""
        chain, stage = self.stages[position]
        key = (chain, stage, instance_type.name)
        if key not in self._times:
            most = min(self.problem.cloud.max_nodes, useful_nodes(self.problem, instance_type))
            widths = self._widths(position, instance_type)
            self._times[key] = StageTimes(self._model, chain, stage, instance_type, most, widths)
        return self._times[key]

    def least_nodes(self, position: int) -> int:
        """The fewest nodes that the stage at that position may have."""
        return self.bound.nodes if self.bound and not position else 1

    def _widths(self, position: int, instance_type: InstanceType) -> tuple[int, ...]:
        if position or self.bound is None:
            return self.problem.profile.slots
        return (self.bound.slots_per_trial,) if self.bound.instance_type == instance_type.name else ()


def all_plans(
    tables: StageTables, *, known: Sequence[Candidate] = (), near: float = 0.0, max_nodes: int | None = None
) -> list[Candidate]:
    """What a search finds, and what was known. See `Search` for the arguments.

    A quick search comes first: what is known saves the other one most of its labels.
    """
    known = undominated_plans([*known, *Search(tables, quick=True, max_nodes=max_nodes).run()])
    return [*known, *Search(tables, known=known, near=near, max_nodes=max_nodes).run()]


class Search:
    """Label-setting over the stages of one problem."""

    def __init__(
        self,
        tables: StageTables,
        *,
        quick: bool = False,
        most_labels: int | None = None,
        known: Sequence[Candidate] = (),
        near: float = 0.0,
        max_nodes: int | None = None,
        start: Progress | None = None,
        unwanted: Sequence[tuple[float, float]] = (),
    ) -> None:
        """Prepare a search.

        Args:
            tables: the problem's stage times.
            quick: keep few labels and try few numbers of nodes: complete plans, but not all that are undominated.
            most_labels: labels with equal nodes to keep at most, which bounds the work where stages are shorter than
                what a node is charged at least; None keeps all, so that no plan is missed.
            known: complete plans that need not be found again.
            near: plans dearer than the front by up to this fraction are returned too.
            max_nodes: a limit below the problem's; None is the problem's.
            start: what the plans begin with, its batches by the time at which they are usable, none later than a node
                requested at its barrier would be; None is with nothing, at time 0.
            unwanted: (jct_s, cost_usd) such that plans neither below the one nor the other are of no use.
        """
        self._tables, self._quick, self._near = tables, quick, near
        self._most_labels = _QUICK_LABELS if quick else most_labels
        self._known = _Known(known, near, unwanted)
        self._start = Progress() if start is None else start
        self._problem = problem = tables.problem
        self._max_nodes = problem.cloud.max_nodes if max_nodes is None else max_nodes
        self._types = problem.cloud.instance_types
        self._prices = [_price(problem, instance_type) for instance_type in self._types]
        # For each stage, how its labels came about: rows of (parent, type, nodes, width).
        self._made: list[NDArray[np.intp]] = []

    def run(self) -> list[Candidate]:
        """The complete plans of the final front; none when no trial fits."""
        most = [self._useful_nodes(instance_type) for instance_type in self._types]
        worthwhile = [self._worthwhile(instance_type) for instance_type in self._types] if self._quick else []
        least_left = self._least_left() if self._known else None
        intact, trimmed, emptied = self._at_start()
        for position in range(len(self._tables.stages)):
            made = Made()
            # Held nodes are kept, so what has given all of a type back goes on with another type.
            fresh = [
                _front_of(joined([*emptied[:number], *emptied[number + 1 :]], 0)) for number in range(len(self._types))
            ]
            for number, instance_type in enumerate(self._types):
                price, limit = self._prices[number], most[number][position]
                growth = Growth(
                    fresh[number],
                    intact[number],
                    trimmed[number],
                    price,
                    self._tables.times(position, instance_type),
                    most=limit,
                    quick=self._quick,
                    most_labels=self._most_labels,
                    beaten=partial(self._known.beats, least_left[position]) if least_left else None,
                )
                counts = worthwhile[number][position] if self._quick else range(1, limit + 1)
                least = min(self._tables.least_nodes(position), limit)
                intact[number] = [
                    growth.on(nodes, number, made) if nodes >= least and nodes in counts else nothing(nodes)
                    for nodes in range(1, limit + 1)
                ]
                trimmed[number], emptied[number] = _taken_apart(intact[number], price, self._most_labels)
            del emptied[len(self._types) :]
            self._made.append(made.rows())
            if not any(len(labels) for labels in emptied):
                return []
        complete = _front_of(joined(emptied, 0), self._near)
        return [self._candidate(complete, number) for number in range(len(complete))]

    def _at_start(self) -> tuple[list[list[Labels]], list[list[Labels]], list[Labels]]:
        """The start as labels that are intact and trimmed, by type and nodes, and emptied ones.

        These are by type too; what holds nothing, or of no type that may be used, comes last.
        """
        start, kind = self._start, self._start.instance_type
        intact: list[list[Labels]] = [[] for _ in self._types]
        trimmed: list[list[Labels]] = [[] for _ in self._types]
        emptied = [nothing(0) for _ in self._types]
        counts = [batch.count for batch in start.held]
        nodes = sum(counts)
        label = Labels(
            time_s=np.full(1, start.barrier_s),
            closed_usd=np.full(1, start.cost_usd),
            running_s=np.repeat([batch.running_s for batch in start.held], counts).reshape(1, nodes),
            usable_s=np.repeat([batch.usable_s for batch in start.held], counts).reshape(1, nodes),
            nodes=np.full(1, nodes),
            origin=np.full(1, -1),
        )
        if kind is None or not nodes:
            return intact, trimmed, [*emptied, label]
        grown = [*(nothing(fewer) for fewer in range(1, nodes)), label]
        kept, given_back = _taken_apart(grown, _price(self._problem, kind), None)
        if kind not in self._types:
            return intact, trimmed, [*emptied, given_back]
        number = self._types.index(kind)
        intact[number], trimmed[number], emptied[number] = grown, kept, given_back
        return intact, trimmed, emptied

    def _least_left(self) -> list[tuple[Column, Column]]:
        """For the end of every stage, points (seconds, usd) of which one is below whatever the rest can take and cost.

        In each stage, on any type and with any width: at least the time on all nodes at once, and at least the rent of
        the places while they train.
        """
        left = (np.zeros(1), np.zeros(1))
        points = [left]
        for position in range(len(self._tables.stages) - 1, 0, -1):
            options = [
                (float(times.seconds.min()), times.busy_s * instance_type.usd_per_s)
                for instance_type in self._types
                for times in self._tables.times(position, instance_type).widths
            ]
            time_s = np.add.outer(left[0], [option[0] for option in options]).ravel()
            cost_usd = np.add.outer(left[1], [option[1] for option in options]).ravel()
            keep = undominated(time_s, cost_usd, cost_usd)
            left = _corners(time_s[keep], cost_usd[keep])
            points.append(left)
        return points[::-1]

    def _useful_nodes(self, instance_type: InstanceType) -> list[int]:
        """For every stage the most nodes that it or a later one could occupy, at most the limit."""
        chains, trials = self._problem.experiment.chains, 0
        useful = []
        for chain, stage in reversed(self._tables.stages):
            trials = max(trials, chains[chain][stage].trials)
            useful.append(min(useful_nodes(self._problem, instance_type, trials), self._max_nodes))
        return useful[::-1]

    def _worthwhile(self, instance_type: InstanceType) -> list[set[int]]:
        """For every stage the numbers of nodes of which one less makes it or a later stage longer."""
        counts: set[int] = set()
        worthwhile = []
        for position in range(len(self._tables.stages) - 1, -1, -1):
            for option in self._tables.times(position, instance_type).options:
                gains = option.seconds[1:, 0] < option.seconds[:-1, 0] - TOLERANCE
                counts.update((np.flatnonzero(gains) + 1).tolist())
            worthwhile.append(set(counts))
        return worthwhile[::-1]

    def _candidate(self, closed: Labels, number: int) -> Candidate:
        """Read a complete plan back, stage by stage from the last."""
        allocations: list[StageAllocation] = []
        label = int(closed.origin[number])
        for made in reversed(self._made):
            parent, type_index, nodes, width = (int(value) for value in made[label])
            allocations.append(
                StageAllocation(instance_type=self._types[type_index].name, nodes=nodes, slots_per_trial=width)
            )
            label = parent
        return Candidate(
            allocations=tuple(reversed(allocations)),
            jct_s=float(closed.time_s[number]),
            cost_usd=float(closed.closed_usd[number]),
        )


class _Known:
    """Complete plans that are known, and points of no use, to drop labels that cannot lead to anything better."""

    def __init__(
        self, candidates: Sequence[Candidate], near: float, unwanted: Sequence[tuple[float, float]] = ()
    ) -> None:
        best = [(c.jct_s, c.cost_usd * (1.0 + near)) for c in undominated_plans(candidates)]
        points = sorted([*best, *unwanted])
        self._time_s = np.array([time_s for time_s, _ in points])
        self._cost_usd = np.minimum.accumulate([math.inf, *(usd for _, usd in points)])

    def __bool__(self) -> bool:
        return len(self._time_s) > 0

    def beats(self, left: tuple[Column, Column], time_s: Column, floor: Column, committed: Column) -> NDArray[np.bool_]:
        """Whether a known plan is as good as the best that each label can still become; shape (labels,).

        Args:
            left: points (seconds, usd) below whatever is still to come.
            time_s: barrier times of the labels.
            floor: their lower prices, to which what is still to come is added.
            committed: what they cost even if nothing is.
        """
        ends = time_s[:, None] + left[0]
        known = self._cost_usd[np.searchsorted(self._time_s, ends + TOLERANCE, side="right")]
        least = np.maximum(floor[:, None] + left[1], committed[:, None])
        beaten: NDArray[np.bool_] = np.all(known <= least + TOLERANCE, axis=1)
        return beaten


def _corners(time_s: Column, cost_usd: Column) -> tuple[Column, Column]:
    """At most so many points below all those of a front (ascending times): the lower left corners of its pieces."""
    first = np.unique(np.linspace(0, len(time_s), min(_CORNERS, len(time_s)) + 1).astype(int)[:-1])
    last = np.append(first[1:], len(time_s)) - 1
    return time_s[first], cost_usd[last]


def _taken_apart(grown: list[Labels], price: Price, most_labels: int | None) -> tuple[list[Labels], Labels]:
    """Labels by the number of nodes that they keep, from 1 up, and those that keep none.

    Args:
        grown: labels by the number of nodes that they hold, from 1 up.
        price: of these nodes.
        most_labels: to keep at each number; None for all.
    """
    kept: list[Labels] = []
    down = joined([], len(grown))
    for nodes in range(len(grown), 0, -1):
        here = joined([grown[nodes - 1], down], nodes)
        if len(grown[nodes - 1]) and len(down):
            here = thinned(pruned(here, price), most_labels)
        kept.append(here)
        down = release_newest(here, price)
    return kept[::-1], down


def _front_of(closed: Labels, near: float = 0.0) -> Labels:
    """Of labels that hold nothing those that none beats in both, nor by more than the fraction `near` in cost."""
    return closed.take(undominated(closed.time_s, closed.closed_usd / (1.0 + near), closed.closed_usd))


def undominated_plans(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that none beats in both time and cost, the fastest first."""
    best: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.jct_s, c.cost_usd)):
        if not best or candidate.cost_usd < best[-1].cost_usd - TOLERANCE:
            best.append(candidate)
    return best


def _price(problem: Problem, instance_type: InstanceType) -> Price:
    cloud = problem.cloud
    return Price(
        billing=cloud.billing,
        usd_per_s=instance_type.usd_per_s,
        data_usd=cloud.data_usd,
        launch_s=cloud.launch_s.mean,
        init_s=cloud.init_s.mean,
    )
