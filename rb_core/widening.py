"""What is taken on trust of a number of slots that was never measured: one step further, and no more.

Nothing but a measurement tells how well a training function scales. Where none could be made beforehand, one width
beyond the widest measured one is planned with as if each doubling of the slots did `EFFICIENCY` of twice the work, or
what the last measured doubling did where that was less. Once it has run, it is measured, and the next one is offered.
A plan resorts to it only where the measured widths do not serve, since wider trials are taken to use slots less well.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from rb_core.check import positive_int
from rb_core.hardware import Latency
from rb_core.placement import divides
from rb_core.profile import ScalingProfile

EFFICIENCY = 0.8
"""Two slots are taken to do 1.6 times the work of one, where nobody has seen them do it."""


def widened(profile: ScalingProfile, *, most: int, node_slots: int) -> ScalingProfile:
    """The profile with one width more, if there is one to be tried.

    Args:
        profile: what was measured.
        most: the widest that a trial may be.
        node_slots: slots of each node; a width has to fit on them as `rb_core.placement` has it.

    Returns:
        The profile itself where it holds the widest width already.
    """
    widest = profile.slots[-1]
    wider = _next(widest, positive_int("most", most), node_slots)
    if wider is None:
        return profile
    measured, ratio = profile.iteration_s[widest], wider / widest
    factor = 1.0 / (ratio * math.pow(efficiency(profile), math.log2(ratio)))
    taken = Latency(mean=measured.mean * factor, std=measured.std * factor)
    return replace(profile, iteration_s={**profile.iteration_s, wider: taken})


def efficiency(profile: ScalingProfile) -> float:
    """Share of twice the work that a doubling of the widest width is taken to do.

    `EFFICIENCY`, or what the last step between measured widths did, reckoned as a doubling, where that was less.
    """
    steps = list(pairwise(profile.iteration_s.items()))
    if not steps:
        return EFFICIENCY
    (narrow, before), (wide, after) = steps[-1]
    ratio = wide / narrow
    reached = math.pow(before.mean / after.mean / ratio, 1.0 / math.log2(ratio))
    return min(EFFICIENCY, reached)


def _next(widest: int, most: int, node_slots: int) -> int | None:
    """The width to try: twice the widest, or the widest there may be below that."""
    fitting = (width for width in range(min(2 * widest, most), widest, -1) if divides(width, node_slots))
    return next(fitting, None)
