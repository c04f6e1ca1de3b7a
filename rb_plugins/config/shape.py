"""Checking plain values against a shape, with errors in our words and under the key's full path."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from rb_core.errors import InvalidInput

Shape = TypeVar("Shape")

_WORDS = {
    "missing": "is required",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "dataclass_type": "must be an object with keys",
    "dict_type": "must be an object with keys",
    "mapping_type": "must be an object with keys",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}

_adapters: dict[type, TypeAdapter[Any]] = {}
"""Building an adapter takes milliseconds, so each is built once."""


MAGNITUDES = (1e-12, 1e12)
"""Numbers of a model of time and money, other than 0, lie between these; beyond them its sums overflow."""


def shaped(shape: type[Shape], data: object, key: str = "", *, free: Collection[str] = ()) -> Shape:
    """`data` as a `shape`.

    Args:
        shape: a dataclass.
        data: plain values, as `read_table` gives them.
        key: path of `data` within its file.
        free: keys of `data` under which numbers may be of any magnitude.

    Raises:
        InvalidInput: the first thing that does not fit, under its full path.
    """
    bounded = {name: part for name, part in data.items() if name not in free} if isinstance(data, Mapping) else data
    _check_magnitudes(bounded, key)
    try:
        # As JSON, because pydantic's strict mode then takes arrays for tuples and text for enums, and nothing else.
        checked: Shape = _adapter(shape).validate_json(json.dumps(data), strict=True, extra="forbid")
        return checked
    except ValidationError as error:
        first = _most_telling(error.errors(include_url=False))
        problem = _in_words(shape, first)
        path = ""
        for part in first["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
        if path:
            problem = problem.under(path)
        raise (problem.under(key) if key else problem) from None


def _check_magnitudes(data: object, key: str) -> None:
    if isinstance(data, Mapping):
        for name, part in data.items():
            _check_magnitudes(part, f"{key}.{name}" if key else name)
    elif isinstance(data, list):
        for number, part in enumerate(data):
            _check_magnitudes(part, f"{key}[{number}]")
    elif isinstance(data, int | float) and data != 0 and not MAGNITUDES[0] <= abs(data) <= MAGNITUDES[1]:
        low, high = MAGNITUDES
        raise InvalidInput(key, f"must be 0 or between {low:g} and {high:g} in magnitude, got {_short(data)}")


def _adapter(shape: type) -> TypeAdapter[Any]:
    if shape not in _adapters:
        _adapters[shape] = TypeAdapter(shape)
    return _adapters[shape]


def _most_telling(errors: Sequence[Any]) -> Any:
    """The first error; where it misses a key that an unknown one beside it was meant to be, that one's."""
    first = errors[0]
    if first["type"] == "missing":
        *parent, name = first["loc"]
        for other in errors:
            *place, given = other["loc"] or ("",)
            if other["type"] == "unexpected_keyword_argument" and place == parent and _near(str(given), [str(name)]):
                return other
    return first


def _in_words(shape: type, error: Any) -> InvalidInput:
    kind, value = error["type"], error["input"]
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        return InvalidInput(cause.key, cause.problem)
    if kind == "unexpected_keyword_argument":
        return InvalidInput("", _unknown(str(error["loc"][-1]), _keys(shape, error["loc"][:-1])))
    if kind == "missing":
        return InvalidInput("", _WORDS[kind])
    if kind in ("enum", "literal_error"):
        expected = error["ctx"]["expected"]
        meant = _near(value, re.findall("'([^']*)'", expected)) if isinstance(value, str) else ""
        remedy = f'; write "{meant}"' if meant else ""
        return InvalidInput("", f"must be one of {expected}, got {_short(value)}{remedy}")
    return InvalidInput("", f"{_WORDS.get(kind, error['msg'])}, got {_short(value)}")


def _unknown(name: str, known: Sequence[str]) -> str:
    near = _near(name, known)
    hint = f"did you mean {near}? " if near else ""
    return f"is not a known key; {hint}known: {', '.join(known)}"


def _near(name: str, known: Sequence[str]) -> str:
    """What a name was meant to be: one that is spelt nearly so, or that begins it or is begun by it; else empty."""
    close = get_close_matches(name, known, n=1)
    begun = [other for other in known if name and (name.lower().startswith(other) or other.startswith(name.lower()))]
    return next(iter([*close, *begun]), "")


def _keys(shape: Any, path: Sequence[int | str]) -> list[str]:
    """Names of the fields of the dataclass at `path` below `shape`."""
    for part in path:
        shape = _bare(shape)
        if is_dataclass(shape):
            shape = get_type_hints(shape, include_extras=True)[str(part)]
        else:
            arguments = get_args(shape)
            shape = arguments[0] if get_origin(shape) is tuple else arguments[-1]
    return [field.name for field in fields(_bare(shape))]


def _bare(shape: Any) -> Any:
    """A type without its annotations and without `| None`."""
    while True:
        origin = get_origin(shape)
        if origin is Annotated:
            shape = get_args(shape)[0]
        elif origin in (Union, UnionType):
            shape = next(part for part in get_args(shape) if part is not type(None))
        else:
            return shape


def _short(value: object) -> str:
    text = repr(value)
    if isinstance(value, Mapping | list):
        text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
