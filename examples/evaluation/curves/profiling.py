"""The profile that a user would have: of a few configurations, from their first iterations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from curves.recordings import Pool, Recording
from rb_core.measurement import Measurement, summarise
from rb_core.profile import ScalingProfile

CONFIGS = 4


def profiled(pool: Pool, recordings: Sequence[Recording]) -> ScalingProfile:
    """What the profiler makes of the first iterations of these recordings, on every number of slots.

    Start and save latencies are the pool's own, as if they had been measured without error.

    Args:
        pool: where they are from.
        recordings: those that are measured.
    """
    measured = [
        Measurement(
            slots=width,
            config=number,
            from_iteration=0,
            start_s=0.0,
            restore_s=0.0,
            # Of a process the first iteration is taken for its warming up; nothing recorded is that.
            iterations_s=(seconds[0], *seconds[: pool.beginning]),
            save_s=0.0,
            checkpoint_bytes=0,
        )
        for number, recording in enumerate(recordings)
        for width, seconds in recording.seconds.items()
    ]
    profile, _ = summarise(measured, pool.widths, sync_s=pool.sync_s)
    # What the fit would add between and beyond was not recorded.
    kept = {width: profile.iteration_s[width] for width in pool.widths}
    return dataclasses.replace(profile, iteration_s=kept, start_s=pool.start_s, save_s=pool.save_s)
