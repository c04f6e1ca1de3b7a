"""The expected-value model: what planners search in, one stage at a time and without sampling whole jobs.

A job is followed through its barriers with expected times. Nodes that were requested together share their times, so
they are kept as batches. Without spread in the profile and the cloud this is `simulate` to the last digit. With
spread, a stage's time is the expectation of its *last* trial (see `moments`); the variances of the stages are carried
along, so that the expectation of the *rounded* bill can be taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

from rb_core.billing import billed_s
from rb_core.dag import ExecutionDAG, Step
from rb_core.errors import InvalidInput
from rb_core.hardware import Billing, BillingMode, InstanceType
from rb_core.interruption import interruption_of, stage_trial_s
from rb_core.moments import SEED, Offsets, moments_of
from rb_core.placement import Placement
from rb_core.plan import AllocationPlan, Problem
from rb_core.simulate import simulate

MAX_NOISY_TRIALS = 10_000
"""Most trials of all stages together whose durations vary: planning samples each of them, many times."""

WHOLE_PLAN_SAMPLES = 2000
"""Samples behind the reported expectation of a whole plan."""

_QUADRATURE = 241
"""Points of the integral behind the expected end of chains side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Nodes that share their times, in seconds since the job began.

    Attributes:
        count: how many.
        running_s: when they began to run, expected.
        usable_s: when they became or become usable, expected.
        variance: of `running_s`, in square seconds.
    """

    count: int
    running_s: float
    usable_s: float
    variance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A job at a barrier.

    Attributes:
        barrier_s: expected time of the barrier.
        variance: of that time, in square seconds.
        cost_usd: expected bill of all nodes released so far, and of all training under PER_FUNCTION.
        held: batches held, usable ones first as they became usable, then starting ones as they were requested.
        instance_type: type of all held nodes.
    """

    barrier_s: float = 0.0
    variance: float = 0.0
    cost_usd: float = 0.0
    held: tuple[Batch, ...] = ()
    instance_type: InstanceType | None = None


