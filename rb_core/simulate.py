"""How long a plan takes and what it costs, sampled: the durations and the bill of the whole execution DAG.

The semantics are those of the RubberBand model (Misra et al., EuroSys 2021, section 4) with list scheduling at any
number of trials and nodes, nodes that may still be starting at a barrier, and a bill with granularity and minimum.
Everything is vectorised over samples; arrays have shape (nodes or trials, samples).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rb_core.billing import bill
from rb_core.check import positive_int
from rb_core.dag import ExecutionDAG, Step
from rb_core.draws import Draws
from rb_core.errors import InvalidInput
from rb_core.hardware import BillingMode
from rb_core.interruption import interruption_of
from rb_core.occupancy import occupied, ready_places, spared
from rb_core.plan import AllocationPlan, Problem

Samples = NDArray[np.float64]

MAX_SAMPLES = 1_000_000
"""Most samples of one simulation: quantiles gain nothing from more, and memory would run out."""

MAX_TRIAL_SAMPLES = 200_000_000
"""Most trials times samples of one simulation: each is drawn and laid on its place one after the other."""

_CHUNK_ELEMENTS = 1_000_000
"""Samples are worked on in chunks of about this many (trial or node, sample) elements, to bound memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEstimate:
    """One stage over all samples.

    Attributes:
        chain: the chain.
        stage: the stage within it.
        start_s: barrier at which it begins; shape (samples,).
        end_s: barrier at which it ends; shape (samples,).
        cost_usd: what accrues between the two, with what rounding and minimum add where nodes are released at its
            end; shape (samples,).
        idle_fraction: share of the billed slot-seconds in which nothing trains; shape (samples,).
    """

    chain: int
    stage: int
    start_s: Samples
    end_s: Samples
    cost_usd: Samples
    idle_fraction: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A plan's sampled time and cost.

    Attributes:
        jct_s: job completion times; shape (samples,).
        cost_usd: bills; shape (samples,).
        stages: the stages, chain by chain.
    """

    jct_s: Samples = field(repr=False)
    cost_usd: Samples = field(repr=False)
    stages: tuple[StageEstimate, ...] = field(repr=False)

    def meets(
        self,
        *,
        deadline_s: float | None = None,
        budget_usd: float | None = None,
        confidence: float | None = None,
    ) -> bool:
        """Whether the limits are kept: with the wanted probability, or on the mean when `confidence` is None."""
        kept = True
        for values, limit in ((self.jct_s, deadline_s), (self.cost_usd, budget_usd)):
            if limit is None:
                continue
            slack = 1e-9 * max(1.0, abs(limit))
            if confidence is None:
                kept = kept and float(values.mean()) <= limit + slack
            else:
                kept = kept and float(np.mean(values <= limit + slack)) >= confidence
        return kept


def check_samples(samples: int) -> None:
    """Raise `InvalidInput` unless so many samples can be taken."""
    if positive_int("samples", samples) > MAX_SAMPLES:
        raise InvalidInput("samples", f"must be at most {MAX_SAMPLES}, got {samples}")


def simulate(problem: Problem, plan: AllocationPlan, *, samples: int, rng: np.random.Generator) -> Estimate:
    """Sample the job `samples` times under `plan`.

    Args:
        problem: experiment, profile and cloud; its objective is of no consequence.
        plan: an allocation for every stage.
        samples: how often.
        rng: source of all randomness; equal generators meet equal trials and nodes under every plan.

    Raises:
        InvalidInput: the plan does not fit the problem, samples is not a positive integer, or there are more samples of
            more trials than can be drawn in minutes.
    """
    check_samples(samples)
    _check_work(problem, samples)
    dag = ExecutionDAG.build(problem, plan)
    wanted, samples = samples, samples if problem.noisy else 1
    # Of the problem and not of the plan, so that every plan meets the same samples.
    rows = max(
        problem.cloud.max_nodes,
        *(instance_type.slots for instance_type in problem.cloud.instance_types),
        *(stage.trials for chain in problem.experiment.chains for stage in chain),
    )
    chunk = max(1, min(samples, _CHUNK_ELEMENTS // rows))
    parts = []
    for first in range(0, samples, chunk):
        size = min(chunk, samples - first)
        draws = Draws(problem, size, rng)
        parts.append([_Lane(problem, draws, size).run(lane) for lane in dag.lanes])
    lanes = [_joined([part[number] for part in parts], wanted) for number in range(len(dag.lanes))]
    return Estimate(
        jct_s=np.maximum.reduce([lane[-1].end_s for lane in lanes]),
        cost_usd=np.sum([stage.cost_usd for lane in lanes for stage in lane], axis=0),
        stages=tuple(stage for lane in lanes for stage in lane),
    )


def _check_work(problem: Problem, samples: int) -> None:
    """Raise `InvalidInput` where so many noisy trials would take more than minutes."""
    trials = problem.experiment.trial_stages
    if problem.noisy and trials * samples > MAX_TRIAL_SAMPLES:
        raise InvalidInput(
            "samples",
            f"must be at most {max(1, MAX_TRIAL_SAMPLES // trials)} for {trials} trials in all whose durations vary, "
            f"got {samples}; with every std and trial_cv 0 one sample tells all",
        )


def _joined(parts: list[list[StageEstimate]], samples: int) -> list[StageEstimate]:
    """The stages over all samples; a single sample stands for as many as are wanted."""
    if len(parts) == 1 and len(parts[0][0].start_s) == samples:
        return parts[0]
    return [
        StageEstimate(
            chain=stages[0].chain,
            stage=stages[0].stage,
            **{
                key: np.resize(np.concatenate([getattr(stage, key) for stage in stages]), samples)
                for key in ("start_s", "end_s", "cost_usd", "idle_fraction")
            },
        )
        for stages in zip(*parts, strict=True)
    ]


class _Lane:
    """The nodes of one lane while its steps go by."""

    def __init__(self, problem: Problem, draws: Draws, samples: int) -> None:
        self._problem = problem
        self._draws = draws
        self._samples = samples
        self._factors: Samples = np.ones((1, 1))
        # Held nodes, in the order of their requests within what was kept.
        self._running_s: Samples = np.empty((0, samples))
        self._usable_s: Samples = np.empty((0, samples))
        # When each of them was given back before the barrier, inf for those that were not.
        self._early_s: Samples = np.full((1, 1), np.inf)

    def run(self, steps: tuple[Step, ...]) -> list[StageEstimate]:
        """Go through the steps and return their estimates."""
        barrier_s = np.zeros(self._samples)
        stages: list[StageEstimate] = []
        for number, step in enumerate(steps):
            if number:
                running_s, released_s = self._keep(step, barrier_s)
                self._charge(steps[number - 1], stages[-1], running_s, released_s)
            self._request(step, barrier_s)
            kept = steps[number + 1].kept if number + 1 < len(steps) else 0
            stages.append(self._stage(step, barrier_s, kept=kept))
            barrier_s = stages[-1].end_s
        self._charge(steps[-1], stages[-1], self._running_s, np.minimum(self._early_s, barrier_s))
        return stages

    def _keep(self, step: Step, barrier_s: Samples) -> tuple[Samples, Samples]:
        """Keep the step's nodes; of all others, return when they began to run and when they were released."""
        usable = np.broadcast_to(self._usable_s, (len(self._usable_s), self._samples))
        # First the usable ones as they became usable, then the starting ones as they were requested.
        starting = usable > barrier_s
        order = np.lexsort(
            (
                np.where(starting, np.arange(len(usable))[:, None], usable),
                starting,
                np.isfinite(np.broadcast_to(self._early_s, usable.shape)),
            ),
            axis=0,
        )
        running, usable, early = (
            np.take_along_axis(np.broadcast_to(a, usable.shape), order, axis=0)
            for a in (self._running_s, usable, self._early_s)
        )
        self._running_s, self._usable_s = running[: step.kept], usable[: step.kept]
        return running[step.kept :], np.minimum(early[step.kept :], barrier_s)

    def _request(self, step: Step, barrier_s: Samples) -> None:
        if not step.requested:
            return
        launch, init = self._draws.nodes(step.chain, step.stage, step.requested)
        running = barrier_s + launch
        self._running_s = np.concatenate([self._running_s, running])
        self._usable_s = np.concatenate([self._usable_s, running + init])

    def _stage(self, step: Step, barrier_s: Samples, *, kept: int) -> StageEstimate:
        """Run a step of whose nodes so many are kept for the one after it."""
        placement, profile = step.placement, self._problem.profile
        if step.stage == 0:
            self._factors = self._draws.factors(step.chain)
        slow = profile.slowdown(spans=placement.spans, speed=step.instance_type.speed)
        durations, busy = self._trainings(step, slow * self._factors[: placement.trials])
        usable_s = np.maximum(self._usable_s, barrier_s)
        nodes_s = np.sort(usable_s, axis=0)
        places_s = ready_places(nodes_s, placement)
        occupancy = occupied(places_s, durations, placement.trials)
        end_s = occupancy.last_end_s + profile.sync_s
        released_s = end_s
        if self._problem.policies.early_release:
            rows, idle_s = spared(nodes_s, places_s, occupancy, placement, kept)
            self._early_s = self._given_back(usable_s, rows, idle_s, end_s)
            released_s = np.minimum(self._early_s, end_s)
        trained_s = busy.sum(axis=0) * (placement.trials / len(busy)) * placement.slots_per_trial
        held_s = np.maximum(0.0, released_s - np.maximum(self._running_s, barrier_s)).sum(axis=0)
        # A kept node that began to run exactly at this barrier downloaded its data in the stage before.
        began = (self._running_s > barrier_s) & (self._running_s <= end_s)
        began[step.kept :] = self._running_s[step.kept :] <= end_s
        cost_usd = began.sum(axis=0) * self._problem.cloud.data_usd
        if self._problem.cloud.billing.mode is BillingMode.PER_FUNCTION:
            cost_usd = cost_usd + trained_s / step.instance_type.slots * step.instance_type.usd_per_s
            idle_fraction = np.zeros(self._samples)
        else:
            cost_usd = cost_usd + held_s * step.instance_type.usd_per_s
            billed = held_s * step.instance_type.slots
            idle_fraction = 1.0 - np.divide(trained_s, billed, out=np.ones_like(held_s), where=billed > 0)
        return StageEstimate(
            chain=step.chain,
            stage=step.stage,
            start_s=barrier_s,
            end_s=end_s,
            cost_usd=cost_usd,
            idle_fraction=idle_fraction,
        )

    def _trainings(self, step: Step, factor: Samples) -> tuple[Samples, Samples]:
        """Durations of a step's trials, and the parts of them in which they are on a node."""
        width = step.placement.slots_per_trial
        interruption = interruption_of(self._problem, step.placement, step.instance_type)
        if interruption is None:
            durations = self._draws.trainings(step.chain, step.stage, slots_per_trial=width, factor=factor)
            return durations, durations
        return self._draws.interrupted(
            step.chain, step.stage, slots_per_trial=width, factor=factor, interruption=interruption
        )

    @staticmethod
    def _given_back(usable_s: Samples, rows: NDArray[np.intp], idle_s: Samples, end_s: Samples) -> Samples:
        """When each held node was given back before `end_s`, inf for the others; shape (nodes, samples).

        Args:
            usable_s: when each became usable in the stage; shape (nodes, samples).
            rows: those to give back, by their rank in that order.
            idle_s: when each of these falls idle.
            end_s: the barrier.
        """
        nodes = np.take_along_axis(np.argsort(usable_s, axis=0, kind="stable"), rows, axis=0)
        early_s = np.full(usable_s.shape, np.inf)
        np.put_along_axis(early_s, nodes, np.where(idle_s <= end_s, idle_s, np.inf), axis=0)
        return early_s

    def _charge(self, step: Step, stage: StageEstimate, running_s: Samples, released_s: Samples) -> None:
        """Add to the stage what the bill of the nodes released in it exceeds what has accrued for them."""
        cloud, usd_per_s = self._problem.cloud, step.instance_type.usd_per_s
        if cloud.billing.mode is BillingMode.PER_FUNCTION:
            return
        billed = bill(cloud.billing, usd_per_s=usd_per_s, running_s=running_s, released_s=released_s)
        accrued = np.maximum(0.0, released_s - running_s) * usd_per_s
        np.add(stage.cost_usd, (billed - accrued).sum(axis=0), out=stage.cost_usd)
