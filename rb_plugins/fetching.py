"""Bringing a checkpoint from where a run keeps it to where somebody wants it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rb_core.errors import DamagedCheckpoint, InvalidInput
from rb_core.training import checkpoint
from rb_plugins.factories import DepotFactory
from rb_plugins.storing import depot_at

KEY = "--fetch"


def fetch(kept: Path | str, folder: Path, depots: Mapping[str, DepotFactory]) -> Path:
    """Copy a checkpoint, file or folder, into a folder, under its own name.

    Args:
        kept: its path, or its reference in a store.
        folder: made when missing.
        depots: stores by the scheme of their addresses.

    Returns:
        Where it is now.

    Raises:
        InvalidInput: the folder cannot be used.
        DamagedCheckpoint: it is missing, or not what was saved.
        UnusableCheckpoint: it cannot be brought.
    """
    path = folder / PurePosixPath(str(kept)).name
    if path.exists():
        raise InvalidInput(KEY, f"must be a folder without {path.name}, but {path} exists")
    draft = path.with_name(f".{path.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint.delete(draft)
        # The last two parts of a reference are the trial's and its own.
        depot = depot_at(kept if isinstance(kept, Path) else kept.rsplit("/", 2)[0], depots)
        if depot is None:
            _copy(Path(kept), draft)
        else:
            depot.fetch(str(kept), draft)
        checkpoint.verify(draft, str(kept))
        draft.rename(path)
    except OSError as error:
        raise InvalidInput(
            KEY, f"{path} cannot be written: {error.strerror or error}; name a folder that can be"
        ) from None
    return path


def _copy(kept: Path, path: Path) -> None:
    if not kept.exists():
        raise DamagedCheckpoint(f"checkpoint {kept} is gone")
    if kept.is_dir():
        shutil.copytree(kept, path, symlinks=True)
    else:
        shutil.copyfile(kept, path)
