"""The run's secret: an encrypted entry in AWS's parameter store, which only the role of its nodes can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.ports import Bootstrap
from rb_core.providers.ec2.refusals import CallRefused, answering
from rb_core.providers.ec2.tags import listed

PREFIX = "/rubberband/"
"""All entries are below it, so that one right covers them."""

MOST_BYTES = 4096
"""Largest value of a standard entry; larger ones cost."""


def entry_name(run: str) -> str:
    """Name of a run's entry."""
    return f"{PREFIX}{run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What the nodes of a run are told, and nobody else.

    Attributes:
        key: what nodes and driver prove themselves to each other with.
        address: ``host:port`` of the driver's lifeline.
        env: variables of every node's command.
        own: more of them, by the node's name.
    """

    key: bytes = field(repr=False)
    address: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def of(cls, *, key: bytes, address: str, bootstraps: Mapping[str, Bootstrap]) -> Secret:
        """With the variables of what nodes run, by name: those that all have alike are kept once."""
        envs = {name: dict(bootstrap.env) for name, bootstrap in bootstraps.items()}
        common = set.intersection(*(set(env.items()) for env in envs.values())) if envs else set()
        own = {name: dict(set(env.items()) - common) for name, env in envs.items()}
        return cls(key=key, address=address, env=dict(common), own={name: env for name, env in own.items() if env})

    def text(self) -> str:
        """The entry's value: JSON, as the agent reads it.

        Raises:
            InvalidInput: it is larger than an entry holds.
        """
        told = {"key": self.key.hex(), "address": self.address, "env": dict(self.env), "own": dict(self.own)}
        text = json.dumps(told, sort_keys=True)
        size = len(text.encode())
        if size > MOST_BYTES:
            raise InvalidInput(
                "env",
                f"must be shorter: what nodes are told takes {size} bytes, and an entry of the parameter store holds "
                f"{MOST_BYTES}; set variables in the image, or with a setup command",
            )
        return text


class SecretEntry:
    """One entry of the parameter store.

    Args:
        ssm: a client of the parameter store, of the nodes' region.
        name: the entry's.
        tags: what it is tagged with, when it is made.
    """

    def __init__(self, ssm: Any, name: str, tags: Mapping[str, str]) -> None:
        self._ssm = ssm
        self._tags = dict(tags)
        self.name = name

    def put(self, secret: Secret) -> None:
        """Write it, whatever it held before. Idempotent.

        Raises:
            NoAnswer: it is not known whether it was.
            CallRefused: it was not.
            InvalidInput: the secret is too large.
        """
        values = {"Name": self.name, "Value": secret.text(), "Type": "SecureString"}
        try:
            with answering("ssm:PutParameter"):
                self._ssm.put_parameter(**values, Tags=listed(self._tags))
        except CallRefused as error:
            if error.code != "ParameterAlreadyExists":
                raise
            # Tags can be given only to one that is new; those that it has stay.
            with answering("ssm:PutParameter"):
                self._ssm.put_parameter(**values, Overwrite=True)

    def delete(self) -> None:
        """Remove it; nodes that have not read it then end themselves when their lease is over. Idempotent.

        Raises:
            NoAnswer: it is not known whether it was.
            CallRefused: it was not.
        """
        try:
            with answering("ssm:DeleteParameter"):
                self._ssm.delete_parameter(Name=self.name)
        except CallRefused as error:
            if error.code != "ParameterNotFound":
                raise
