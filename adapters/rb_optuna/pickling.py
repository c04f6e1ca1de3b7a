"""An objective on its way to other processes."""

from __future__ import annotations

import io
from typing import Any

import cloudpickle
from optuna.study import Study

from rb_core.target import Target
from rb_optuna import _compat
from rb_optuna.objective import Objective, RankObjective


class _Finder(cloudpickle.Pickler):  # type: ignore[misc]
    """Notices studies that end with this process among what is pickled."""

    found = False

    def persistent_id(self, thing: Any) -> Any:
        """Leave everything as it is."""
        self.found = self.found or (isinstance(thing, Study) and _compat.is_in_memory(thing))
        return None


def sendable(objective: Objective, words: str) -> tuple[Target, bool]:
    """The training function that stands for an objective, and whether it takes a copy of an in-memory study along.

    Args:
        objective: the user's.
        words: how it is called in errors.

    Raises:
        ValueError: it cannot be sent to other processes.
    """
    function = RankObjective(objective=objective)
    sink = io.BytesIO()
    finder = _Finder(sink)
    try:
        finder.dump(function)
    except Exception as error:
        raise ValueError(
            f"The objective cannot be sent to other processes ({type(error).__name__}: {error}). Let it make what it "
            'needs itself instead of using it from outside, or run it in this process: `launcher="inline"`.'
        ) from error
    return Target(name=words, by_value=sink.getvalue()), finder.found
