"""Spot under a deadline: what it costs, and how often it is late."""

from __future__ import annotations

from pathlib import Path

TITLE = "Spot under a deadline"
SEEDS = "seeds 0 to 999 of every row (quick: 0 to 11)"


def run(out: Path, *, quick: bool) -> None:
    """Measure every experiment, policy and rate; the small one has 12 seeds of each row."""
    from .cases import EXPERIMENTS, RATES
    from .measuring import measure

    measure(out, EXPERIMENTS, RATES, seeds=12 if quick else 1000, quick=quick)
