"""Checkpoints on a file system: complete or absent, safe to read, gone when no longer needed.

A trial's checkpoints lie in a folder of its own, ``<storage>/trial-0003``, as ``iteration-00000009.pt`` (a state
that torch saved) or ``iteration-00000009`` (a folder that the function filled itself). Everything is written under
a name that begins with a dot, flushed to the disk and then renamed, so a name without a dot is always complete.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rb_core.errors import DamagedCheckpoint, UnusableCheckpoint
from rb_core.oneline import first_line
from rb_core.training import checksums

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

SCHEMA = 1
"""Version of the state files that `write_state` writes and `read_state` reads."""


def trial_folder(storage: Path, trial: int) -> Path:
    """Where the checkpoints of one trial lie."""
    return storage / f"trial-{trial:04d}"


def delete(checkpoint: Path | str) -> None:
    """Remove a checkpoint, file or folder. Idempotent; half a removal never looks like a checkpoint.

    Raises:
        UnusableCheckpoint: the file system refuses.
    """
    path = Path(checkpoint)
    doomed = path.with_name(f".{path.name}.deleted")
    try:
        if path.is_dir():
            path.rename(doomed)
        else:
            path.unlink(missing_ok=True)
        if doomed.is_dir():
            shutil.rmtree(doomed)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnusableCheckpoint(f"checkpoint {path} could not be deleted: {error.strerror}") from error


def size_bytes(checkpoint: Path) -> int:
    """Bytes of a checkpoint's files, without the list that is kept of them."""
    if checkpoint.is_dir():
        files = (path for path in checkpoint.rglob("*") if path.is_file() and path != checkpoint / checksums.LIST)
        return sum(path.stat().st_size for path in files)
    return checkpoint.stat().st_size


def write_state(folder: Path, iterations: int, state: Mapping[str, Any], *, verify: bool) -> Path:
    """Write a state with torch, atomically; an earlier checkpoint stays as it is whatever happens.

    Args:
        folder: the trial's folder, made when missing.
        iterations: iterations done, for the name.
        state: plain values and tensors; numpy's scalars are turned into Python's.
        verify: read it back the way `read_state` will, before it counts.

    Raises:
        UnusableCheckpoint: the disk is full or refuses, or a value cannot be written or read back safely; the
            message names the value.
    """
    import torch

    payload = _plain({"schema": SCHEMA, "iterations": iterations, **state})
    final = folder / f"iteration-{iterations:08d}.pt"
    with _temporary(folder, final.name) as temporary:
        with _Disk(io.FileIO(temporary, "wb")) as disk:
            try:
                torch.save(payload, disk)
            except Exception as error:
                if disk.error is not None:
                    raise disk.error from None
                raise _unusable(payload, error) from error
            disk.flush()
            checksums.seal(temporary)
            os.fsync(disk.fileno())
        if verify:
            try:
                torch.load(temporary, weights_only=True, map_location="cpu")
            except pickle.UnpicklingError as error:
                raise _unusable(payload, error) from error
        os.replace(temporary, final)
        _sync(folder)
    return final


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What `write_state` wrote, with all tensors on the CPU. Runs no code that the file may carry.

    Raises:
        DamagedCheckpoint: missing, cut short, or not the bytes that were written.
        UnusableCheckpoint: of another kind or of an unknown version.
    """
    import torch

    if checkpoint.is_dir():
        raise UnusableCheckpoint(
            f"checkpoint {checkpoint} is a folder that trial.save() made, not a state for trial.restore(); "
            "read it with trial.load()"
        )
    _refuse_damaged(checkpoint, checksums.flaw_of_file)
    try:
        payload = torch.load(checkpoint, weights_only=True, map_location="cpu")
    except Exception as error:  # a file of another program can make torch raise anything
        raise UnusableCheckpoint(
            f"checkpoint {checkpoint} is undamaged, but torch cannot load it safely ({_first_line(error)}); "
            "use one that trial.restore() wrote"
        ) from error
    if not isinstance(payload, dict) or payload.get("schema") != SCHEMA:
        raise UnusableCheckpoint(f"checkpoint {checkpoint} is not of schema {SCHEMA}, the one that this version reads")
    return payload


def read_folder(checkpoint: Path) -> Path:
    """The folder that `filling_folder` completed, once its files are found to be those that were written.

    Raises:
        DamagedCheckpoint: missing, or its files are.
        UnusableCheckpoint: a state, not a folder.
    """
    if checkpoint.is_file():
        raise UnusableCheckpoint(
            f"checkpoint {checkpoint} is not a folder that trial.save() made; read a state with trial.restore()"
        )
    _refuse_damaged(checkpoint, checksums.flaw_of_folder)
    return checkpoint


def verify(checkpoint: Path, name: str) -> None:
    """Refuse a checkpoint, file or folder, that is not what was written.

    Args:
        checkpoint: where it lies.
        name: what it is called in the error.

    Raises:
        DamagedCheckpoint: it is not.
    """
    flaw_of = checksums.flaw_of_folder if checkpoint.is_dir() else checksums.flaw_of_file
    _refuse_damaged(checkpoint, flaw_of, name)


@contextmanager
def filling_folder(folder: Path, iterations: int) -> Iterator[tuple[Path, Path]]:
    """A new folder to fill, and the path that it gets once it is complete (when the block ends without an error).

    Args:
        folder: the trial's folder, made when missing.
        iterations: iterations done, for the name. A name that is taken gets a number more, so nothing complete
            is ever replaced by something that is not.

    Raises:
        UnusableCheckpoint: the disk is full or refuses.
    """
    name = f"iteration-{iterations:08d}"
    final, attempt = folder / name, 1
    while final.exists():
        attempt += 1
        final = folder / f"{name}-{attempt}"
    with _temporary(folder, final.name) as temporary:
        temporary.mkdir()
        yield temporary, final
        checksums.write_list(temporary)
        for path in [*temporary.rglob("*"), temporary]:
            _sync(path)
        temporary.rename(final)
        _sync(folder)


def _refuse_damaged(checkpoint: Path, flaw_of: Callable[[Path], str], name: str = "") -> None:
    name = name or str(checkpoint)
    try:
        flaw = flaw_of(checkpoint)
    except OSError as error:
        raise DamagedCheckpoint(
            f"checkpoint {name} could not be read: {error.strerror or error}; go on from an earlier one"
        ) from error
    if flaw:
        raise DamagedCheckpoint(f"checkpoint {name} is damaged: {flaw}; go on from an earlier one")


@contextmanager
def _temporary(folder: Path, name: str) -> Iterator[Path]:
    """A hidden name beside the final one; whatever still has a hidden name is removed before and after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_hidden(folder)
        yield folder / f".{name}.part"
    except OSError as error:
        raise UnusableCheckpoint(
            f"checkpoint {folder / name} could not be written: {error.strerror or error}; free some space or "
            "choose another storage; the checkpoint before it is intact"
        ) from error
    finally:
        _remove_hidden(folder)


