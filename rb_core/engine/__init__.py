"""The engine: runs an allocation plan over ports, on any clock, and leaves nothing behind."""

from __future__ import annotations

from rb_core.engine.engine import Engine
from rb_core.engine.request import RunRequest

__all__ = ["Engine", "RunRequest"]
