"""Rows as CSV and as Markdown, the same for every study."""

from __future__ import annotations

import csv
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

R = TypeVar("R")

DIGITS = 7
"""Significant digits of a float in a file."""

RULES = {"": "---", "l": ":---", "c": ":---:", "r": "---:"}


def write_csv(path: Path, rows: Sequence[Any]) -> None:
    """Write one line a row, and the fields' names above them.

    Floats are rounded to seven significant digits; None is an empty cell. Folders that are missing are made.

    Args:
        path: the file, which is replaced.
        rows: instances of one dataclass, at least one. A field is a str, int, float, bool or Enum, or such a one or
            None.

    Raises:
        ValueError: there is no row, so that the columns are not known.
    """
    if not rows:
        raise ValueError(f"no rows for {path.name}: a study that measured nothing has failed")
    names = [field.name for field in fields(rows[0])]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(getattr(row, name)) for name in names] for row in rows)


def read_csv(path: Path, row: type[R]) -> list[R]:
    """The rows that `write_csv` wrote, with floats as rounded as they are in the file.

    What is made of them follows from the file to the last digit.

    Args:
        path: the file.
        row: the dataclass, whose annotations say how a cell is read.

    Raises:
        ValueError: the file's columns are not the fields of the dataclass, or a cell is not of its type.
    """
    hints = get_type_hints(row)
    columns = {field.name: _reader(hints[field.name]) for field in fields(row)}  # type: ignore[arg-type]
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        if lines.fieldnames is None or list(lines.fieldnames) != list(columns):
            raise ValueError(f"{path.name} has the columns {lines.fieldnames}, and not {list(columns)}; measure again")
        return [row(**{name: read(line[name]) for name, read in columns.items()}) for line in lines]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A table in Markdown, without a line break at its end.

    Args:
        header: one word a column.
        rows: cells of each row, as many as the header has.
        align: one letter a column: l, c or r; as the reader's program likes it where there is none.

    Raises:
        ValueError: a row or `align` is not as long as the header.
    """
    rules = [RULES[letter] for letter in align] if align else [RULES[""]] * len(header)
    lines = [header, rules, *rows]
    for cells in lines:
        if len(cells) != len(header):
            raise ValueError(f"a row of {len(cells)} cells under {len(header)} columns: {cells!r}")
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        # No negative zeros.
        return f"{value:.{DIGITS}g}" if value else "0"
    return str(value.value if isinstance(value, Enum) else value)


def _reader(hint: Any) -> Callable[[str], Any]:
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (_reader(one) for one in get_args(hint) if one is not type(None))
        return lambda cell: inner(cell) if cell else None
    return _truth if hint is bool else hint


def _truth(cell: str) -> bool:
    if cell not in ("True", "False"):
        raise ValueError(f"neither True nor False: {cell!r}")
    return cell == "True"
