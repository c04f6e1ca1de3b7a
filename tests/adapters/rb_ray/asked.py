"""What schedulers are asked for in tests."""

from __future__ import annotations

from typing import Any

from rb_ray.scheduling.terms import Terms, read_terms


def terms(**changes: Any) -> Terms:
    """Those of a scheduler with `max_t` 9 and nothing else, but for what is given."""
    usual: dict[str, Any] = {
        "deadline": None,
        "budget_usd": None,
        "max_t": 9,
        "grace_period": 1,
        "reduction_factor": 3,
        "time_attr": "training_iteration",
        "profile": None,
        "nodes": None,
        "planner": "exact",
        "max_slots_per_trial": None,
        "max_usd": None,
        "on_deadline": "finish",
        "stop_last_trials": True,
        "seed": 0,
    }
    return read_terms(**{**usual, **changes})
