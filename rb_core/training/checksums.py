"""Whether a checkpoint is still what was written: sums over its bytes, kept with it and compared before it is used.

A file that torch saved ends with its CRC-32, as the comment that a zip archive may have, so torch still reads it.
(torch's own sums of the records do not cover the archive's directory, and torch does not compare them.) A folder
that a function filled gets a list of its files.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import BinaryIO

LIST = ".rb-checksums"
"""Name of a folder's list: a line of JSON with ``{file: [bytes, crc32]}``, then the CRC-32 of that line."""

_MARK = b"rb-crc32="
_COMMENT_BYTES = len(_MARK) + 8
_PIECE_BYTES = 1 << 20


def seal(file: Path) -> None:
    """Append its checksum to a zip archive that has no comment yet.

    Raises:
        OSError: the file system refuses.
    """
    with open(file, "r+b") as opened:
        # The last two bytes of an archive without a comment are the length of the comment.
        opened.seek(-2, os.SEEK_END)
        opened.write(_COMMENT_BYTES.to_bytes(2, "little"))
        opened.seek(0)
        crc32 = _crc32(opened)
        opened.write(_MARK + _hexadecimal(crc32))


def flaw_of_file(file: Path) -> str:
    """What is wrong with a sealed file, in words; empty when it is as it was sealed.

    Raises:
        OSError: the file cannot be read.
    """
    with open(file, "rb") as opened:
        size_bytes = opened.seek(0, os.SEEK_END)
        if not size_bytes:
            return "it is empty"
        sealed_bytes = max(0, size_bytes - _COMMENT_BYTES)
        opened.seek(sealed_bytes)
        comment = opened.read()
        if not comment.startswith(_MARK):
            return "it does not end with a checksum, so it is cut short, overwritten or not one of ours"
        opened.seek(0)
        if comment != _MARK + _hexadecimal(_crc32(opened, sealed_bytes)):
            return "it is not as it was written (its checksum differs)"
    return ""


def write_list(folder: Path) -> None:
    """Add the list to a folder that is complete. Symbolic links are left out: what they lead to is not in it.

    Raises:
        OSError: the file system refuses.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    listed = {str(path.relative_to(folder)): _size_and_sum(path) for path in files if path != folder / LIST}
    line = json.dumps(listed).encode()
    (folder / LIST).write_bytes(line + b"\n" + _hexadecimal(zlib.crc32(line)))


def flaw_of_folder(folder: Path) -> str:
    """What is wrong with a folder's files, in words; empty when they are as they were listed.

    Raises:
        OSError: the folder, or a file in it, cannot be read.
    """
    if LIST not in os.listdir(folder):
        return f"its list of files, {LIST}, is missing"
    line, _, crc32 = (folder / LIST).read_bytes().rpartition(b"\n")
    if crc32 != _hexadecimal(zlib.crc32(line)):
        return f"its list of files, {LIST}, is not as it was written"
    for name, listed in json.loads(line).items():
        try:
            found = _size_and_sum(folder / name)
        except FileNotFoundError:
            return f"{name} is missing"
        if found[0] != listed[0]:
            return f"{name} has {found[0]} bytes, not {listed[0]}"
        if found[1] != listed[1]:
            return f"{name} is not as it was written (its checksum differs)"
    return ""


def _size_and_sum(file: Path) -> tuple[int, int]:
    with open(file, "rb") as opened:
        crc32 = _crc32(opened)
        return opened.tell(), crc32


def _crc32(opened: BinaryIO, most_bytes: int | None = None) -> int:
    """The sum from where a file stands to its end, or over so many bytes."""
    crc32, left = 0, most_bytes
    while piece := opened.read(_PIECE_BYTES if left is None else min(left, _PIECE_BYTES)):
        crc32 = zlib.crc32(piece, crc32)
        left = None if left is None else left - len(piece)
    return crc32


def _hexadecimal(crc32: int) -> bytes:
    return b"%08x" % crc32
