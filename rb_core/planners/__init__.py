"""The planners: each chooses an allocation for every stage; `builtin_planners` maps their names to factories."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rb_core.planners.greedy import Greedy
from rb_core.planners.naive import Naive
from rb_core.planners.static import Static, StaticOne
from rb_core.ports import Planner


def builtin_planners() -> Mapping[str, Callable[[], Planner]]:
    """Name to factory of every planner that ships here."""
    return {planner.name: planner for planner in (Static, StaticOne, Naive, Greedy)}
