"""Fidelity: real runs, and rehearsals, against what was forecast of them."""

from __future__ import annotations

from pathlib import Path

TITLE = "Forecasts against what came"
SEEDS = "a seed in each row: of configurations, training and forecast of a run, 0 to 199 of rehearsals (quick: 0 to 39)"


def run(out: Path, *, quick: bool) -> None:
    """Make 60 real runs and 1,000 rehearsals of each true factor; the small one has 12 and 200."""
    from .study import study

    study(out, quick=quick)
