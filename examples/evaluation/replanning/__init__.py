"""Re-planning against an oracle that knows the true times."""

from __future__ import annotations

from pathlib import Path

TITLE = "Re-planning against an oracle"
SEEDS = "seeds 0 to 299 of every row (quick: 0 to 19)"


def run(out: Path, *, quick: bool) -> None:
    """Measure every problem and deadline; the small one has 20 seeds of each row."""
    from .cases import DEADLINE_FACTORS, PROBLEMS
    from .measuring import measure

    measure(out, list(PROBLEMS), DEADLINE_FACTORS, seeds=20 if quick else 300, quick=quick)
