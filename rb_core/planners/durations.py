"""Stage times for every number of kept and new nodes at once: what the exact planner looks up in its inner loop.

With equal trials the end of a stage has a closed form (see `makespan`), so a whole table is a handful of array
operations.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rb_core.expectation import ExpectedModel, makespan_s, places_of
from rb_core.hardware import BillingMode, InstanceType
from rb_core.interruption import interruption_of, stage_trial_s
from rb_core.placement import Placement, divides

Table = NDArray[np.float64]
Counts = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOption:
    """One way to run a stage on an instance type: the choice of width for every number of kept and new nodes.

    Attributes:
        seconds: barrier to barrier; shape (max_nodes + 1 kept, max_nodes + 1 new), inf where no trial fits.
        width: slots per trial chosen; same shape, of no consequence where no trial fits.
        training_usd: bill of the stage's training under PER_FUNCTION, else 0.
    """

    seconds: Table
    width: NDArray[np.int64]
    training_usd: float


class StageTimes:
    """All times of one stage on one instance type.

    Attributes:
        widths: the times with each width with which a trial fits, ascending.
        options: what is to be tried: the soonest width of every case, or under PER_FUNCTION every width, since a slower
            one may be cheaper there; empty where no trial fits.
    """

    def __init__(
        self,
        model: ExpectedModel,
        chain: int,
        stage: int,
        instance_type: InstanceType,
        max_nodes: int,
        widths: Collection[int],
    ) -> None:
        """Those with any of these widths."""
        problem = model.problem
        per_function = problem.cloud.billing.mode is BillingMode.PER_FUNCTION
        self.widths = tuple(
            WidthTimes(model, chain, stage, instance_type, width, max_nodes)
            for width in widths
            if divides(width, instance_type.slots) and width <= max_nodes * instance_type.slots
        )
        each = tuple(
            StageOption(
                seconds=times.seconds,
                width=np.full(times.seconds.shape, times.width),
                training_usd=times.busy_s * instance_type.usd_per_s if per_function else 0.0,
            )
            for times in self.widths
        )
        self.options = each if per_function else each[:1] and (_soonest(each),)

    def of_option(self, option: int) -> tuple[WidthTimes, ...]:
        """The widths that one of the options stands for."""
        return self.widths if len(self.options) == 1 else (self.widths[option],)


def _soonest(each: Sequence[StageOption]) -> StageOption:
    seconds, width = each[0].seconds, each[0].width
    for option in each[1:]:
        sooner = option.seconds < seconds - 1e-9
        seconds, width = np.where(sooner, option.seconds, seconds), np.where(sooner, option.width, width)
    return StageOption(seconds=seconds, width=width, training_usd=each[0].training_usd)


class WidthTimes:
    """Times of one stage on one type with one width.

    Attributes:
        width: slots per trial.
        seconds: barrier to barrier where all kept nodes are usable; see `StageOption`.
        busy_s: node-seconds of bare training.
    """

    def __init__(
        self,
        model: ExpectedModel,
        chain: int,
        stage: int,
        instance_type: InstanceType,
        width: int,
        max_nodes: int,
    ) -> None:
        problem = model.problem
        step = problem.experiment.chains[chain][stage]
        self.width = width
        self._model = model
        self._place = (chain, stage, instance_type)
        self._trials = step.trials
        shape = {"slots": width, "node_slots": instance_type.slots}
        self._trial_s = problem.profile.trial_s(step.iterations, **shape, speed=instance_type.speed)
        self._group = max(1, width // instance_type.slots)
        self._per_node = max(1, instance_type.slots // width)
        self._start_s = problem.cloud.launch_s.mean + problem.cloud.init_s.mean
        self._sync_s = problem.profile.sync_s
        share = width / instance_type.slots
        self.busy_s = step.trials * self._busy_s(step.iterations) * share
        # Durations that stand for each trial: by the number of places, or by that of nodes; None where all are alike.
        self._effective = self._under_noise(max_nodes) if problem.varies else None
        self._interrupted = None
        if instance_type.interruptions_per_hour > 0 and not problem.varies:
            self._interrupted = self._under_interruptions(step.iterations, max_nodes)
        self.seconds = self._table(max_nodes)

    def starting(self, usable: Counts, batches: Sequence[tuple[Table, Counts]], new: Counts) -> Table:
        """Barrier to barrier in seconds where some kept nodes are still starting; all of one shape.

        Args:
            usable: kept nodes that are usable at the barrier.
            batches: (seconds until usable, count) of the other kept nodes, ascending; a count may be 0.
            new: nodes requested at the barrier, which are usable last.
        """
        nodes = np.cumsum([usable, *(count for _, count in batches), new], axis=0)
        places = np.diff(nodes // self._group * self._per_node, axis=0, prepend=0)
        trial_s = self._lasting_s(nodes[-1], places.sum(axis=0))
        offsets: list[float | Table] = [0.0, *(offset_s for offset_s, _ in batches), self._start_s]
        return makespan(self._trials, trial_s, tuple(places), offsets) + self._sync_s

    def staggered(self, offsets: Sequence[tuple[float, int]], new: int) -> float:
        """Barrier to barrier in seconds for kept nodes with any (seconds until usable, count), ascending."""
        nodes = sorted([*offsets, (self._start_s, new)]) if new else list(offsets)
        ready = places_of(nodes, self._group, self._per_node)
        if not ready:
            return math.inf
        count, places = sum(count for _, count in nodes), sum(count for _, count in ready)
        trial_s = float(self._lasting_s(np.intp(count), np.intp(places)))
        return makespan_s(self._trials, trial_s, ready) + self._sync_s

    def _table(self, max_nodes: int) -> Table:
        kept, new = np.meshgrid(np.arange(max_nodes + 1), np.arange(max_nodes + 1), indexing="ij")
        now = kept // self._group * self._per_node
        later = (kept + new) // self._group * self._per_node - now
        trial_s = self._lasting_s(np.minimum(kept + new, max_nodes), now + later)
        later_s: float | Table = self._start_s
        if self._effective is not None:
            # Expectation of the last of c about normal starts, by the leading term of extreme value theory.
            cloud = self._model.problem.cloud
            spread_s = math.hypot(cloud.launch_s.std, cloud.init_s.std)
            needed = np.maximum(1, np.minimum(later, self._trials) * self._group // self._per_node)
            later_s = self._start_s + spread_s * np.sqrt(2.0 * np.log(needed))
        table = makespan(self._trials, trial_s, (now, later), (0.0, later_s)) + self._sync_s
        table[kept + new > max_nodes] = np.inf
        return table

    def _lasting_s(self, nodes: Counts | np.intp, places: Counts | np.intp) -> float | Table:
        """The duration that stands for each trial on so many nodes, which make so many places."""
        if self._interrupted is not None:
            by_nodes: Table = self._interrupted[nodes]
            return by_nodes
        if self._effective is not None:
            by_places: Table = self._effective[np.minimum(places, len(self._effective) - 1)]
            return by_places
        return self._trial_s

    def _busy_s(self, iterations: int) -> float:
        """Mean time that a trial is on a node; a node to spare does not change it."""
        _, _, instance_type = self._place
        profile = self._model.problem.profile
        interruption = interruption_of(self._model.problem, self._placement(self._group), instance_type)
        if interruption is None:
            return self._trial_s
        work_s = profile.work_s(iterations, slots=self.width, node_slots=instance_type.slots, speed=instance_type.speed)
        return interruption.busy_s(work_s, profile.save_s.mean)

    def _under_interruptions(self, iterations: int, max_nodes: int) -> Table:
        """As `stage_trial_s` has them; index: nodes, from 0. Where no trial fits it is of no consequence."""
        _, _, instance_type = self._place
        by_nodes = np.full(max_nodes + 1, self._trial_s)
        for nodes in range(self._group, max_nodes + 1):
            placement = self._placement(nodes)
            by_nodes[nodes], _ = stage_trial_s(self._model.problem, iterations, placement, instance_type)
        return by_nodes

    def _placement(self, nodes: int) -> Placement:
        _, _, instance_type = self._place
        return Placement(trials=self._trials, slots_per_trial=self.width, node_slots=instance_type.slots, nodes=nodes)

    def _under_noise(self, max_nodes: int) -> Table:
        """Trial times that stand for the expectation of the *last* trial; index: places, from 0.

        The expected end on c places free at once, divided by the number of waves, is the trial time with which the
        formula for equal trials gives that expectation. It is worked out where the number of waves changes, and
        interpolated between.
        """
        most = min(max_nodes // self._group * self._per_node, self._trials)
        counts, count = [], most
        while count >= 1:
            counts.append(count)
            count = min(-(-self._trials // (-(-self._trials // count) + 1)), count - 1)
        known = counts[::-1]
        means = [self._end_s(count) / -(-self._trials // count) for count in known]
        return np.interp(np.arange(most + 1), known, means)

    def _end_s(self, places: int) -> float:
        """Expected end of the stage's last trial on so many places that are free at once."""
        chain, stage, instance_type = self._place
        # Nodes of the trial's own size stand for the places; a trial that spans nodes needs them all.
        node_slots = min(self.width, instance_type.slots)
        placement = Placement(
            trials=self._trials, slots_per_trial=self.width, node_slots=node_slots, nodes=places * self._group
        )
        offsets = ((0.0, placement.nodes),)
        mean_s, _ = self._model.stage_moments(chain, stage, placement, instance_type, offsets, 0)
        return mean_s - self._sync_s


