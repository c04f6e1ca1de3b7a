"""Ray Tune on rubberband-tune, and Ray as what the core's engine runs on.

All but `distributed` and `get_allocation` is loaded when it is first used, and these import Ray only when called.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rb_ray.allocation import Allocation, get_allocation

# A function and its module share the name: the function is set here, before anything can import the module alone.
from rb_ray.distributed import distributed

_HOME = {"RubberBandScheduler": "scheduler", "StagePlacement": "placement"}

__all__ = ["Allocation", "RubberBandScheduler", "StagePlacement", "distributed", "get_allocation"]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
