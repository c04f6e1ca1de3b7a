"""What a stage on nodes that may be taken away is expected to lose, and what it loses in a sample.

A trial lies on k nodes, each of which is taken away at random moments, at a rate of so many an hour: so the trial is
interrupted at k times that rate. What was done since its last checkpoint is lost; it waits for another node, starts
again, restores, and goes on from there. To the first order in the rate that costs, as often as it is interrupted,

    checkpoint interval / 2  +  start and restore  +  waiting for the node

(Young, "A first order approximation to the optimum checkpoint interval", CACM 1974). The same to all orders, since a
start can be interrupted as well: a leg of s seconds, from one checkpoint to the next, is begun anew until it is not
interrupted. With the rate r, a restart of a seconds on the node and w seconds without one it takes, on the mean,

    e^(r a) (e^(r s) - 1) (1 / r + w)

seconds; the very first leg, which needs the start in any case, ``(e^(r (a + s)) - 1) (1 / r + w)``. With w = 0 that is
the expression of Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 2006.

A stage ends with its last trial. Of n that go on side by side, each interrupted a Poisson number K of times, the last
one ends about as many mean losses late as the largest K is expected to be, ``sum over k >= 0 of 1 - P(K <= k)^n``.
Where trials queue for places, those before the last round even each other out and count with their mean.

Nothing here counts on the notice that a provider may give: where it comes in time, less is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rb_core.hardware import InstanceType
from rb_core.placement import Placement
from rb_core.plan import Problem

Samples = NDArray[np.float64]

_NEGLIGIBLE = 1e-12
"""Probabilities below this end a sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """How the trials of one stage are interrupted.

    Attributes:
        rate_per_s: how often a trial is.
        checkpoint_s: time between two of its checkpoints.
        restart_s: what a start takes, with the restore, before the first iteration.
        wait_s: how long an interrupted trial is without a place.
        abreast: so many trials share each node, and its loss.
    """

    rate_per_s: float
    checkpoint_s: float
    restart_s: float
    wait_s: float
    abreast: int = 1

    def trial_s(self, work_s: float, save_s: float) -> float:
        """Mean duration of a trial, from its first start to its end.

        Args:
            work_s: what its iterations take.
            save_s: from the last of them to its end.
        """
        return self._expected_s(work_s, save_s, self.wait_s)

    def busy_s(self, work_s: float, save_s: float) -> float:
        """The part of `trial_s` in which it is on a node."""
        return self._expected_s(work_s, save_s, 0.0)

    def last_s(self, work_s: float, save_s: float, together: int) -> tuple[float, float]:
        """Mean (s) and variance (s^2) of the time after which the last of so many trials ends that run side by side."""
        mean_s = self.trial_s(work_s, save_s)
        bare_s = self.restart_s + work_s + save_s
        loss_s = min(self.checkpoint_s, work_s) / 2 + self.restart_s + self.wait_s
        if loss_s <= 0:
            return mean_s, 0.0
        most, variance = _most_of((mean_s - bare_s) / loss_s, -(-together // self.abreast))
        return bare_s + loss_s * most, loss_s**2 * variance

    def sampled(self, start_s: Samples, work_s: Samples, save_s: Samples, gaps: Gaps) -> tuple[Samples, Samples]:
        """Durations of trials, and the parts of them in which they are on a node; shape (trials, samples) each.

        Args:
            start_s: of each start; this and the others of a shape that broadcasts to the result's.
            work_s: what the iterations of each take.
            save_s: from the last of them to the end.
            gaps: until the next interruption.
        """
        shape = gaps.shape
        start, work, save = (np.broadcast_to(part, shape) for part in (start_s, work_s, save_s))
        done, busy, waits = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        left = np.ones(shape, dtype=bool)
        while left.any():
            gap_s = gaps.next() / self.rate_per_s
            needed_s = start + (work - done) + save
            ends = left & (gap_s >= needed_s)
            broken = left & ~ends
            busy += np.where(ends, needed_s, np.where(broken, gap_s, 0.0))
            waits += broken
            # A checkpoint that falls on the last iteration is the one that the trial ends with.
            trained_s = np.clip(gap_s - start, 0.0, np.nextafter(work - done, 0.0))
            kept = np.floor(trained_s / self.checkpoint_s) * self.checkpoint_s
            done = np.where(broken, done + kept, done)
            left = broken
        return busy + self.wait_s * waits, busy

    def _expected_s(self, work_s: float, save_s: float, wait_s: float) -> float:
        rate, whole = self.rate_per_s, max(0, math.ceil(work_s / self.checkpoint_s) - 1)
        last_s = work_s - whole * self.checkpoint_s + save_s
        again = math.exp(rate * self.restart_s)
        legs = again * (whole * math.expm1(rate * self.checkpoint_s) + math.expm1(rate * last_s))
        return (legs + math.expm1(rate * self.restart_s)) * (1.0 / rate + wait_s)


class Gaps:
    """Times until the next interruption of each trial, in units of the mean one, drawn as they are asked for."""

    def __init__(self, rng: np.random.Generator, trials: int, samples: int, abreast: int) -> None:
        """Gaps of so many trials, of which so many in a row share theirs."""
        self.shape = (trials, samples)
        self._rng = rng
        self._nodes = -(-trials // abreast)
        self._abreast = abreast

    def next(self) -> Samples:
        """The next one of each; shape (trials, samples)."""
        gaps = self._rng.standard_exponential((self._nodes, self.shape[1]))
        return np.repeat(gaps, self._abreast, axis=0)[: self.shape[0]]


def interruption_of(problem: Problem, placement: Placement, instance_type: InstanceType) -> Interruption | None:
    """How a stage's trials are interrupted on nodes of a type; None where these are not taken away.

    A trial waits for the replacement to be requested and to start, unless the stage holds a node more than it can use.
    """
    if instance_type.interruptions_per_hour <= 0:
        return None
    cloud, profile = problem.cloud, problem.profile
    spare = placement.nodes > placement.nodes_for_all
    slow = profile.slowdown(spans=placement.spans, speed=instance_type.speed)
    iteration_s = slow * profile.iteration_s[placement.slots_per_trial].mean
    return Interruption(
        rate_per_s=placement.nodes_per_trial * instance_type.interruptions_per_hour / 3600.0,
        # A checkpoint is made after the first iteration that ends when one is due.
        checkpoint_s=iteration_s * math.ceil(problem.checkpoint_every_s / iteration_s - 1e-9),
        restart_s=profile.start_s.mean,
        wait_s=0.0 if spare else cloud.launch_s.mean + cloud.init_s.mean,
        abreast=placement.per_node,
    )


def stage_trial_s(
    problem: Problem, iterations: int, placement: Placement, instance_type: InstanceType
) -> tuple[float, float]:
    """The duration that stands for each of a stage's equal trials, and the variance of the stage's end.

    With it as the duration of every trial, a stage whose places are all usable at once ends when it is expected to.

    Args:
        problem: its profile and cloud.
        iterations: of each trial.
        placement: how the trials lie on their nodes.
        instance_type: of the nodes.
    """
    slots, speed = placement.slots_per_trial, instance_type.speed
    profile = problem.profile
    interruption = interruption_of(problem, placement, instance_type)
    if interruption is None:
        trial_s = profile.trial_s(iterations, slots=slots, node_slots=placement.node_slots, speed=speed)
        return trial_s, 0.0
    work_s = profile.work_s(iterations, slots=slots, node_slots=placement.node_slots, speed=speed)
    rounds = -(-placement.trials // placement.places)
    together = placement.trials - (rounds - 1) * placement.places
    mean_s = interruption.trial_s(work_s, profile.save_s.mean)
    last_s, variance = interruption.last_s(work_s, profile.save_s.mean, together)
    return mean_s + (last_s - mean_s) / rounds, variance


def _most_of(mean: float, count: int) -> tuple[float, float]:
    """Mean and variance of the largest of so many Poisson numbers of one mean."""
    from scipy.special import pdtr

    enough = math.ceil(mean + 8.0 * math.sqrt(mean + math.log(count + 1.0)) + 12.0)
    above = 1.0 - pdtr(np.arange(enough), mean) ** count
    above = above[above > _NEGLIGIBLE]
    most = float(above.sum())
    # E[K^2] is the sum of (2 k + 1) P(K > k).
    return most, max(0.0, float(((2 * np.arange(len(above)) + 1) * above).sum()) - most**2)