class ExpectedModel:
    """Expected times and costs under one problem; remembers the stages that it has worked out.

    Attributes:
        problem: the problem.
    """

    def __init__(self, problem: Problem) -> None:
        """A model of the problem.

        Raises:
            InvalidInput: there are more trials with varying durations than can be sampled in minutes.
        """
        trials = problem.experiment.trial_stages
        if problem.noisy and trials > MAX_NOISY_TRIALS:
            raise InvalidInput(
                "experiment",
                f"must have at most {MAX_NOISY_TRIALS} trials in all stages together to be planned with durations that "
                f"vary, got {trials}; set every std and trial_cv to 0: of so many trials the mean is what counts",
            )
        self.problem = problem
        self._sampled = moments_of(problem).of if problem.varies else None
        self._of_equal = cache(self._of_equal_trials)

    def evaluate(self, plan: AllocationPlan) -> tuple[float, float]:
        """Expected (jct_s, cost_usd) of a plan in the model. Raises `InvalidInput` as `ExecutionDAG.build` does."""
        ends = []
        for lane in ExecutionDAG.build(self.problem, plan).lanes:
            progress = Progress()
            for step in lane:
                progress = self.advance(progress, step)
            ends.append(self.finish(progress))
        jct_s = expected_latest_s([(end.barrier_s, math.sqrt(end.variance)) for end in ends])
        return jct_s, sum(end.cost_usd for end in ends)

    def advance(self, progress: Progress, step: Step) -> Progress:
        """The job at the barrier that ends `step`, from the one that begins it."""
        cloud, now = self.problem.cloud, progress.barrier_s
        kept, released = _split(progress.held, step.kept)
        cost_usd = progress.cost_usd
        if released and progress.instance_type is not None:
            cost_usd += self.release_usd(released, progress)
        held = kept
        if step.requested:
            running_s = now + cloud.launch_s.mean
            variance = progress.variance + cloud.launch_s.std**2
            fresh = Batch(
                count=step.requested,
                running_s=running_s,
                usable_s=running_s + cloud.init_s.mean,
                variance=variance,
            )
            held = (*kept, fresh)
        mean_s, variance = self._moments(kept, now, step)
        if cloud.billing.mode is BillingMode.PER_FUNCTION:
            cost_usd += self.training_usd(step)
        barrier_s = now + mean_s
        return Progress(
            barrier_s=barrier_s,
            variance=progress.variance + variance,
            cost_usd=cost_usd,
            held=_in_order(held, barrier_s),
            instance_type=step.instance_type,
        )

    def stage_end_s(self, progress: Progress, step: Step) -> float:
        """Expected time of the barrier that ends `step`."""
        kept, _ = _split(progress.held, step.kept)
        return progress.barrier_s + self._moments(kept, progress.barrier_s, step)[0]

    def _moments(self, kept: tuple[Batch, ...], now_s: float, step: Step) -> tuple[float, float]:
        offsets = tuple((max(0.0, batch.usable_s - now_s), batch.count) for batch in kept)
        return self.stage_moments(step.chain, step.stage, step.placement, step.instance_type, offsets, step.requested)

    def stage_moments(
        self,
        chain: int,
        stage: int,
        placement: Placement,
        instance_type: InstanceType,
        offsets: Offsets,
        requested: int,
    ) -> tuple[float, float]:
        """Mean (s) and variance (s^2) of a stage's time, see `StageMoments.of`."""
        if self._sampled is None:
            return self._of_equal(chain, stage, placement, instance_type, offsets, requested)
        interruption = interruption_of(self.problem, placement, instance_type)
        return self._sampled(chain, stage, placement, instance_type.speed, offsets, requested, interruption)

    def finish(self, progress: Progress) -> Progress:
        """The job after everything has been given back at its last barrier."""
        cost_usd = progress.cost_usd + self.release_usd(progress.held, progress)
        return Progress(barrier_s=progress.barrier_s, variance=progress.variance, cost_usd=cost_usd)

    def release_usd(self, batches: tuple[Batch, ...], progress: Progress) -> float:
        """Expected bill of batches that are released at the barrier of `progress`."""
        cloud = self.problem.cloud
        usd_per_s = progress.instance_type.usd_per_s if progress.instance_type else 0.0
        total = 0.0
        for batch in batches:
            life_s = progress.barrier_s - batch.running_s
            spread_s = math.sqrt(max(0.0, progress.variance - batch.variance)) if self.problem.varies else 0.0
            total += batch.count * cloud.data_usd * _probably_above(0.0, life_s, spread_s)
            if cloud.billing.mode is BillingMode.PER_INSTANCE:
                total += batch.count * usd_per_s * expected_billed_s(cloud.billing, life_s, spread_s)
        return total

    def training_usd(self, step: Step) -> float:
        """Expected bill of a step's training under PER_FUNCTION."""
        placement = step.placement
        share = placement.slots_per_trial / placement.node_slots
        return placement.trials * self.busy_s(step) * share * step.instance_type.usd_per_s

    def busy_s(self, step: Step) -> float:
        """Mean time that one trial of the step is on a node, in seconds."""
        placement, profile = step.placement, self.problem.profile
        shape = {"slots": placement.slots_per_trial, "node_slots": placement.node_slots}
        speed = step.instance_type.speed
        interruption = interruption_of(self.problem, placement, step.instance_type)
        if interruption is None:
            return self.bare_s(step)
        return interruption.busy_s(profile.work_s(step.iterations, **shape, speed=speed), profile.save_s.mean)

    def bare_s(self, step: Step) -> float:
        """Mean duration of one trial of the step that is never interrupted, in seconds."""
        placement = step.placement
        return self.problem.profile.trial_s(
            step.iterations,
            slots=placement.slots_per_trial,
            node_slots=placement.node_slots,
            speed=step.instance_type.speed,
        )

    def lasting_s(self, step: Step) -> float:
        """The duration that stands for each trial of the step where none varies of itself; see `stage_trial_s`."""
        return stage_trial_s(self.problem, step.iterations, step.placement, step.instance_type)[0]

    def _of_equal_trials(
        self,
        chain: int,
        stage: int,
        placement: Placement,
        instance_type: InstanceType,
        offsets: Offsets,
        requested: int,
    ) -> tuple[float, float]:
        """As `StageMoments.of`, where no duration varies of itself."""
        profile, cloud = self.problem.profile, self.problem.cloud
        iterations = self.problem.experiment.chains[chain][stage].iterations
        trial_s, variance = stage_trial_s(self.problem, iterations, placement, instance_type)
        if requested:
            offsets = (*offsets, (cloud.launch_s.mean + cloud.init_s.mean, requested))
        ready = places_of(sorted(offsets), placement.nodes_per_trial, placement.per_node)
        return makespan_s(placement.trials, trial_s, ready) + profile.sync_s, variance


def expected(problem: Problem, plan: AllocationPlan) -> tuple[float, float]:
    """The reported expectation (jct_s, cost_usd) of a plan: means of the whole job under a fixed seed.

    Without spread anywhere one sample is the exact answer.
    """
    samples = WHOLE_PLAN_SAMPLES if problem.noisy else 1
    estimate = simulate(problem, plan, samples=samples, rng=np.random.default_rng(SEED))
    return float(estimate.jct_s.mean()), float(estimate.cost_usd.mean())


