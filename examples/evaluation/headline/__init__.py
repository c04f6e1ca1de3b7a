"""What elasticity saves by the model: the headline table, and what the policies before a barrier gain."""

from __future__ import annotations

from pathlib import Path

TITLE = "What elasticity saves"
SEEDS = "seed 0 of the policies' samples; no other chance"

QUICK_CLOUDS = ("p3.8xlarge",)


def run(out: Path, *, quick: bool) -> None:
    """Work out the table and the policies; the small one has a cloud of one type alone."""
    from .cases import CLOUDS, EXPERIMENTS
    from .working import work_out

    work_out(out, EXPERIMENTS, QUICK_CLOUDS if quick else CLOUDS, quick=quick)
