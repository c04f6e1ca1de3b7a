"""What the figures were made on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("rubberband-tune", "numpy", "scipy", "torch", "scikit-learn", "optuna", "matplotlib")
"""Those whose versions may show in the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine and what is installed on it.

    Attributes:
        cores: how many this process may use.
        cpu: the processor's own name.
        python: version of Python.
        packages: versions, by the packages' names.
    """

    cores: int
    cpu: str
    python: str
    packages: Mapping[str, str]

    def __str__(self) -> str:
        """In one line."""
        packages = ", ".join(f"{name} {version}" for name, version in self.packages.items())
        return f"{self.cores} cores of {self.cpu}, Python {self.python}, {packages}"


def machine() -> Machine:
    """This one."""
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return Machine(cores=len(os.sched_getaffinity(0)), cpu=_cpu(), python=platform.python_version(), packages=installed)


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return " ".join(found[1].split()) if found else platform.machine()
