"""Where checkpoints go: into a folder, or into a store behind an address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rb_core.errors import InvalidInput
from rb_core.ports import Depot
from rb_plugins.factories import DepotFactory
from rb_plugins.rundir import RunDirectory

KEY = "run.storage"

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(storage: Path | str | None) -> str:
    """``s3`` of an address such as ``s3://bucket/prefix``; empty of a folder."""
    found = _ADDRESS.match(storage) if isinstance(storage, str) else None
    return found[1].lower() if found else ""


def storage_of(text: str | Path, folder: Path) -> Path | str:
    """An address as it is, anything else as a folder's path, relative to `folder`.

    Raises:
        InvalidInput: it says nothing.
    """
    if not str(text):
        raise InvalidInput(KEY, "must be a folder, or an address such as s3://bucket/prefix, got nothing")
    return text if isinstance(text, str) and scheme_of(text) else folder / text


def place(storage: Path | str | None, directory: RunDirectory) -> str:
    """Where the checkpoints of one run go, as it is recorded.

    Args:
        storage: what was asked for.
        directory: of the run.
    """
    if storage is None:
        return str(directory.checkpoints)
    return below(storage, directory.run) if isinstance(storage, str) else str(storage.absolute() / directory.run)


def below(storage: str, name: str) -> str:
    """An address below another one."""
    return f"{storage.rstrip('/')}/{name}"


def depot_at(storage: Path | str | None, depots: Mapping[str, DepotFactory]) -> Depot | None:
    """The depot behind an address; None of a folder. Contacts nothing.

    Raises:
        InvalidInput: there is no such store, or an extra is missing.
    """
    scheme = scheme_of(storage)
    if not scheme:
        return None
    if scheme not in depots:
        known = ", ".join(f"{name}://" for name in sorted(depots)) or "none; s3:// comes with rubberband-tune[ray]"
        raise InvalidInput(
            KEY, f"must be a folder, or the address of a store that a plugin knows ({known}), got {storage!r}"
        )
    return depots[scheme](uri=str(storage))
