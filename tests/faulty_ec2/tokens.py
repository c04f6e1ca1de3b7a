"""Client tokens: the same request once more is the same launch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faulty_ec2.wire import Answer, Refusal


@dataclass(frozen=True, slots=True)
class _Launched:
    signature: str
    answer: Answer
    instances: tuple[str, ...]


def _signature(params: Mapping[str, Any]) -> str:
    wanted = sorted((name, value) for name, value in params.items() if name not in ("ClientToken", "DryRun"))
    return hashlib.sha256(json.dumps(wanted).encode()).hexdigest()


class Tokens:
    """Launches by (region, zone that was asked for, token): in another zone the same token launches again."""

    def __init__(self) -> None:
        self._launched: dict[tuple[str, str, str], _Launched] = {}

    def find(self, region: str, zone: str, params: Mapping[str, Any]) -> tuple[Answer, tuple[str, ...]] | None:
        """The answer and the instances of an earlier launch with this token.

        Raises:
            Refusal: the token came with other parameters (IdempotentParameterMismatch).
        """
        found = self._launched.get((region, zone, params.get("ClientToken", "")))
        if found is None:
            return None
        if found.signature != _signature(params):
            raise Refusal(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
            )
        return found.answer, found.instances

    def keep(
        self, region: str, zone: str, params: Mapping[str, Any], answer: Answer, instances: tuple[str, ...]
    ) -> None:
        """Remember a launch; one without a token cannot be found again."""
        if token := params.get("ClientToken"):
            self._launched[region, zone, token] = _Launched(_signature(params), answer, instances)
