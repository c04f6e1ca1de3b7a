"""Depots without any network: one of names alone, and one in a folder that real ranks can use."""

from __future__ import annotations

import itertools
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rb_core.errors import DamagedCheckpoint, InvalidInput, StoreFailure


class FakeDepot:
    """Knows which checkpoints it holds, and nothing of what is in them.

    Attributes:
        uri: its address.
        held: references of what it holds.
        fetched: references of what was fetched, in order.
        deleted: references of what was deleted, in order.
        failure: what every call fails with; empty while it works.
    """

    def __init__(self, uri: str = "fake://depot") -> None:
        self.uri = uri
        self.held: dict[str, None] = {}
        self.fetched: list[str] = []
        self.deleted: list[str] = []
        self.failure = ""
        self._numbers = itertools.count()

    def check(self) -> None:
        """Raise `InvalidInput` where it fails."""
        if self.failure:
            raise InvalidInput("storage", self.failure)

    def push(self, checkpoint: Path, folder: str) -> str:
        """Hold its name."""
        self._answer()
        reference = f"{self.uri}/{folder}/{checkpoint.name}-{next(self._numbers)}"
        self.held[reference] = None
        return reference

    def fetch(self, reference: str, path: Path) -> None:
        """Note that it was asked for."""
        self._answer()
        self.fetched.append(reference)
        if reference not in self.held:
            raise DamagedCheckpoint(f"checkpoint {reference} is gone; go on from an earlier one")

    def delete(self, reference: str) -> None:
        """Forget it."""
        self._answer()
        self.deleted.append(reference)
        self.held.pop(reference, None)

    def references(self) -> Sequence[str]:
        """What it holds."""
        self._answer()
        return tuple(self.held)

    def _answer(self) -> None:
        if self.failure:
            raise StoreFailure(self.failure)


@dataclass(frozen=True, slots=True)
class FolderDepot:
    """Keeps checkpoints in a folder of this machine, as another machine's store would.

    Attributes:
        folder: absolute; made when missing.
    """

    folder: Path

    @property
    def uri(self) -> str:
        """``file://`` and the folder."""
        return f"file://{self.folder}"

    def check(self) -> None:
        """Raise `InvalidInput` where the folder cannot be made."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"{self.folder} cannot be made: {error.strerror}; name a folder that can be"
            raise InvalidInput("storage", problem) from None

    def push(self, checkpoint: Path, folder: str) -> str:
        """Copy it under a name of its own."""
        name = f"{folder}/{checkpoint.stem}-{secrets.token_hex(4)}{checkpoint.suffix}"
        try:
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
            _copy(checkpoint, self.folder / name)
        except OSError as error:
            raise StoreFailure(f"{self.uri}/{name} cannot be written: {error.strerror}") from error
        return f"{self.uri}/{name}"

    def fetch(self, reference: str, path: Path) -> None:
        """Copy it back."""
        try:
            _copy(self._path(reference), path)
        except FileNotFoundError:
            raise DamagedCheckpoint(f"checkpoint {reference} is gone; go on from an earlier one") from None

    def delete(self, reference: str) -> None:
        """Remove it."""
        path = self._path(reference)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def references(self) -> Sequence[str]:
        """What lies two levels down."""
        return sorted(f"file://{path}" for path in self.folder.glob("*/*"))

    def _path(self, reference: str) -> Path:
        return Path(reference.removeprefix("file://"))


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