def _remove_hidden(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if not path.name.startswith(".iteration-"):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Disk(io.BufferedWriter):
    """A file that keeps the operating system's own error, which torch hides behind one of its own."""

    error: OSError | None = None

    def write(self, data: Buffer) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.error = self.error or error
            raise


def _plain(value: Any) -> Any:
    """The value with numpy's scalars turned into Python's, in plain containers at any depth."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (dict, OrderedDict):
        return type(value)((_plain(key), _plain(item)) for key, item in value.items())
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    return value


def _unusable(payload: Any, error: Exception) -> UnusableCheckpoint:
    found = _offender("", payload)
    if found is None:
        return UnusableCheckpoint(f"the state cannot be saved: {_first_line(error)}")
    path, value = found
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return UnusableCheckpoint(
        f"{path.removeprefix('state.')} is a {kind}, which cannot be saved and read back safely "
        "(torch.load with weights_only=True); let its state_dict() hold tensors, numbers, strings, lists and dicts "
        "alone"
    )


def _offender(path: str, value: Any) -> tuple[str, Any] | None:
    """The first value that does not survive a safe round trip, with where it stands."""
    if type(value) in (dict, OrderedDict):
        parts = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif type(value) in (list, tuple):
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return None if _survives(value) else (path, value)
    return next((found for part in parts if (found := _offender(*part)) is not None), None)


def _survives(value: Any) -> bool:
    import torch

    if type(value) is torch.Tensor:
        return True
    buffer = io.BytesIO()
    try:
        torch.save(value, buffer)
        buffer.seek(0)
        torch.load(buffer, weights_only=True, map_location="cpu")
    except Exception:
        return False
    return True


def _first_line(error: BaseException) -> str:
    return first_line(str(error)) or type(error).__name__
