"""Successive over-relaxation of Poisson's equation in numpy: the factor is tuned for the smallest residual."""

from __future__ import annotations

from typing import Any

import numpy as np

import rb_core

POINTS = 192
"""Points on each side of the grid, without its edge, which is zero."""

SWEEPS = 1000
"""Sweeps over the grid that make up an iteration."""

red = np.add.outer(np.arange(POINTS), np.arange(POINTS)) % 2 == 0


def train(config: dict[str, Any], trial: rb_core.Trial) -> None:
    """Relax with one factor; the score is the logarithm of how much is left of the residual, negated."""
    folder = trial.load()
    field = np.zeros((POINTS + 2, POINTS + 2)) if folder is None else np.load(folder / "field.npy")
    factors = [np.where(color, float(config["omega"]) / 4, 0.0) for color in (red, ~red)]
    # Arrays that are made anew in each sweep would measure the system's memory, not arithmetic.
    change = np.empty((POINTS, POINTS))
    for _ in trial.iterations():
        for _ in range(SWEEPS):
            for factor in factors:
                _residual(field, change)
                change *= factor
                field[1:-1, 1:-1] += change
        _residual(field, change)
        trial.report(-np.log10(np.abs(change).mean() + 1e-300))
        if trial.save_due:
            with trial.save() as made:
                np.save(made / "field.npy", field)


def _residual(field: np.ndarray, out: np.ndarray) -> None:
    """What each point's equation is off by, for a source of 1 / POINTS**2; `out` is of shape (POINTS, POINTS)."""
    np.multiply(field[1:-1, 1:-1], -4.0, out=out)
    for neighbour in (field[:-2, 1:-1], field[2:, 1:-1], field[1:-1, :-2], field[1:-1, 2:]):
        out += neighbour
    out += 1 / POINTS**2
