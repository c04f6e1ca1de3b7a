"""TOML and JSON of pages, read as the product reads them."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput
from rb_plugins import Session
from rb_plugins.config.faults import load_faults

Table = dict[str, Any]


def parsed(text: str, language: str) -> Table:
    """The object that a block holds."""
    table: Table = tomllib.loads(text) if language == "toml" else json.loads(text)
    return table


def merged(base: Table, fragment: Table) -> Table:
    """`base` with what `fragment` says in its place, table by table."""
    result = dict(base)
    for key, value in fragment.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def check(file: Path) -> None:
    """Read a file by what it is: of an experiment, a problem, a project with entry points, or of faults.

    Raises:
        InvalidInput: it is wrong.
    """
    table = parsed(file.read_text(encoding="utf-8"), file.suffix.removeprefix("."))
    if "project" in table:
        _check_entry_points(table["project"], file.parent)
    elif "train" in table:
        Session().load_tuning(file)
    elif {"experiment", "cloud", "objective"} & set(table):
        Session().load_problem(file)
    elif "profile" in table or "iteration_s" in table:
        raise InvalidInput(str(file), "is part of a file: say of which, `<!-- next: into FILE -->`")
    else:
        load_faults(file)


def _check_entry_points(project: Table, folder: Path) -> None:
    for group, entries in project.get("entry-points", {}).items():
        for name, module in entries.items():
            inside = folder.joinpath(*module.split(":")[0].split("."))
            if not inside.with_suffix(".py").exists() and not re.match("rb_", module) and not find_spec(module):
                raise InvalidInput(f"project.entry-points.{group}.{name}", f"names {module}, which is not there")
