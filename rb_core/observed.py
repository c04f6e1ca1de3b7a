"""The profile that a run itself supports: of the widths that its trials have run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rb_core.ernest import ErnestFit
from rb_core.errors import UnusableProfile
from rb_core.measurement import Measurement, complete_configs, summarise
from rb_core.profile import ScalingProfile


def observed(measurements: Sequence[Measurement], *, sync_s: float = 0.0) -> tuple[ScalingProfile, ErnestFit | None]:
    """What the starts of a run's own trials say, as `rb_core.measurement.summarise` does.

    Widths are compared on the trials that ran on all of them: in an experiment that stops trials, the ones that go on.
    A width on which none of these ran is left out, the one that was used least first.

    Args:
        measurements: every start; configurations are trials.
        sync_s: length of the barrier, which is not measured here.

    Raises:
        UnusableProfile: no start left an iteration beyond its first one.
    """
    timed: dict[int, int] = {}
    for start in measurements:
        if start.steady_s:
            timed[start.slots] = timed.get(start.slots, 0) + len(start.steady_s)
    sizes = sorted(timed, key=lambda size: (-timed[size], size))
    while sizes and not complete_configs(measurements, sizes):
        sizes.pop()
    if not sizes:
        raise UnusableProfile(
            "no trial has run two iterations in a row, so how long one takes is not known; raise the first rung "
            "(grace_period) to 2 or more, or give a profile"
        )
    profile, fit = summarise(measurements, sizes, sync_s=sync_s)
    # How far the whole run is off is in what it has measured.
    return replace(profile, run_cv=0.0), fit