def makespan_s(trials: int, trial_s: float, ready: list[tuple[float, int]]) -> float:
    """When the last of `trials` equal trials ends, each taking the place that is usable and free earliest.

    The starts are the `trials` smallest of all `offset + j * trial_s`, j = 0, 1, ...

    Args:
        trials: how many.
        trial_s: duration of each, in seconds.
        ready: (seconds until usable, count of places), ascending by the former.
    """
    if trial_s <= 0:
        return ready[0][0] + trial_s
    if len(ready) == 1:
        offset, count = ready[0]
        return offset + math.ceil(trials / count) * trial_s
    last_start = math.inf
    for offset, _ in ready:
        low, high = 0, trials
        while low < high:
            wave = (low + high) // 2
            if _started(ready, offset + wave * trial_s, trial_s) >= trials:
                high = wave
            else:
                low = wave + 1
        last_start = min(last_start, offset + low * trial_s)
    return last_start + trial_s


def _started(ready: list[tuple[float, int]], at_s: float, trial_s: float) -> int:
    """Places that have begun a trial by `at_s`, counted once for each trial."""
    return sum(count * (math.floor((at_s - x) / trial_s + 1e-9) + 1) for x, count in ready if x <= at_s + 1e-9)


def expected_billed_s(billing: Billing, mean_s: float, std_s: float) -> float:
    """Expectation of the billed seconds of a node whose life is about normal; below 0 it is a cancelled request."""
    if std_s <= 1e-9:
        return float(billed_s(billing, mean_s)) if mean_s >= 0 else 0.0
    granule_s, least_s = billing.granularity_s, billing.minimum_s
    if std_s >= granule_s:
        # Rounding up adds half a granule on average; lives too short for the minimum are billed that.
        enough_s = max(0.0, least_s - granule_s / 2)
        above = _probably_above(enough_s, mean_s, std_s)
        density = std_s * math.exp(-0.5 * ((enough_s - mean_s) / std_s) ** 2) / math.sqrt(2 * math.pi)
        short = _probably_above(0.0, mean_s, std_s) - above
        return least_s * short + (mean_s + granule_s / 2) * above + density
    first = max(0, math.floor((mean_s - 5 * std_s) / granule_s))
    last = math.ceil((mean_s + 5 * std_s) / granule_s)
    reached = [_probably_above(k * granule_s, mean_s, std_s) for k in range(first, last + 1)]
    shares = (longer - still for longer, still in pairwise(reached))
    return sum(max(k * granule_s, least_s) * share for k, share in enumerate(shares, start=first + 1))


def expected_latest_s(ends: Sequence[tuple[float, float]]) -> float:
    """Expectation of the latest of independent, about normal times, given as (mean, standard deviation) in seconds."""
    spread_s = max(std_s for _, std_s in ends)
    latest_s = max(mean_s for mean_s, _ in ends)
    if len(ends) == 1 or spread_s <= 1e-9:
        return latest_s
    at_s = np.linspace(latest_s - 6 * spread_s, latest_s + 6 * spread_s, _QUADRATURE)
    none_later = [math.prod(1.0 - _probably_above(x, mean_s, std_s) for mean_s, std_s in ends) for x in at_s.tolist()]
    return float(at_s[-1] - np.trapezoid(none_later, at_s))


def _probably_above(limit_s: float, mean_s: float, std_s: float) -> float:
    """Probability that a normal duration is at least `limit_s`."""
    if std_s <= 1e-9:
        return 1.0 if mean_s >= limit_s else 0.0
    return 0.5 * math.erfc((limit_s - mean_s) / (std_s * math.sqrt(2)))


def places_of(nodes: list[tuple[float, int]], group: int, per_node: int) -> list[tuple[float, int]]:
    """(seconds until usable, count) of places, from the same of nodes.

    Args:
        nodes: ascending by time.
        group: whole nodes that one place takes.
        per_node: places on one node, where `group` is 1.
    """
    if group == 1:
        return [(offset, count * per_node) for offset, count in nodes]
    places, waiting = [], 0
    for offset, count in nodes:
        whole, waiting = divmod(waiting + count, group)
        if whole:
            places.append((offset, whole))
    return places


def _split(held: tuple[Batch, ...], keep: int) -> tuple[tuple[Batch, ...], tuple[Batch, ...]]:
    kept, released = [], []
    for batch in held:
        stay = min(batch.count, keep)
        keep -= stay
        if stay:
            kept.append(_resized(batch, stay))
        if batch.count > stay:
            released.append(_resized(batch, batch.count - stay))
    return tuple(kept), tuple(released)


def _resized(batch: Batch, count: int) -> Batch:
    if batch.count == count:
        return batch
    return replace(batch, count=count)


def _in_order(held: tuple[Batch, ...], barrier_s: float) -> tuple[Batch, ...]:
    """Usable batches as they became usable, then starting ones as they were requested."""
    usable = sorted((b for b in held if b.usable_s <= barrier_s), key=lambda b: b.usable_s)
    return (*usable, *(b for b in held if b.usable_s > barrier_s))
