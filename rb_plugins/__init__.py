"""Names for everything that can be exchanged: hooks, the plugins behind them, files, sessions and `rb-tune`.

A plugin is a module or an object whose functions carry `@hookimpl`, made known by an entry point of the group
``rubberband``:

    [project.entry-points.rubberband]
    my_plugin = "my_package.plugin"

docs/hooks.md describes every hook. From Python, `Session` is the whole flow, `Measuring` says how it profiles, and
`make_manager` gives the plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from rb_plugins.manager import Manager, make_manager
    from rb_plugins.session import Session
    from rb_plugins.tuning import Measuring

hookimpl = pluggy.HookimplMarker("rubberband")
"""Marks the functions of a plugin that implement a hook."""

__all__ = ["Manager", "Measuring", "Session", "hookimpl", "make_manager"]

_HOMES = {
    "Manager": "rb_plugins.manager",
    "Measuring": "rb_plugins.tuning",
    "make_manager": "rb_plugins.manager",
    "Session": "rb_plugins.session",
}


# Type checkers know the names from above: to them any other is a mistake.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name on first use, so that plugins can import `hookimpl` for next to nothing."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
