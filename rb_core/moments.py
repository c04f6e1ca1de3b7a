"""How long one stage takes where durations vary: mean and variance of the time from its barrier to the next one.

A stage ends with its *last* trial, over trials and nodes; what is expected of that is taken from a fixed-seed
simulation of the stage alone. Equal problems share what has been worked out: the planners that are compared with each
other ask for the same stages.
"""

from __future__ import annotations

import dataclasses
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from rb_core.draws import Draws
from rb_core.interruption import Interruption
from rb_core.occupancy import last_end, ready_places
from rb_core.placement import Placement
from rb_core.plan import Problem

SAMPLES = 256
"""Samples behind the expectation of one stage."""

SEED = 20210426
"""Fixed, so that a problem always gives the same plan."""

_MANY_WAVES = 32
"""From so many trials a place on, a stage's end is worked out from the sum of the earlier ones."""

_LAST_WAVES = 4
"""So many trials a place are then still followed one by one."""

Samples = NDArray[np.float64]

Offsets = tuple[tuple[float, int], ...]
"""(seconds until usable, count) of nodes, ascending."""


def moments_of(problem: Problem) -> StageMoments:
    """Those of the problem; shared with the last one if they differ in their objective and limit of nodes at most.

    A factor of mean 1 that a whole run has in common (`run_cv`) leaves the mean of a stage about where it is, and makes
    stages late together, which variances of one stage each cannot tell: it is left to `simulate`.
    """
    profile, cloud = problem.profile, problem.cloud
    return _remembered(
        dataclasses.replace(
            problem,
            objective=None,
            profile=dataclasses.replace(profile, run_cv=0.0),
            cloud=dataclasses.replace(cloud, max_nodes=1),
        )
    )


class StageMoments:
    """Sampled stages of one problem; remembers those that it has worked out."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._moments = cache(self._sampled)
        self._starts_s = cache(self._drawn_starts)
        self._durations_s = cache(self._drawn_durations)

    def of(
        self,
        chain: int,
        stage: int,
        placement: Placement,
        speed: float,
        offsets: Offsets,
        requested: int,
        interruption: Interruption | None = None,
    ) -> tuple[float, float]:
        """Mean (s) and variance (s^2) of the time from a stage's barrier to the next one.

        Args:
            chain: the chain.
            stage: the stage within it.
            placement: how its trials lie on its nodes.
            speed: of its instance type.
            offsets: of the kept nodes.
            requested: nodes that are asked for at the barrier.
            interruption: how its trials are interrupted; None where they are not.
        """
        usable = sum(count for offset, count in offsets if offset == 0)
        enough = placement.nodes_for_all
        later = tuple(node for node in offsets if node[0] > 0)
        if usable >= enough:
            # Whatever comes later has nothing to do.
            usable, later, requested = enough, (), 0
        now = ((0.0, usable),) if usable else ()
        return self._moments(
            chain,
            stage,
            placement.slots_per_trial,
            placement.node_slots,
            speed,
            (*now, *later),
            requested,
            interruption,
        )

    def _sampled(
        self,
        chain: int,
        stage: int,
        slots_per_trial: int,
        node_slots: int,
        speed: float,
        offsets: Offsets,
        requested: int,
        interruption: Interruption | None,
    ) -> tuple[float, float]:
        profile = self._problem.profile
        placement = Placement(
            trials=self._problem.experiment.chains[chain][stage].trials,
            slots_per_trial=slots_per_trial,
            node_slots=node_slots,
            nodes=sum(count for _, count in offsets) + requested,
        )
        usable = np.repeat([offset for offset, _ in offsets], [count for _, count in offsets])
        nodes: Samples = np.broadcast_to(usable[:, None], (len(usable), SAMPLES))
        if requested:
            # Drawn node by node, the first are the same however many are drawn.
            fresh = self._starts_s(chain, stage, 1 << (requested - 1).bit_length())[:requested]
            nodes = np.sort(np.concatenate([nodes, fresh]), axis=0)
        durations = self._durations_s(
            chain, stage, slots_per_trial, profile.slowdown(spans=placement.spans, speed=speed), interruption
        )
        ends = _about_last_end(ready_places(nodes, placement), durations, placement.trials)
        return float(ends.mean()) + profile.sync_s, float(ends.var())

    def _drawn_starts(self, chain: int, stage: int, requested: int) -> Samples:
        """From a stage's barrier until each node requested there is usable, in seconds; shape (requested, samples)."""
        launch, init = self._draws().nodes(chain, stage, requested)
        return np.broadcast_to(launch + init, (requested, SAMPLES))

    def _drawn_durations(
        self, chain: int, stage: int, slots_per_trial: int, slow: float, interruption: Interruption | None
    ) -> Samples:
        """Of a stage's trials, in seconds; shape (trials or 1, samples or 1)."""
        draws, trials = self._draws(), self._problem.experiment.chains[chain][stage].trials
        factor = slow * draws.factors(chain)[:trials]
        if interruption is None:
            return draws.trainings(chain, stage, slots_per_trial=slots_per_trial, factor=factor)
        durations, _ = draws.interrupted(
            chain, stage, slots_per_trial=slots_per_trial, factor=factor, interruption=interruption
        )
        return durations

    def _draws(self) -> Draws:
        return Draws(self._problem, SAMPLES, np.random.default_rng(SEED))


_remembered = lru_cache(maxsize=1)(StageMoments)
"""Of the last problem alone, since the samples of many trials take memory."""


def _about_last_end(places_s: Samples, durations_s: Samples, trials: int) -> Samples:
    """As `last_end`; where trials are very many only the last waves are followed one by one.

    In a long queue every place stays within a trial of the others. So the places are first set, a trial apart in all,
    around the time at which all earlier work is done if it is shared evenly.
    """
    count = len(places_s)
    first = trials - _LAST_WAVES * count
    if trials < _MANY_WAVES * count or len(durations_s) == 1:
        return last_end(places_s, durations_s, trials)
    level_s = (places_s.sum(axis=0) + durations_s[:first].sum(axis=0)) / count
    if np.any(level_s < places_s.max(axis=0)):
        return last_end(places_s, durations_s, trials)
    apart = (np.arange(count) + 0.5) / count - 0.5
    return last_end(level_s + apart[:, None] * durations_s.mean(axis=0), durations_s[first:], trials - first)
