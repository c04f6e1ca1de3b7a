"""Values as plain JSON and back: every float survives, also those that JSON has no word for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_FLOAT_KEY = "$float"
_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: object) -> Any:
    """`value` in dicts with string keys, lists, strings, numbers, booleans and None.

    Tuples and sets become lists and numpy's scalars become Python's; whatever JSON cannot hold at all (a class, a
    function) becomes its `repr`. Floats stay floats, NaN and infinities included.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(part) for part in value), key=repr)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:
        return plain(item())
    return repr(value)


def dumps(value: object) -> str:
    """One line of valid JSON; a float that is not finite becomes ``{"$float": "NaN"}`` or the like."""
    return json.dumps(_tagged(plain(value)), allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes) -> Any:
    """What `dumps` wrote.

    Raises:
        ValueError: not JSON.
    """
    try:
        return json.loads(text, object_hook=_untagged, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _tagged(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT_KEY: _NON_FINITE[str(value)]}
    if isinstance(value, dict):
        return {key: _tagged(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_tagged(part) for part in value]
    return value


def _untagged(found: dict[str, Any]) -> Any:
    if found.keys() == {_FLOAT_KEY} and found[_FLOAT_KEY] in _NON_FINITE.values():
        return float(found[_FLOAT_KEY])
    return found


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")
