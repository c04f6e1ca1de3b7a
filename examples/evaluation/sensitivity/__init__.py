"""What a plan is worth when what it was made from is wrong."""

from __future__ import annotations

from pathlib import Path

TITLE = "Plans made from wrong figures"
SEEDS = "seeds 0 to 49 where there is noise (quick: 0 to 4); no other chance"

QUICK_EXPERIMENTS = ("SHA(32,1,50,3)",)


def run(out: Path, *, quick: bool) -> None:
    """Measure every error of every experiment; the small one has the shortest experiment alone."""
    from .cases import DEADLINE_FACTORS, ERRORS, EXPERIMENTS
    from .measuring import measure

    experiments = QUICK_EXPERIMENTS if quick else EXPERIMENTS
    measure(out, experiments, DEADLINE_FACTORS, ERRORS, seeds=5 if quick else 50, quick=quick)
