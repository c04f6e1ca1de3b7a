"""What ties the nodes of a run to this program: what each runs, the secret that they share, and their lease."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Mapping, Sequence

from rb_core.errors import InvalidInput
from rb_core.hardware import InstanceType
from rb_core.ports import Bootstrap
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.lifeline import Lifeline, NodeReport
from rb_core.providers.ec2.parameter import Secret, SecretEntry, entry_name
from rb_core.providers.ec2.request import own_tags
from rb_core.providers.ec2.settings import KEY, Ec2Settings
from rb_core.providers.ec2.userdata import user_data
from rb_core.providers.ec2.whereabouts import whereabouts

Command = Callable[[str, InstanceType], Bootstrap]
"""What a node runs, by its name and type."""

Hear = Callable[[NodeReport], None]
"""Told each report of a node, from a thread of the lifeline's."""

LifelineFactory = Callable[[bytes, Hear, str], Lifeline]
"""Makes a lifeline of a key, who hears, and the address to listen on."""


class Tether:
    """Exists from the first launch, or adoption, of nodes that run a command.

    Args:
        command: what each node runs.
        hear: told what nodes report.
        clients: of the run's region.
        settings: the user's.
        run: id of the run.
        owner: whose run it is.
        lifeline: makes the lifeline.

    Raises:
        InvalidInput: nodes would not find this machine.
        LaunchFailure: this machine cannot be listened on at that address.
    """

    def __init__(
        self,
        command: Command,
        hear: Hear,
        *,
        clients: Clients,
        settings: Ec2Settings,
        run: str,
        owner: str,
        lifeline: LifelineFactory = Lifeline,
    ) -> None:
        self._command = command
        self._settings = settings
        self._run = run
        self._region = clients.region
        self._key = secrets.token_bytes(32)
        self._bootstraps: dict[str, Bootstrap] = {}
        self._entry = SecretEntry(clients.service("ssm"), entry_name(run), own_tags(run, owner, settings))
        self._written = ""
        self._lifeline = lifeline(self._key, hear, driver_address(settings))

    def ready(self, nodes: Mapping[str, InstanceType]) -> None:
        """Have the secret, and the address, where these nodes will look for it.

        Raises:
            NoAnswer: it is not known whether it is there.
            CallRefused: it cannot be put there.
            InvalidInput: it is too large.
        """
        for name, instance_type in nodes.items():
            if name not in self._bootstraps:
                self._bootstraps[name] = self._command(name, instance_type)
        secret = Secret.of(key=self._key, address=self._lifeline.address, bootstraps=self._bootstraps)
        text = secret.text()
        if text != self._written:
            self._entry.put(secret)
            self._written = text

    def script(self, token: str, nodes: Sequence[str]) -> str:
        """User data of a call for nodes that `ready` has seen. Raises `InvalidInput` where it is too large."""
        return user_data(
            run=self._run,
            attempt=token,
            nodes=nodes,
            bootstraps={name: self._bootstraps[name] for name in nodes},
            lifetime_s=self._settings.lifetime_s,
            lease_s=self._settings.lease_s,
            settings=self._settings,
            region=self._region,
            parameter=self._entry.name,
        )

    def dismiss(self, nodes: Sequence[str]) -> None:
        """Nodes that are given back: they end themselves when they report next, should nobody else have ended them."""
        for name in nodes:
            self._bootstraps.pop(name, None)
        self._lifeline.dismiss(nodes)

    def close(self) -> None:
        """Renew no lease any more. Idempotent."""
        self._lifeline.close()


def driver_address(settings: Ec2Settings) -> str:
    """The numeric address of this machine at which nodes find it. May ask the machine's own metadata service.

    Raises:
        InvalidInput: it is not known, or is a name that nobody knows.
    """
    if settings.driver_address:
        try:
            return socket.gethostbyname(settings.driver_address)
        except (OSError, UnicodeError) as error:
            raise InvalidInput(
                f"{KEY}.driver_address",
                f"must be an address of this machine, or a name of it that is known here, got "
                f"{settings.driver_address!r} ({error})",
            ) from None
    here = whereabouts()
    if here is None:
        raise InvalidInput(
            f"{KEY}.driver_address",
            "is missing: this machine is not in EC2, and nodes have to reach it; set it to this machine's address in a "
            "VPN, or run this on an instance in the nodes' VPC",
        )
    return here.address
