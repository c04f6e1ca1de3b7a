"""Stage times for every number of kept and new nodes at once: what the exact planner looks up in its inner loop.

With equal trials of d seconds, `a` places free at the barrier and `b` more after L seconds, the starts are the n
smallest of ``{j*d}`` (a times each) and ``{L + j*d}`` (b times each); the stage ends d after the n-th. Both candidates
for that n-th start have a closed form, so a whole table (kept, new) is a handful of array operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rb_core.expectation import ExpectedModel, makespan_s, places_of, slowdown
from rb_core.hardware import BillingMode, InstanceType
from rb_core.placement import Placement, divides

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOption:
    """One way to run a stage on an instance type: the choice of width for every number of kept and new nodes.

    Attributes:
        seconds: barrier to barrier; shape (max_nodes + 1 kept, max_nodes + 1 new), inf where no trial fits.
        width: slots per trial chosen; same shape, 0 where no trial fits.
        training_usd: bill of the stage's training under PER_FUNCTION, else 0.
    """

    seconds: Table
    width: NDArray[np.int64]
    training_usd: float


class StageTimes:
    """All times of one stage on one instance type.

    Attributes:
        options: one (the soonest width for every case), or under PER_FUNCTION one for every width, since a slower one
            may be cheaper there; empty where no trial fits.
    """

    def __init__(
        self, model: ExpectedModel, chain: int, stage: int, instance_type: InstanceType, max_nodes: int
    ) -> None:
        self._problem = model.problem
        self._type = instance_type
        self._trials = model.problem.experiment.chains[chain][stage].trials
        widths = [
            width
            for width in model.problem.profile.slots
            if divides(width, instance_type.slots) and width <= max_nodes * instance_type.slots
        ]
        self._widths = [_WidthTimes(model, chain, stage, instance_type, width, max_nodes) for width in widths]
        self._per_function = model.problem.cloud.billing.mode is BillingMode.PER_FUNCTION
        self.options = tuple(self._all_options())

    def _all_options(self) -> Iterator[StageOption]:
        each = [
            StageOption(
                seconds=times.seconds,
                width=np.where(np.isfinite(times.seconds), times.width, 0),
                training_usd=times.training_usd if self._per_function else 0.0,
            )
            for times in self._widths
        ]
        if self._per_function or not each:
            yield from each
            return
        seconds, width = each[0].seconds, each[0].width
        for option in each[1:]:
            sooner = option.seconds < seconds - 1e-9
            seconds, width = np.where(sooner, option.seconds, seconds), np.where(sooner, option.width, width)
        yield StageOption(seconds=seconds, width=width, training_usd=0.0)

    def least(self, usd_per_s: float) -> Iterator[tuple[float, float]]:
        """For every width, seconds and usd that the stage takes and costs at least at that price of a node."""
        for times in self._widths:
            yield float(times.seconds.min()), times.busy_s * usd_per_s

    def uneven(self, option: int, offsets: tuple[tuple[float, int], ...], new: int) -> tuple[float, int]:
        """(seconds, width) of one of the options where kept nodes are still starting.

        Args:
            option: which of `options`.
            offsets: (seconds until usable, count) of the kept nodes, ascending.
            new: nodes requested at the barrier.
        """
        chosen = [self._widths[option]] if self._per_function else self._widths
        best = (math.inf, 0)
        for times in chosen:
            seconds = times.uneven(offsets, new)
            if seconds < best[0] - 1e-9:
                best = (seconds, times.width)
        return best


class _WidthTimes:
    """Times of one stage on one type with one width."""

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
        slow = slowdown(problem, width > instance_type.slots, instance_type.speed)
        iterating_s = step.iterations * problem.profile.iteration_s[width].mean
        self.width = width
        self._model = model
        self._place = (chain, stage, instance_type)
        self._trials = step.trials
        self._trial_s = problem.profile.start_s.mean + slow * iterating_s + problem.profile.save_s.mean
        self._group = max(1, width // instance_type.slots)
        self._per_node = max(1, instance_type.slots // width)
        self._start_s = problem.cloud.launch_s.mean + problem.cloud.init_s.mean
        self._sync_s = problem.profile.sync_s
        share = width / instance_type.slots
        self.busy_s = step.trials * self._trial_s * share
        self.training_usd = self.busy_s * instance_type.usd_per_s
        self._effective = self._under_noise(max_nodes) if problem.noisy else None
        self.seconds = self._table(max_nodes)

    def uneven(self, offsets: tuple[tuple[float, int], ...], new: int) -> float:
        """Barrier to barrier in seconds; see `StageTimes.uneven`."""
        nodes = sorted((*offsets, (self._start_s, new)) if new else offsets)
        ready = places_of(nodes, self._group, self._per_node)
        if not ready:
            return math.inf
        trial_s = self._trial_s
        if self._effective is not None:
            trial_s = float(self._effective[min(sum(count for _, count in ready), len(self._effective) - 1)])
        return makespan_s(self._trials, trial_s, ready) + self._sync_s

    def _table(self, max_nodes: int) -> Table:
        kept, new = np.meshgrid(np.arange(max_nodes + 1), np.arange(max_nodes + 1), indexing="ij")
        now = kept // self._group * self._per_node
        later = (kept + new) // self._group * self._per_node - now
        trial_s: float | Table = self._trial_s
        later_s: float | Table = self._start_s
        if self._effective is not None:
            trial_s = self._effective[np.minimum(now + later, len(self._effective) - 1)]
            # Expectation of the last of c about normal starts, by the leading term of extreme value theory.
            cloud = self._model.problem.cloud
            spread_s = math.hypot(cloud.launch_s.std, cloud.init_s.std)
            needed = np.maximum(1, np.minimum(later, self._trials) * self._group // self._per_node)
            later_s = self._start_s + spread_s * np.sqrt(2.0 * np.log(needed))
        table = two_wave_makespan(self._trials, trial_s, now, later, later_s) + self._sync_s
        table[kept + new > max_nodes] = np.inf
        return table

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
        mean_s, _ = self._model.stage_moments(chain, stage, placement, instance_type.speed, offsets, 0)
        return mean_s - self._sync_s


def two_wave_makespan(
    trials: int, trial_s: float | Table, now: NDArray[np.int64], later: NDArray[np.int64], later_s: float | Table
) -> Table:
    """When the last of equal trials ends on `now` places free at 0 and `later` places free at `later_s`.

    Args:
        trials: how many trials.
        trial_s: duration of each; a number or of the result's shape.
        now: places free at once; same shape.
        later: places free after `later_s`; same shape.
        later_s: seconds, a number or of the same shape.

    Returns:
        Seconds; inf where there is no place at all.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        lag = np.where(trial_s > 0, later_s / trial_s, np.inf)
        up, down = np.ceil(lag - 1e-9), np.floor(lag + 1e-9)
        both = now + later
        # The n-th start on a place that is free at once: before the later ones come, or after.
        alone = np.ceil(trials / now) - 1
        joined = np.maximum(up, np.ceil((trials + later * (up - 1) - now) / both))
        first = np.where(now == 0, np.inf, np.where((alone < lag - 1e-9) | (later == 0), alone, joined)) * trial_s
        # The n-th start on one of the later places.
        wave = np.maximum(0, np.ceil((trials - both - now * down) / both))
        second = np.where(later == 0, np.inf, later_s + wave * trial_s)
        ends = np.fmin(first, second) + trial_s
    return np.where(both == 0, np.inf, ends)
