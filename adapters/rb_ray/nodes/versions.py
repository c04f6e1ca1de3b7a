"""The versions that must be alike on all machines of a run, and how a node tells its own."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("ray", "torch", "rubberband-tune")
_PREFIX = "rb-version-"
_NONE = "none"


def versions() -> dict[str, str]:
    """Versions of Python, Ray, torch and this package here, as far as they matter; ``none`` for what is missing.

    Builds for other accelerators (``+cpu``, ``+cu126``) are alike: their checkpoints are.
    """
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            found[package] = _NONE
    return found


def mismatch(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """What differs, with both versions named; empty when a node fits. What is missing here need not be there.

    Args:
        ours: of the program that the run belongs to.
        theirs: of the node.
    """
    unlike = [
        f"{name} {theirs.get(name, 'unknown')}, and this program has {name} {own}"
        for name, own in ours.items()
        if own not in (_NONE, theirs.get(name))
    ]
    return "; ".join(unlike)


def labels(of: Mapping[str, str]) -> dict[str, str]:
    """Ray labels of a node that tell its versions."""
    return {f"{_PREFIX}{name}": value for name, value in of.items()}


def told(of: Mapping[str, str]) -> dict[str, str]:
    """The versions that a node's Ray labels tell; empty where it tells none."""
    return {name.removeprefix(_PREFIX): value for name, value in of.items() if name.startswith(_PREFIX)}
