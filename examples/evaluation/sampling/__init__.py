"""Samplers over brackets of synchronous successive halving: Optuna's own, and RubberBandSampler."""

from __future__ import annotations

from pathlib import Path

TITLE = "Samplers in synchronous brackets"
SEEDS = "seeds 0 to 49 of everything (quick: 0 to 3)"


def run(out: Path, *, quick: bool) -> None:
    """Measure every sampler where early rungs mislead slightly, middling and strongly; the small one has 4 seeds."""
    from .curves import LAGS
    from .measuring import measure

    measure(out, list(LAGS), seeds=4 if quick else 50, quick=quick)
