"""A latency as people write it: a mean and a spread, or a plain number."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from rb_core.hardware import Latency
from rb_plugins.config.durations import seconds


def _table(value: object) -> object:
    if isinstance(value, str):
        return {"mean": seconds(value)}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"mean": value}
    if isinstance(value, dict):
        return {key: seconds(part, key=key) if isinstance(part, str) else part for key, part in value.items()}
    return value


LatencyTable = Annotated[Latency, BeforeValidator(_table)]
"""``{"mean": 60.0, "std": 3.0}``, or the mean alone."""


def latency_table(latency: Latency) -> dict[str, float]:
    """The canonical form of a latency."""
    return {"mean": float(latency.mean), "std": float(latency.std)}
