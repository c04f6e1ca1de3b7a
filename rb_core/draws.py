"""The random numbers of a job, in an order that does not depend on the plan.

Every purpose has a stream of its own and every array is filled row by row (a trial or a node a row), so two plans of
one problem that start from equal generators meet the same trials on the same nodes: common random numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rb_core.hardware import Latency
from rb_core.interruption import Gaps, Interruption
from rb_core.plan import Problem

Samples = NDArray[np.float64]


class Draws:
    """Durations of one problem over `samples` independent jobs. All results have shape (rows, samples) or (1, 1).

    A quantity without spread is returned with shape (1, 1), which broadcasts.
    """

    def __init__(self, problem: Problem, samples: int, rng: np.random.Generator) -> None:
        self._problem = problem
        self._samples = samples
        streams = iter(rng.spawn(sum(1 + 2 * len(chain) for chain in problem.experiment.chains)))
        self._factors = [next(streams) for _ in problem.experiment.chains]
        self._trainings = [[next(streams) for _ in chain] for chain in problem.experiment.chains]
        self._nodes = [[next(streams) for _ in chain] for chain in problem.experiment.chains]
        self._gaps: list[list[np.random.Generator]] = []
        if problem.cloud.interruptible:
            later = iter(rng.spawn(sum(len(chain) for chain in problem.experiment.chains)))
            self._gaps = [[next(later) for _ in chain] for chain in problem.experiment.chains]
        self._run: Samples = np.ones((1, 1))
        if problem.profile.run_cv > 0:
            (run,) = rng.spawn(1)
            self._run = self._lognormal(run, Latency(mean=1.0, std=problem.profile.run_cv), 1)

    def factors(self, chain: int) -> Samples:
        """Speed factors of the chain's trials, kept through all stages: lognormal, mean 1.

        One of each trial's own, times one that all trials of the job have in common.
        """
        trials = self._problem.experiment.chains[chain][0].trials
        speed = Latency(mean=1.0, std=self._problem.profile.trial_cv)
        return self._lognormal(self._factors[chain], speed, trials) * self._run

    def trainings(self, chain: int, stage: int, *, slots_per_trial: int, factor: Samples | float) -> Samples:
        """Durations of the stage's trials on `slots_per_trial` slots, in seconds.

        Args:
            chain: the chain.
            stage: the stage within it.
            slots_per_trial: world size.
            factor: multiplies the time of the iterations; shape (trials or 1, samples or 1).
        """
        start, iterating, save = self._parts(chain, stage, slots_per_trial)
        return start + factor * iterating + save

    def interrupted(
        self, chain: int, stage: int, *, slots_per_trial: int, factor: Samples | float, interruption: Interruption
    ) -> tuple[Samples, Samples]:
        """As `trainings` where trials are interrupted, and the parts of the durations in which they are on a node.

        Args:
            chain: the chain.
            stage: the stage within it.
            slots_per_trial: world size.
            factor: as of `trainings`.
            interruption: how.
        """
        start, iterating, save = self._parts(chain, stage, slots_per_trial)
        trials = self._problem.experiment.chains[chain][stage].trials
        gaps = Gaps(self._gaps[chain][stage], trials, self._samples, interruption.abreast)
        return interruption.sampled(start, np.asarray(factor * iterating), save, gaps)

    def _parts(self, chain: int, stage: int, slots_per_trial: int) -> tuple[Samples, Samples, Samples]:
        """Start, bare iterations on a profiled type, and save."""
        step = self._problem.experiment.chains[chain][stage]
        latency = self._problem.profile.iteration_s[slots_per_trial]
        start, save = self.starts_and_saves(chain, stage)
        iterating = np.full((1, 1), step.iterations * latency.mean)
        if latency.std > 0:
            noise = self.noise(chain, stage)
            iterating = np.maximum(0.0, iterating + math.sqrt(step.iterations) * latency.std * noise)
        return start, iterating, save

    def starts_and_saves(self, chain: int, stage: int) -> tuple[Samples, Samples]:
        """Start and save latencies of the stage's trials, in seconds; drawn before their `noise`."""
        profile, rng = self._problem.profile, self._trainings[chain][stage]
        trials = self._problem.experiment.chains[chain][stage].trials
        return self._lognormal(rng, profile.start_s, trials), self._lognormal(rng, profile.save_s, trials)

    def noise(self, chain: int, stage: int) -> Samples:
        """Standard normals, one for the iterations of each of the stage's trials; shape (trials, samples)."""
        trials = self._problem.experiment.chains[chain][stage].trials
        return self._trainings[chain][stage].standard_normal((trials, self._samples))

    def nodes(self, chain: int, stage: int, count: int) -> tuple[Samples, Samples]:
        """Launch and init latencies of `count` nodes requested at the stage's barrier, in seconds."""
        cloud, rng = self._problem.cloud, self._nodes[chain][stage]
        # Drawn node by node, so that the first nodes are the same however many are requested.
        shape = (count, 2, self._samples)
        varies = cloud.launch_s.std > 0 or cloud.init_s.std > 0
        normals = rng.standard_normal(shape) if varies else np.zeros((count, 2, 1))
        launch = lognormals(cloud.launch_s, normals[:, 0])
        init = lognormals(cloud.init_s, normals[:, 1])
        return launch, init

    def _lognormal(self, rng: np.random.Generator, latency: Latency, rows: int) -> Samples:
        if latency.std == 0 or latency.mean == 0:
            return np.full((1, 1), latency.mean)
        return lognormals(latency, rng.standard_normal((rows, self._samples)))


def lognormals(latency: Latency, normals: Samples) -> Samples:
    """Standard normals to lognormals of the latency's mean and std, in seconds; constants keep the normals' shape."""
    if latency.std == 0 or latency.mean == 0:
        return np.full(normals.shape, latency.mean)
    variance = math.log1p((latency.std / latency.mean) ** 2)
    return np.exp(math.log(latency.mean) - variance / 2 + math.sqrt(variance) * normals)
