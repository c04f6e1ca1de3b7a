"""The user's code on its way to other machines."""

from __future__ import annotations

import socket
from pathlib import Path

from rb_core.errors import InvalidInput
from rb_core.target import KEY, Target
from rb_ray import _compat

MOST_MIB = 100
"""Largest folder of code that travels."""


def folder_of(target: Target) -> Path | None:
    """The folder that a training function is found in; None for one that is sent by value or is installed."""
    if target.file is not None or target.folder is None:
        return target.folder
    top = target.folder / target.module.partition(".")[0]
    return target.folder if top.is_dir() or top.with_suffix(".py").is_file() else None


def pack(folder: Path) -> dict[str, str]:
    """The runtime environment in which a copy of a folder is the current one, once it lies with the cluster.

    What `.gitignore` and `.rayignore` name stays behind.

    Raises:
        InvalidInput: the folder is too large.
    """
    uri = _compat.store_folder(folder, most_bytes=MOST_MIB * 2**20)
    if uri is None:
        raise InvalidInput(
            KEY,
            f"the folder of the code, {folder}, goes to every node and holds more than {MOST_MIB} MiB; keep the code "
            "in a folder of its own, or name in a file .rayignore there what need not go along",
        )
    return {"working_dir": uri}


def is_here(address: str) -> bool:
    """Whether an address is this machine's own."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
