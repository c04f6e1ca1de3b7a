"""Optional packages, which may be missing or broken: tried in processes of their own, or imported for use."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Self

from rb_core.clock import SystemClock
from rb_core.errors import InvalidInput
from rb_core.oneline import last_line
from rb_plugins.installed import reinstall_command

LIMIT_S = 30.0
"""How long imports that are tried may take, all together."""

_GRACE_S = 0.1
"""How long each may take to hand over its answer when that time is over."""

_PROGRAM = """\
import importlib, json, os, sys
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever the package prints is nobody's business
sys.path[:] = json.loads(sys.argv[1])
try:
    importlib.import_module(sys.argv[2])
except BaseException as error:
    answer.write(f"{type(error).__name__}: {error}")
    answer.flush()
    os._exit(1)
os._exit(0)
"""

MODULES = {"matplotlib": "matplotlib.figure", "ray": "ray.tune"}
"""What is imported of a package, where that is more than its outermost module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What came of importing a package.

    Attributes:
        problem: what went wrong, in one line; empty where it was imported.
        is_broken: whether it cannot be imported; otherwise a problem is that it took too long to say.
    """

    problem: str = ""
    is_broken: bool = False


class Attempts:
    """Imports of packages under way, side by side, each in a process of its own; leaving the block ends them.

    Args:
        packages: their names on the index.
        limit_s: how long all of them may take.
    """

    def __init__(self, packages: Iterable[str], *, limit_s: float = LIMIT_S) -> None:
        self._clock = SystemClock()
        self._limit_s = limit_s
        self._end_s = self._clock.now() + limit_s
        path = json.dumps(sys.path)
        self._processes = {
            name: subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, path, MODULES.get(name, name.replace("-", "_"))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
            )
            for name in packages
        }

    def results(self) -> dict[str, Attempt]:
        """What came of each. Blocks until the last has ended, or the time is over."""
        return {name: self._result(process) for name, process in self._processes.items()}

    @property
    def alive(self) -> bool:
        """Whether any of the processes still runs."""
        return any(process.poll() is None for process in self._processes.values())

    def _result(self, process: subprocess.Popen[str]) -> Attempt:
        try:
            said, _ = process.communicate(timeout=max(_GRACE_S, self._end_s - self._clock.now()))
        except subprocess.TimeoutExpired:
            return Attempt(problem=f"not imported within {self._limit_s:g} s")
        if process.returncode == 0:
            return Attempt()
        if process.returncode < 0:
            said = f"killed by {signal.Signals(-process.returncode).name}"
        return Attempt(problem=last_line(said) or f"exit status {process.returncode}", is_broken=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes.values():
            with process:
                process.kill()


def require(*modules: str, key: str, user: str = "", extra: str) -> None:
    """Import an optional package, before anything of ours does that rests on it.

    Args:
        modules: of it; the package itself first.
        key: what asked for it, for errors.
        user: what of that needs it; empty where `key` says so.
        extra: the extra that brings it.

    Raises:
        InvalidInput: it is not installed, or it is and cannot be imported; the message says how to mend that.
    """
    package, _, _ = modules[0].partition(".")
    needs = f"{user} needs {package}" if user else f"needs {package}"
    for name in modules:
        try:
            import_module(name)
        except (Exception, SystemExit) as error:
            if isinstance(error, ModuleNotFoundError) and error.name == package:
                missing = f"{needs}, which is not installed; pip install 'rubberband-tune[{extra}]'"
                raise InvalidInput(key, missing) from None
            said = last_line(f"{type(error).__name__}: {error}")
            again = reinstall_command(package.replace("_", "-"))
            broken = (
                f"{needs}, which is installed but broken, and cannot be imported ({said}); install it anew: {again}"
            )
            raise InvalidInput(key, broken) from error
