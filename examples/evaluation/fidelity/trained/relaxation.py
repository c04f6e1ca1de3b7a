"""Successive over-relaxation of Poisson's equation in numpy: the factor is tuned for the smallest residual."""

from __future__ import annotations

from typing import Any

import numpy as np

import rb_core

POINTS = 384
"""Points on each side of the grid, without its edge, which is zero."""

SWEEPS = 120
"""Sweeps over the grid that make up an iteration."""

red = np.add.outer(np.arange(POINTS), np.arange(POINTS)) % 2 == 0


def train(config: dict[str, Any], trial: rb_core.Trial) -> None:
    """Relax with one factor; the score is the logarithm of how much is left of the residual, negated."""
    folder = trial.load()
    field = np.zeros((POINTS + 2, POINTS + 2)) if folder is None else np.load(folder / "field.npy")
    factors = [np.where(color, float(config["omega"]) / 4, 0.0) for color in (red, ~red)]
    for _ in trial.iterations():
        for _ in range(SWEEPS):
            for factor in factors:
                field[1:-1, 1:-1] += factor * _residual(field)
        trial.report(-np.log10(np.abs(_residual(field)).mean() + 1e-300))
        if trial.save_due:
            with trial.save() as made:
                np.save(made / "field.npy", field)


def _residual(field: np.ndarray) -> np.ndarray:
    """What each point's equation is off by, for a source of 1 / POINTS**2 everywhere; shape (POINTS, POINTS)."""
    around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
    return around - 4 * field[1:-1, 1:-1] + 1 / POINTS**2
