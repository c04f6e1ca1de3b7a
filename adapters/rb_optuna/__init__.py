"""Optuna studies on rubberband-tune: trials that wait for each other at rungs, and share slots elastically.

All but the session is loaded when it is first used: processes that run objectives need no more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# A function and its module share the name: the function is set here, before anything can import the module alone.
from rb_optuna.session import Session, session

if TYPE_CHECKING:
    from rb_optuna.executor import RubberBandExecutor as RubberBandExecutor
    from rb_optuna.pruner import RubberBandPruner as RubberBandPruner
    from rb_optuna.sampler import RubberBandSampler as RubberBandSampler

_HOME = {
    "RubberBandExecutor": "executor",
    "RubberBandPruner": "pruner",
    "RubberBandSampler": "sampler",
}

__all__ = ["RubberBandExecutor", "RubberBandPruner", "RubberBandSampler", "Session", "session"]


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
