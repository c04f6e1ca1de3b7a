"""The rights that a run needs, as policies of IAM: those of the driver, and the few of its nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from rb_core.check import one_of
from rb_core.errors import InvalidInput

SIDES = ("driver", "node")
"""Who has rights: the program that rents, and what it rents."""

DEFAULT_ROLE = "rubberband-node"
"""Name of the nodes' role, unless told otherwise."""

_STORAGE = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")


def policy(side: str, *, role: str = DEFAULT_ROLE, storage: str = "") -> dict[str, Any]:
    """The policy of one side, as IAM takes it.

    Args:
        side: one of `SIDES`.
        role: name of the nodes' role, which the driver may give to them.
        storage: where checkpoints are kept, such as ``s3://bucket/prefix``; empty for no right to any bucket.

    Raises:
        InvalidInput: there is no such side, or a name cannot be one.
    """
    one_of("SIDE", side, SIDES)
    if not re.fullmatch(r"[\w+=,.@-]{1,64}", role):
        raise InvalidInput("--role", f"must be the name of a role and not its ARN, got {role!r}")
    found = _STORAGE.fullmatch(storage)
    if storage and not found:
        raise InvalidInput("--storage", f"must be an address such as s3://bucket/prefix, got {storage!r}")
    document = _read(side)
    bucket, prefix = (found[1], (found[2] or "").strip("/")) if found else ("", "")
    names = {"ROLE": role, "BUCKET": bucket, "PREFIX": f"{prefix}/" if prefix else ""}
    document["Statement"] = [
        _filled(statement, names)
        for statement in document["Statement"]
        if found or not any(action.startswith("s3:") for action in actions(statement))
    ]
    return document


def purposes(side: str) -> Mapping[str, str]:
    """What each right of one side is for, by its name."""
    found: dict[str, str] = _read("purposes")[side]
    return found


def actions(statement: Mapping[str, Any]) -> tuple[str, ...]:
    """The rights that a statement of a policy gives."""
    named = statement["Action"]
    return (named,) if isinstance(named, str) else tuple(named)


def _read(name: str) -> dict[str, Any]:
    text = files("rb_core.providers.ec2").joinpath(f"policies/{name}.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case str():
            return re.sub(r"\b(ROLE|BUCKET|PREFIX)(?=\b|\*)", lambda found: names[found[0]], value)
        case list():
            return [_filled(each, names) for each in value]
        case dict():
            return {key: _filled(each, names) for key, each in value.items()}
    return value
