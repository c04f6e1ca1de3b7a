"""The one bill: simulated, rehearsed and real node lifetimes are priced here and nowhere else."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rb_core.hardware import Billing, BillingMode

ROUNDING_SLACK_S = 1e-6
"""Subtracted before rounding up, so that binary fractions do not cost a granule."""

RECLAIMED_FREE_S = 3600.0
"""A spot node that its provider takes back before it has run so long is free, its disk and its address are not (EC2
User Guide, "Billing for interrupted Spot Instances": Linux and Windows, in the first hour)."""


def billed_s(billing: Billing, held_s: ArrayLike) -> NDArray[np.float64]:
    """Seconds billed for nodes held for `held_s` (any shape): rounded up, at least the minimum."""
    granules = np.ceil((np.asarray(held_s, dtype=np.float64) - ROUNDING_SLACK_S) / billing.granularity_s)
    return np.maximum(granules * billing.granularity_s, billing.minimum_s)


def due_usd_per_s(
    *, usd_per_s: ArrayLike, beside_usd_per_s: ArrayLike, held_s: ArrayLike, reclaimed: ArrayLike
) -> NDArray[np.float64]:
    """What each node's time costs once it is known how it ended; the arguments broadcast.

    Args:
        usd_per_s: price of the whole node.
        beside_usd_per_s: the part of it that is for disk and address.
        held_s: how long it ran.
        reclaimed: whether its provider took it back on spot.
    """
    free = np.asarray(reclaimed, dtype=np.bool_) & (np.asarray(held_s, dtype=np.float64) < RECLAIMED_FREE_S)
    return np.where(free, beside_usd_per_s, usd_per_s)


def bill(
    billing: Billing,
    *,
    usd_per_s: ArrayLike,
    running_s: ArrayLike,
    released_s: ArrayLike,
    trained_s: ArrayLike = 0.0,
    data_usd: ArrayLike = 0.0,
    beside_usd_per_s: ArrayLike = 0.0,
    reclaimed: ArrayLike = False,
) -> NDArray[np.float64]:
    """What each node costs, in usd; the arguments broadcast against each other and give the result's shape.

    Args:
        billing: the rule.
        usd_per_s: price of the whole node.
        running_s: when the node began to run; ``inf`` for one that never did. A node released before that is a
            cancelled request, which is free and downloaded nothing.
        released_s: when it was given back.
        trained_s: node-seconds of training on it (duration * slots used / slots of the node); this alone is
            paid for under PER_FUNCTION, and it is ignored under PER_INSTANCE.
        data_usd: price of the node's download of the data set.
        beside_usd_per_s: the part of `usd_per_s` that is for disk and address, and is due even where the rest is not.
        reclaimed: whether its provider took it back on spot, see `RECLAIMED_FREE_S`; ignored under PER_FUNCTION.
    """
    running, released, price, trained, data = (
        np.asarray(a, dtype=np.float64) for a in (running_s, released_s, usd_per_s, trained_s, data_usd)
    )
    ran = running <= released
    if billing.mode is BillingMode.PER_FUNCTION:
        return np.where(ran, trained * price + data, 0.0)
    held = np.where(ran, released - np.where(ran, running, 0.0), 0.0)
    due = due_usd_per_s(usd_per_s=price, beside_usd_per_s=beside_usd_per_s, held_s=held, reclaimed=reclaimed)
    return np.where(ran, billed_s(billing, held) * due + data, 0.0)
