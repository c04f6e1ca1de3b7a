"""The one bill: simulated, rehearsed and real node lifetimes are priced here and nowhere else."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rb_core.hardware import Billing, BillingMode

ROUNDING_SLACK_S = 1e-6
"""Subtracted before rounding up, so that binary fractions do not cost a granule."""


def billed_s(billing: Billing, held_s: ArrayLike) -> NDArray[np.float64]:
    """Seconds billed for nodes held for `held_s` (any shape): rounded up, at least the minimum."""
    granules = np.ceil((np.asarray(held_s, dtype=np.float64) - ROUNDING_SLACK_S) / billing.granularity_s)
    return np.maximum(granules * billing.granularity_s, billing.minimum_s)


def bill(
    billing: Billing,
    *,
    usd_per_s: ArrayLike,
    running_s: ArrayLike,
    released_s: ArrayLike,
    trained_s: ArrayLike = 0.0,
    data_usd: ArrayLike = 0.0,
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
    """
    running, released, price, trained, data = (
        np.asarray(a, dtype=np.float64) for a in (running_s, released_s, usd_per_s, trained_s, data_usd)
    )
    ran = running <= released
    if billing.mode is BillingMode.PER_FUNCTION:
        time_s = trained
    else:
        time_s = billed_s(billing, np.where(ran, released - np.where(ran, running, 0.0), 0.0))
    return np.where(ran, time_s * price + data, 0.0)
