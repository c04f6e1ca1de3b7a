"""Where every second and every dollar of a plan goes.

The plan is followed once with mean durations, without any spread but the mean loss of nodes, and what that run takes
and costs is split; what the expectation lies above it is a part of its own, `variation`, and what early release changes
of that another, `early_release`. So the parts add up to the expected time and cost.

*Time* is split along the place that ends a stage: the trial that ends last waited for its place to become usable
(`node_starts`), then the place went through one trial after another without a pause (list scheduling), each of them
starting and saving (`trial_starts`), iterating (`training`), and doing again and waiting for what is lost with nodes
that are taken away (`interruptions`, see `interruption`); the barrier itself is `barriers`. Where several places
end last it is the one that was usable first. Of chains side by side those stages count that belong to the chain that
ends last.

*Cost* per instance is split over the node-seconds held from barrier to barrier, from when a node is running:
`node_starts` until it is usable, `barriers` from the stage's last trial on, `training` and `trial_starts` for the share
of a node that a trial holds, and `idle` for the rest: slots that have no trial, wait for the slowest, or are held for
the stage after. `rounding` is what granularity and minimum add, in the stage at whose end the node is given back;
`data` is what a node downloads, in the stage in which it begins to run. Per function only training and starts are paid.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rb_core.billing import bill
from rb_core.dag import ExecutionDAG, Step
from rb_core.expectation import Batch, ExpectedModel, Progress, expected, places_of
from rb_core.hardware import BillingMode, Cloud, Latency
from rb_core.plan import AllocationPlan, Policies, Problem
from rb_core.planners.objective import lower_bound_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a time (seconds) or a cost (usd) consists of; see the module for each part."""

    training: float = 0.0
    trial_starts: float = 0.0
    node_starts: float = 0.0
    idle: float = 0.0
    barriers: float = 0.0
    rounding: float = 0.0
    data: float = 0.0
    interruptions: float = 0.0
    variation: float = 0.0
    early_release: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return math.fsum(dataclasses.astuple(self))

    @classmethod
    def sum(cls, all_parts: Iterable[Parts]) -> Parts:
        """Part by part the sum."""
        rows = [dataclasses.astuple(parts) for parts in all_parts]
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**dict(zip(names, map(math.fsum, zip(*rows, strict=True)), strict=True))) if rows else cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageParts:
    """One stage, taken apart.

    Attributes:
        chain: the chain.
        stage: the stage within it.
        time_s: from its barrier to the next.
        cost_usd: what accrues in between.
        decisive: whether its time is part of the job's: always, but for chains that end before another beside them.
    """

    chain: int
    stage: int
    time_s: Parts
    cost_usd: Parts
    decisive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A plan's expected time and cost, taken apart.

    Attributes:
        stages: chain by chain, without variation and early release.
        time_s: of the whole job; totals the expected completion time.
        cost_usd: likewise the expected cost.
        lower_bound_usd: what no plan can cost less than.
    """

    stages: tuple[StageParts, ...]
    time_s: Parts
    cost_usd: Parts
    lower_bound_usd: float

    @property
    def scaling_usd(self) -> float:
        """What training costs above the lower bound: wider trials or dearer slots than the cheapest iteration has."""
        return self.cost_usd.training - self.lower_bound_usd


def explain(problem: Problem, plan: AllocationPlan) -> Explanation:
    """Take the expected time and cost of a plan apart. Raises `InvalidInput` as `ExecutionDAG.build` does."""
    quiet = without_spread(problem)
    model = ExpectedModel(quiet)
    lanes = [tuple(_taken_apart(model, lane)) for lane in ExecutionDAG.build(quiet, plan).lanes]
    ends_s = [math.fsum(stage.time_s.total for stage in lane) for lane in lanes]
    last = ends_s.index(max(ends_s))
    stages = tuple(
        dataclasses.replace(stage, decisive=number == last) for number, lane in enumerate(lanes) for stage in lane
    )
    time_s = Parts.sum(stage.time_s for stage in stages if stage.decisive)
    cost_usd = Parts.sum(stage.cost_usd for stage in stages)
    plain = expected(dataclasses.replace(problem, policies=Policies()), plan)
    told = expected(problem, plan) if problem.policies.early_release else plain
    time_s, cost_usd = (
        dataclasses.replace(parts, variation=without - parts.total, early_release=told_of - without)
        for parts, without, told_of in zip((time_s, cost_usd), plain, told, strict=True)
    )
    return Explanation(stages=stages, time_s=time_s, cost_usd=cost_usd, lower_bound_usd=lower_bound_usd(problem))


def without_spread(problem: Problem) -> Problem:
    """The same problem with every duration at its mean."""
    profile, cloud = problem.profile, problem.cloud
    return dataclasses.replace(
        problem,
        profile=dataclasses.replace(
            profile,
            iteration_s={width: _mean(latency) for width, latency in profile.iteration_s.items()},
            start_s=_mean(profile.start_s),
            save_s=_mean(profile.save_s),
            trial_cv=0.0,
            run_cv=0.0,
        ),
        cloud=dataclasses.replace(cloud, launch_s=_mean(cloud.launch_s), init_s=_mean(cloud.init_s)),
    )


def _mean(latency: Latency) -> Latency:
    return Latency(mean=latency.mean)


def _taken_apart(model: ExpectedModel, lane: tuple[Step, ...]) -> Iterator[StageParts]:
    before = Progress()
    for step, following in zip(lane, (*lane[1:], None), strict=True):
        after = model.advance(before, step)
        stays = following.kept if following else 0
        yield StageParts(
            chain=step.chain,
            stage=step.stage,
            time_s=_time_parts(model, step, before, after),
            cost_usd=_cost_parts(model, step, before, after, stays),
            decisive=True,
        )
        before = after


def _time_parts(model: ExpectedModel, step: Step, before: Progress, after: Progress) -> Parts:
    profile, placement = model.problem.profile, step.placement
    took_s = after.barrier_s - before.barrier_s - profile.sync_s
    trial_s = model.lasting_s(step)
    nodes = sorted((max(0.0, batch.usable_s - before.barrier_s), batch.count) for batch in after.held)
    ready_s = [offset for offset, _ in places_of(nodes, placement.nodes_per_trial, placement.per_node)]
    waves = [max(1, round((took_s - offset) / trial_s)) for offset in ready_s]
    # The place whose trials fill the time up to the end of the stage; ties: the one that was usable first.
    misses = [abs(took_s - offset - count * trial_s) for offset, count in zip(ready_s, waves, strict=True)]
    least = min(misses)
    place = next(number for number, miss in enumerate(misses) if miss <= least + 1e-9 * max(1.0, took_s))
    starts_s = waves[place] * (profile.start_s.mean + profile.save_s.mean)
    lost_s = waves[place] * (trial_s - model.bare_s(step))
    return Parts(
        training=took_s - ready_s[place] - starts_s - lost_s,
        trial_starts=starts_s,
        node_starts=ready_s[place],
        barriers=profile.sync_s,
        interruptions=lost_s,
    )


def _cost_parts(model: ExpectedModel, step: Step, before: Progress, after: Progress, stays: int) -> Parts:
    problem, placement, usd_per_s = model.problem, step.placement, step.instance_type.usd_per_s
    cloud, profile, now_s, end_s = problem.cloud, problem.profile, before.barrier_s, after.barrier_s
    slow = profile.slowdown(spans=placement.spans, speed=step.instance_type.speed)
    share = placement.trials * placement.slots_per_trial / placement.node_slots * usd_per_s
    training = share * slow * step.iterations * profile.iteration_s[placement.slots_per_trial].mean
    trial_starts = share * (profile.start_s.mean + profile.save_s.mean)
    interruptions = share * (model.lasting_s(step) - model.bare_s(step))
    data = sum(b.count for b in after.held if _began(b, now_s, end_s, cloud)) * cloud.data_usd
    if cloud.billing.mode is BillingMode.PER_FUNCTION:
        again = share * (model.busy_s(step) - model.bare_s(step))
        return Parts(training=training, trial_starts=trial_starts, data=data, interruptions=again)
    held = node_starts = barriers = 0.0
    for batch in after.held:
        first_s = min(end_s, max(now_s, batch.running_s))
        price = batch.count * usd_per_s
        held += price * (end_s - first_s)
        node_starts += price * max(0.0, min(end_s, batch.usable_s) - first_s)
        barriers += price * max(0.0, end_s - max(first_s, batch.usable_s, end_s - profile.sync_s))
    return Parts(
        training=training,
        trial_starts=trial_starts,
        node_starts=node_starts,
        idle=max(0.0, held - node_starts - barriers - training - trial_starts - interruptions),
        barriers=barriers,
        rounding=_rounding_usd(cloud, after, stays, usd_per_s),
        data=data,
        interruptions=interruptions,
    )


def _began(batch: Batch, now_s: float, end_s: float, cloud: Cloud) -> bool:
    """Whether nodes began to run in the stage between two barriers."""
    requested_now = batch.running_s >= now_s + cloud.launch_s.mean - 1e-9
    return (requested_now or batch.running_s > now_s) and batch.running_s <= end_s


def _rounding_usd(cloud: Cloud, after: Progress, stays: int, usd_per_s: float) -> float:
    """What the bill of the nodes that are given back at a barrier exceeds their price by the second."""
    added = 0.0
    for batch in after.held:
        kept = min(batch.count, stays)
        stays -= kept
        lived_s = max(0.0, after.barrier_s - batch.running_s)
        billed = bill(cloud.billing, usd_per_s=usd_per_s, running_s=batch.running_s, released_s=after.barrier_s)
        added += (batch.count - kept) * (float(billed) - lived_s * usd_per_s)
    return added
