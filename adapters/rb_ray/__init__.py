"""Ray Tune on rubberband-tune, and Ray as what the core's engine runs on.

`scheduling` is the scheduler for Tune, `trainable` what runs under it in a trial; `launching` is the launcher `ray` of
the core's engine; `nodes`, which both use, makes machines Ray nodes and lets them go; `depots` keeps checkpoints in S3.
What Ray keeps to itself is used in `_compat` alone, and `plugin` registers what ``rb-tune`` offers.

The names below are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rb_ray.scheduling.scheduler import RubberBandScheduler as RubberBandScheduler
    from rb_ray.trainable.allocation import Allocation as Allocation
    from rb_ray.trainable.allocation import get_allocation as get_allocation
    from rb_ray.trainable.distributed import distributed as distributed
    from rb_ray.trainable.placement import StagePlacement as StagePlacement

_HOME = {
    "Allocation": "trainable.allocation",
    "RubberBandScheduler": "scheduling.scheduler",
    "StagePlacement": "trainable.placement",
    "distributed": "trainable.distributed",
    "get_allocation": "trainable.allocation",
}

__all__ = ["Allocation", "RubberBandScheduler", "StagePlacement", "distributed", "get_allocation"]


# Type checkers know the names from above: to them any other is a mistake.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name from its module."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
