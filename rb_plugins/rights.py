"""A policy for people: each right, on what, under which condition, and what for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rb_core.report import Table


def rights_table(side: str, document: Mapping[str, Any], purposes: Mapping[str, str]) -> Table:
    """One row for each right.

    Args:
        side: whose.
        document: the policy, as IAM takes it.
        purposes: what each right is for.
    """
    return Table(
        title=f"Rights of the {side}; --json prints the policy",
        columns=("right", "on", "only if", "what for"),
        words=("on", "only if", "what for"),
        rows=tuple(
            (action, _on(statement["Resource"]), _only_if(statement.get("Condition", {})), purposes[action])
            for statement in document["Statement"]
            for action in _listed(statement["Action"])
        ),
    )


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _on(resources: Any) -> str:
    return ", ".join(dict.fromkeys(resource.split(":", 5)[-1] for resource in _listed(resources)))


def _only_if(condition: Mapping[str, Mapping[str, Any]]) -> str:
    words = []
    for how, keys in condition.items():
        for key, value in keys.items():
            words.append(f"{key} is there" if how == "Null" else f"{key} is {' or '.join(_listed(value))}")
    return " and ".join(words)
