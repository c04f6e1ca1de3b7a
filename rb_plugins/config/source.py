"""Reading one JSON or TOML file into plain values: syntax, duplicate keys and the schema's version."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.events import SCHEMA


class _Pairs(list[tuple[str, Any]]):
    """An object as its parser saw it, with duplicate keys."""


def read_table(path: Path, *, nulls_under: Collection[str] = ()) -> dict[str, Any]:
    """The object that a file holds; TOML when its name ends so, else JSON.

    Args:
        path: the file.
        nulls_under: keys of the outermost object under which JSON's null is a value; elsewhere it is refused.

    Returns:
        Dicts, lists, text, finite numbers and booleans; without the key ``schema``.

    Raises:
        InvalidInput: the file cannot be read, is not valid (with line and column), gives a key twice, holds what
            the schema knows no value for, or is of another version.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror or error}; name a file that can be") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(str(path), f"must be UTF-8 text; byte {error.start} is not") from None
    except ValueError:
        raise InvalidInput(str(path), "cannot be the name of a file; name another one") from None
    try:
        raw = _parse(text, path)
        if not isinstance(raw, _Pairs | dict):
            raise InvalidInput(str(path), "must hold one object with keys, not a list or a single value")
        table = {name: _plain(value, name, nulls=name in nulls_under) for name, value in _unique(raw, "").items()}
    except RecursionError:
        raise InvalidInput(str(path), "is nested too deeply; write it flatter") from None
    check_schema(table)
    return table


@contextmanager
def naming(path: Path, key: str = "") -> Iterator[None]:
    """Let errors within tell the file that they are about.

    Args:
        path: the file.
        key: where another file names this one, if it does; then the key of an error in reading it at all.
    """
    try:
        yield
    except InvalidInput as error:
        if error.key != str(path):
            error.add_note(f"in {path}")
        elif key:
            raise InvalidInput(key, str(error)) from None
        raise


def check_schema(table: dict[str, Any]) -> None:
    """Take the key ``schema`` out.

    Raises:
        InvalidInput: it names another version than this one.
    """
    version = table.pop("schema", SCHEMA)
    if version != SCHEMA or isinstance(version, bool):
        raise InvalidInput("schema", f"must be {SCHEMA}, the one version that this release knows, got {version!r}")


def _parse(text: str, path: Path) -> Any:
    try:
        if path.suffix.lower() == ".toml":
            return tomllib.loads(text)
        return json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        problem = f"is not valid JSON: {error.msg} (at line {error.lineno}, column {error.colno})"
        raise InvalidInput(str(path), problem) from None
    except tomllib.TOMLDecodeError as error:
        lines = text.split("\n")
        end = f"at line {len(lines)}, column {len(lines[-1]) + 1}"
        problem = f"is not valid TOML: {str(error).replace('at end of document', end)}"
        raise InvalidInput(str(path), problem) from None
    except ValueError as error:
        # Python refuses to read integers of thousands of digits.
        raise InvalidInput(str(path), f"holds a number that cannot be read: {error}; make it smaller") from None


def _unique(pairs: Any, key: str) -> dict[str, Any]:
    if isinstance(pairs, dict):
        return pairs
    table: dict[str, Any] = {}
    for name, value in pairs:
        _check_text(name, key)
        if name in table:
            raise InvalidInput(_join(key, name), "is given twice; leave one out")
        table[name] = value
    return table


def _plain(value: Any, key: str, *, nulls: bool) -> Any:
    if isinstance(value, _Pairs | dict):
        return {name: _plain(part, _join(key, name), nulls=nulls) for name, part in _unique(value, key).items()}
    if isinstance(value, list):
        return [_plain(part, f"{key}[{number}]", nulls=nulls) for number, part in enumerate(value)]
    if value is None and not nulls:
        raise InvalidInput(key, "must not be null; leave the key out instead")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(key, f"must be a finite number, got {value!r}")
    if isinstance(value, str):
        _check_text(value, key)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InvalidInput(key, f"must be text, a number, a list or an object, got a {type(value).__name__}")


def _check_text(value: str, key: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput(key, f"must hold valid Unicode text, got {value!r}") from None


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
