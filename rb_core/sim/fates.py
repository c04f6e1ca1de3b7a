"""What chance has in store for each node and each trial of one rehearsal, drawn before it is known what becomes of it.

The numbers that `simulate` takes too come from the same streams; those of the faults have streams of their own, one
for each stage, with a row for each node or trial. So two engines that meet the same seed meet the same world.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from rb_core.draws import Draws, lognormals
from rb_core.hardware import Latency
from rb_core.plan import Problem
from rb_core.sim.faults import Faults, Slowness

_FAULTS = 1
"""Sets the streams of the faults apart from those that `simulate` takes."""

_RECLAIMS = 4
"""Sets the streams of what becomes of nodes on spot apart from all others."""

_BLOCK = 16
"""Nodes of a stage are drawn in blocks of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFate:
    """What becomes of one requested node, if it is held long enough.

    Attributes:
        launch_s: from the request to running.
        init_s: from running to joined; `inf` for one that never joins.
        granted: whether it ever runs.
        life_s: from running to its loss.
        company: whether other nodes are lost with it.
        reclaimed_at: on spot, from running until it is taken back, in units of the mean time to that.
        announced: whether that is said before.
    """

    launch_s: float
    init_s: float
    granted: bool = True
    life_s: float = math.inf
    company: bool = False
    reclaimed_at: float = math.inf
    announced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFate:
    """How one trial fares in one stage.

    Attributes:
        start_s: from the start of its processes to the first iteration.
        save_s: from the last iteration to the end of its processes.
        noise: standard normal of its iterations' time.
        speed: its configuration's factor on the time of all its iterations, a straggler's included.
        raises_at: share of the stage after which it raises; None for never.
        hangs_at: share of the stage after which it says nothing more; None for never.
        nan: whether its score at the end of the stage is NaN.
    """

    start_s: float
    save_s: float
    noise: float
    speed: float
    raises_at: float | None = None
    hangs_at: float | None = None
    nan: bool = False


class Fates:
    """All fates of one rehearsal."""

    def __init__(self, problem: Problem, faults: Faults, seed: int) -> None:
        """Fates by `seed`; the same seed gives those of one sample of `simulate` with ``default_rng(seed)``."""
        chains = problem.experiment.chains
        stages = [(chain, stage) for chain, own in enumerate(chains) for stage in range(len(own))]
        mishaps, restarts, self.calls, self.saves, self.kills, self.steps, self.losses = np.random.default_rng(
            [seed, _FAULTS]
        ).spawn(7)
        of_nodes, of_trials = (dict(zip(stages, mishaps.spawn(len(stages)), strict=True)) for _ in range(2))
        self._problem = problem
        self._faults = faults
        self._draws = Draws(problem, 1, np.random.default_rng(seed))
        reclaims, self.droughts = np.random.default_rng([seed, _RECLAIMS]).spawn(2)
        self._of_nodes = of_nodes
        self._reclaims = dict(zip(stages, reclaims.spawn(len(stages)), strict=True))
        self._of_trials = of_trials
        self._restarts = restarts
        self._firsts = list(accumulate((own[0].trials for own in chains), initial=0))
        self._nodes = {key: self._node_rows(*key) for key in stages}
        self._speeds: dict[int, list[float]] = {}
        self._stages: dict[tuple[int, int], tuple[Iterator[tuple[float, float, float]], list[list[float]]]] = {}

    def node(self, chain: int, stage: int) -> NodeFate:
        """The next node that is requested for a stage."""
        return next(self._nodes[chain, stage])

    def trial(self, chain: int, stage: int, trial: int) -> TrialFate:
        """A trial that starts a stage, for the first time; trials are given their latencies in this order."""
        if (chain, stage) not in self._stages:
            self._stages[chain, stage] = self._trial_rows(chain, stage)
        rows, mishaps = self._stages[chain, stage]
        start_s, save_s, noise = next(rows)
        speed = self._speed(chain, trial)
        if not mishaps:
            return TrialFate(start_s=start_s, save_s=save_s, noise=noise, speed=speed)
        fails, fails_at, hangs, hangs_at, slow, nan = mishaps[trial - self._firsts[chain]]
        faults = self._faults
        return TrialFate(
            start_s=start_s,
            save_s=save_s,
            noise=noise,
            speed=speed * _stretch(faults.straggler, slow),
            raises_at=fails_at if fails < faults.trial_failure else None,
            hangs_at=hangs_at if hangs < faults.trial_hang else None,
            nan=nan < faults.nan_score,
        )

    def restart(self) -> tuple[float, float]:
        """Start latency and noise of a trial that starts again within a stage."""
        start, noise = self._restarts.standard_normal(2)
        return float(lognormals(self._problem.profile.start_s, np.array(start))), float(noise)

    def _speed(self, chain: int, trial: int) -> float:
        if chain not in self._speeds:
            trials = self._problem.experiment.chains[chain][0].trials
            self._speeds[chain] = _column(self._draws.factors(chain), trials)
        return self._speeds[chain][trial - self._firsts[chain]]

    def _node_rows(self, chain: int, stage: int) -> Iterator[NodeFate]:
        faults, rng, reclaims = self._faults, self._of_nodes[chain, stage], self._reclaims[chain, stage]
        stretched = faults.true_init_factor
        # Half of the failures are the calls': of the rest so many must fail that all together are the share asked for.
        denied = faults.launch_failure / (2.0 - faults.launch_failure)
        while True:
            launches, inits = self._draws.nodes(chain, stage, _BLOCK)
            mishaps = rng.random((_BLOCK, 5)).tolist()
            for launch_s, init_s, row in zip(launches[:, 0].tolist(), inits[:, 0].tolist(), mishaps, strict=True):
                refused, never, slow, life, company = row
                init_s *= stretched * _stretch(faults.slow_init, slow)
                reclaimed, silent = reclaims.random(2).tolist()
                yield NodeFate(
                    launch_s=launch_s,
                    init_s=math.inf if never < faults.never_ready else init_s,
                    granted=refused >= denied,
                    life_s=_exponential(life, faults.node_loss_per_hour / 3600.0),
                    company=company < faults.mass_loss_probability,
                    reclaimed_at=_exponential(reclaimed, 1.0),
                    announced=silent >= faults.spot.unannounced,
                )

    def _trial_rows(self, chain: int, stage: int) -> tuple[Iterator[tuple[float, float, float]], list[list[float]]]:
        chains, faults = self._problem.experiment.chains, self._faults
        trials = chains[chain][stage].trials
        start, save = self._draws.starts_and_saves(chain, stage)
        noise = self._draws.noise(chain, stage)
        rows = zip(_column(start, trials), _column(save, trials), _column(noise, trials), strict=True)
        mishaps: list[list[float]] = []
        if faults.trial_failure or faults.trial_hang or faults.straggler.probability or faults.nan_score:
            mishaps = self._of_trials[chain, stage].random((chains[chain][0].trials, 6)).tolist()
        return rows, mishaps


def lasting_s(latency: Latency, iterations: int, noise: float) -> float:
    """How long so many iterations take together, as `Draws.trainings` has it."""
    return max(0.0, iterations * latency.mean + math.sqrt(iterations) * latency.std * noise)


def _column(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], rows: int) -> list[float]:
    return [float(value) for value in np.broadcast_to(values, (rows, 1))[:, 0]]


def _stretch(slowness: Slowness, uniform: float) -> float:
    return slowness.factor if uniform < slowness.probability else 1.0


def _exponential(uniform: float, rate: float) -> float:
    return -math.log1p(-uniform) / rate if rate > 0 else math.inf
