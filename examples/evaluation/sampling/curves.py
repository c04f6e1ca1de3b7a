"""Made-up learning curves over five hyperparameters, a problem of its own for every seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import optuna

ITERATIONS = 27
"""Iterations of a full training."""

LAGS: Mapping[str, float] = {"slight": 0.3, "middling": 0.5, "strong": 0.7}
"""How much of the loss after one iteration has nothing to do with the loss in the end."""

SIGMA = 0.02
"""Standard deviation of the noise of a report; losses in the end lie between 0 and about 1."""

ACTIVATIONS = ("relu", "gelu", "tanh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bowl:
    """A smooth function of four numbers in [0, 1] and an activation; its least value is 0.

    ``sum_i weights[i] * (z[i] - best[i])**2 + twist * (z[0] - best[0]) * (z[1] - best[1]) + offsets[activation]``

    Attributes:
        best: where it is lowest; shape (4,).
        weights: how steep it is along each axis; shape (4,).
        twist: how much the first two depend on each other; smaller than twice the root of their weights' product.
        offsets: what each activation costs; one is free.
    """

    best: tuple[float, ...]
    weights: tuple[float, ...]
    twist: float
    offsets: tuple[float, ...]

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Bowl:
        """Any one."""
        weights = 2 * rng.dirichlet(np.ones(4))
        return cls(
            best=tuple(rng.uniform(0.1, 0.9, size=4)),
            weights=tuple(weights),
            twist=float(rng.uniform(-1, 1) * math.sqrt(weights[0] * weights[1])),
            offsets=tuple(rng.permutation([0.0, 0.05, 0.1])),
        )

    def __call__(self, z: tuple[float, ...]) -> float:
        """Its value; z has five entries, the last the number of the activation."""
        away = [one - best for one, best in zip(z[:4], self.best, strict=True)]
        squares = sum(weight * one**2 for weight, one in zip(self.weights, away, strict=True))
        return squares + self.twist * away[0] * away[1] + self.offsets[int(z[4])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Losses that turn from one bowl into another: ``s * early(z) + (1 - s) * late(z)`` after t iterations.

    ``s = lag * (1 - log(t) / log(27))``: what is best early is not what is best in the end, the less so the later.

    Attributes:
        early: the bowl that is left.
        late: the bowl that a full training ends in.
        lag: the share of the former after one iteration.
        seed: of the noise.
    """

    early: Bowl
    late: Bowl
    lag: float
    seed: int

    @classmethod
    def drawn(cls, lag: float, seed: int) -> Curves:
        """The problem of a seed."""
        rng = np.random.default_rng(seed)
        return cls(early=Bowl.drawn(rng), late=Bowl.drawn(rng), lag=lag, seed=seed)

    def suggest(self, trial: optuna.Trial) -> tuple[float, ...]:
        """Ask for the parameters; scaled to [0, 1], and last the number of the activation."""
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        width = trial.suggest_int("width", 16, 512, log=True)
        dropout = trial.suggest_float("dropout", 0.0, 0.8)
        momentum = trial.suggest_float("momentum", 0.5, 0.99)
        activation = trial.suggest_categorical("activation", ACTIVATIONS)
        return (
            math.log(lr / 1e-4) / math.log(1e3),
            math.log(width / 16) / math.log(32),
            dropout / 0.8,
            (momentum - 0.5) / 0.49,
            ACTIVATIONS.index(activation),
        )

    def loss(self, z: tuple[float, ...], iterations: int) -> float:
        """The loss without noise after so many iterations."""
        share = self.lag * (1 - math.log(iterations) / math.log(ITERATIONS))
        return share * self.early(z) + (1 - share) * self.late(z)

    def reported(self, z: tuple[float, ...], iterations: int, trial: int) -> float:
        """The loss as a trial reports it; the noise is that of the trial's number and the iteration."""
        return self.loss(z, iterations) + SIGMA * float(np.random.default_rng((self.seed, trial, iterations)).normal())