def makespan(trials: int, trial_s: float | Table, places: Sequence[Counts], offsets: Sequence[float | Table]) -> Table:
    """When the last of equal trials ends on groups of places, each group usable after an offset of its own.

    The n-th start lies on one of the groups, say at ``x + j * d`` with j >= 0 as small as possible. By then a group g
    has begun ``c_g * max(0, j - h_g)`` trials, where h_g = -floor((x - x_g) / d) - 1. The sum over the groups is the
    largest sum over any subset of them, taken without the max; so the least j is the least over all subsets of
    ``ceil((n + sum c_g * h_g) / sum c_g)``.

    Args:
        trials: how many trials.
        trial_s: duration of each; a number or of the result's shape.
        places: count of each group; all of the result's shape.
        offsets: seconds until each group is usable; numbers or of the result's shape.

    Returns:
        Seconds; inf where there is no place at all.
    """
    subsets = [which for size in range(1, len(places) + 1) for which in combinations(range(len(places)), size)]
    last_start = np.full(places[0].shape, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for count, offset in zip(places, offsets, strict=True):
            behind = [-np.floor((offset - other) / trial_s + 1e-9) - 1 for other in offsets]
            least = np.full(places[0].shape, np.inf)
            for which in subsets:
                begun = trials + sum(places[g] * behind[g] for g in which)
                least = np.fmin(least, np.ceil(begun / sum(places[g] for g in which) - 1e-9))
            start = offset + np.maximum(0.0, least) * trial_s
            last_start = np.fmin(last_start, np.where(count > 0, start, np.inf))
    return last_start + trial_s
