"""The Ray cluster that a run uses: one that is joined at its address, or one of its own on this machine."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import ray
from ray.exceptions import AuthenticationError, RayError

from rb_core.errors import InvalidInput, LaunchFailure
from rb_core.hardware import InstanceType
from rb_core.launchers.guarded import GuardedProcess
from rb_core.ports import Bootstrap
from rb_ray import _compat
from rb_ray.nodes.bootstrap import OBJECT_STORE_BYTES, QUIET, bootstrap, token_env
from rb_ray.nodes.member import Member

LOOPBACK = "127.0.0.2"
"""Where a cluster of one's own has its head: Ray takes 127.0.0.1 for the machine's address on its network."""

STARTING_S = 120.0
"""A cluster of one's own is given up when it is not up by then."""

ANSWER_S = 5.0
"""A cluster that is joined must take a connection within this time."""

HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}
"""How a cluster of one's own finds out that a node is dead: within three seconds, where Ray's own settings take 15."""

FAR_HEALTH = {
    "health_check_initial_delay_ms": 5000,
    "health_check_period_ms": 3000,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 4,
}
"""The same where nodes are other machines: a network that stutters for some seconds costs none of them."""

_LOOK_S = 0.05


class RayCluster:
    """A cluster that this process is connected to while anybody holds it.

    A counted context manager: launcher and provider both enter it, and the last one out ends it (its own cluster) or
    disconnects (one that was joined). It can be entered again. In a process that is connected to a cluster already,
    that one is used, and left as it is.

    A cluster of its own has a head of no CPUs, so nothing lands there, talks on loopback addresses alone unless its
    nodes are other machines, demands a token, and ends with this process whatever becomes of it.

    Args:
        address: ``host:port`` of a cluster to join; by default the environment's RAY_ADDRESS, and where that is not set
            either, a cluster is started on this machine.
    """

    def __init__(self, address: str | None = None) -> None:
        self._wanted = address or os.environ.get("RAY_ADDRESS") or None
        if self._wanted == "local":
            self._wanted = None
        self._lock = threading.RLock()
        self._holders = 0
        self._head: GuardedProcess | None = None
        self._connected = False
        self._address = self._here = self._host = ""
        self._environment: dict[str, str | None] = {}
        self._members: dict[str, Member] = {}
        self._ips: Iterator[str] = iter(())
        self._ended = ""
        self._mourners: list[Callable[[str], None]] = []
        self._reach: Callable[[], str] = str

    def __enter__(self) -> Self:
        """Hold it; the first one connects.

        Raises:
            InvalidInput: no cluster answers at the address, it refuses the token, or this process is connected to
                another one.
            LaunchFailure: no cluster could be started on this machine.
        """
        with self._lock:
            if self._holders == 0:
                try:
                    self._open()
                except BaseException:
                    self._close()
                    raise
            self._holders += 1
        return self

    def __exit__(self, *exc: object) -> None:
        """Let go; the last one ends or leaves it."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._close()

    def serve(self, reach: Callable[[], str]) -> None:
        """Have a cluster of one's own where nodes reach it that are other machines. Contacts nothing by itself.

        Args:
            reach: tells the address of this machine at which they do; empty where nodes are parts of it.

        Raises:
            InvalidInput: it has been started elsewhere, or is connected to one that they do not reach.
        """
        with self._lock:
            self._reach = reach
            if self._head is not None and self._host != (reach() or LOOPBACK):
                raise InvalidInput(
                    "cloud.provider",
                    f"has nodes that reach this machine at {reach() or LOOPBACK}, and its Ray cluster was started at "
                    f"{self._host}; have the launcher gather before it is entered, or join a cluster (RAY_ADDRESS)",
                )
            self._check_within_reach()

    @property
    def joins(self) -> str:
        """The address of the cluster that it joins; empty where it starts one."""
        return self._wanted or ""

    @property
    def address(self) -> str:
        """``host:port`` of the cluster's head, while it is held."""
        return self._address

    @property
    def host(self) -> str:
        """The address under which nodes of the cluster reach this process, while it is held; to listen on."""
        return self._host

    @property
    def here(self) -> str:
        """Ray's id of the node that this process is connected to, in hex, while it is held."""
        return self._here

    @property
    def ended(self) -> str:
        """The last lines of a head of our own that has ended although the cluster is held; empty while all is well."""
        return self._ended

    def on_end(self, mourner: Callable[[str], None]) -> None:
        """Have this called, from another thread, with the last lines of a head of our own that ends while it is held.

        Forgotten when the cluster is left.
        """
        with self._lock:
            self._mourners.append(mourner)

    @property
    def members(self) -> Mapping[str, Member]:
        """The joined nodes by the core's names."""
        with self._lock:
            return dict(self._members)

    def member(self, name: str) -> Member:
        """A joined node. Raises KeyError where there is none of that name."""
        with self._lock:
            return self._members[name]

    def admit(self, member: Member) -> None:
        """Take a node in; for the provider of the nodes."""
        with self._lock:
            self._members[member.name] = member

    def dismiss(self, name: str) -> None:
        """Forget a node; of no effect when it is not known."""
        with self._lock:
            self._members.pop(name, None)

    def table(self) -> Sequence[Mapping[str, Any]]:
        """Ray's table of all nodes, dead ones included, while it is held.

        Raises:
            OSError: its head does not answer.
        """
        # Where the head is gone, Ray waits a minute and then ends this process.
        socket.create_connection(_pair(self._address), ANSWER_S).close()
        found: list[dict[str, Any]] = ray.nodes()
        return found

    def bootstrap(self, run: str, node: str, instance_type: InstanceType) -> Bootstrap:
        """What a node runs to join, while the cluster is held."""
        return bootstrap(
            address=self._address,
            token=_compat.token(),
            run=run,
            node=node,
            instance_type=instance_type,
            ip=next(self._ips) if self._host.startswith("127.") else None,
        )

    def _open(self) -> None:
        self._ended = ""
        if ray.is_initialized():
            self._address = ray.get_runtime_context().gcs_address
            if self._wanted not in (None, "auto", self._address):
                raise InvalidInput(
                    "RAY_ADDRESS",
                    f"names the cluster at {self._wanted}, and this program is connected to the one at "
                    f"{self._address}; call ray.shutdown() first, or leave the address out",
                )
        elif self._wanted is None:
            self._start()
        else:
            self._join(self._wanted)
        self._here = ray.get_runtime_context().get_node_id()
        rows = self.table()
        self._host = next(str(row["NodeManagerAddress"]) for row in rows if row["NodeID"] == self._here)
        self._check_within_reach()
        self._ips = _loopback(taken={str(row["NodeManagerAddress"]) for row in rows}, shared=self._head is None)

    def _check_within_reach(self) -> None:
        """Raise `InvalidInput` where nodes are other machines, and the cluster that is joined is on loopback alone."""
        if self._head is not None or not self._host.startswith("127."):
            return
        here = self._reach()
        if here and not here.startswith("127."):
            raise InvalidInput(
                "RAY_ADDRESS",
                f"names a cluster that listens on {self._host} alone, which nodes on other machines do not reach; "
                f"start its head with `ray start --head --node-ip-address={here}` and a token, then connect to that",
            )

    def _start(self) -> None:
        own = token_env(os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32))
        self._set(own)
        host, health = self._reach() or LOOPBACK, HEALTH
        if not host.startswith("127."):
            health = FAR_HEALTH
        shape = ["--head", "--node-ip-address", host, "--port", "0", "--num-cpus", "0", "--num-gpus", "0"]
        less = ["--include-dashboard=false", "--disable-usage-stats", "--no-monitor"]
        sizes = ["--object-store-memory", str(OBJECT_STORE_BYTES), "--system-config", json.dumps(health)]
        command = [sys.executable, "-m", "rb_ray.nodes.starting", *shape, *less, *sizes]
        over = threading.Event()

        def end(said: str) -> None:
            self._ended = said
            over.set()
            for mourner in tuple(self._mourners):
                mourner(said)

        self._head = head = GuardedProcess(command, {**QUIET, **own}, end)
        for _ in range(round(STARTING_S / _LOOK_S)):
            self._address = _compat.head_address(head.folder)
            if self._address or over.wait(_LOOK_S):
                break
        if not self._address:
            said = self._ended or head.said()
            raise LaunchFailure(f"no Ray cluster could be started on this machine; it said:\n{said}")
        self._connect(self._address, host)

    def _join(self, address: str) -> None:
        if "://" in address:
            raise InvalidInput(
                "RAY_ADDRESS", f"must be the host:port of a cluster's head, without Ray Client, got {address!r}"
            )
        if address != "auto":
            pair = _pair(address)
            try:
                socket.create_connection(pair, ANSWER_S).close()
            except (OSError, OverflowError) as error:
                raise InvalidInput(
                    "RAY_ADDRESS",
                    f"no Ray cluster answers at {address} ({error}); start one there with `ray start --head`, or leave "
                    "the address out to have one on this machine",
                ) from None
        if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
            self._set({"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token")})
        else:
            self._set({})
        with _refusals(address):
            if address != "auto":
                _compat.greet(address)
            self._connect(address, _address_here(address))
        self._address = ray.get_runtime_context().gcs_address

    def _connect(self, address: str, ip: str | None) -> None:
        _compat.connect(address, ip)
        self._connected = True

    def _close(self) -> None:
        if self._connected:
            self._connected = False
            _compat.disconnect()
        if self._head is not None:
            self._head.close()
            self._head = None
        for name, value in self._environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._environment.clear()
        self._mourners.clear()
        self._members.clear()
        self._address = self._here = self._host = ""

    def _set(self, variables: Mapping[str, str]) -> None:
        """Set variables of this process until the cluster is left, and have Ray read them."""
        for name, value in {**QUIET, **variables}.items():
            self._environment[name] = os.environ.get(name)
            os.environ[name] = value
        _compat.reread_token()


@contextmanager
def _refusals(address: str) -> Iterator[None]:
    """Say in our words why a cluster could not be joined."""
    try:
        yield
    except AuthenticationError:
        raise InvalidInput(
            "RAY_AUTH_TOKEN",
            f"is not the token of the Ray cluster at {address}; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or "
            "RAY_AUTH_TOKEN_PATH) as they were when it was started",
        ) from None
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise InvalidInput(
            "RAY_ADDRESS",
            f"no Ray cluster at {address} could be joined from this machine, which must be one of its nodes and "
            f"have the same versions: {error}",
        ) from None


def _pair(address: str) -> tuple[str, int]:
    """Host and port of an address. Raises `InvalidInput`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidInput("RAY_ADDRESS", f"must be the host:port of a cluster's head, got {address!r}")
    return host, int(port)


def _loopback(*, taken: Collection[str], shared: bool) -> Iterator[str]:
    """Loopback addresses that no node has: of a cluster that others may add nodes to, from a random one on."""
    first = secrets.randbelow(1 << 22) + (1 << 16) if shared else 3
    for number in range(first, 1 << 24):
        ip = f"127.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        if ip not in taken and number & 255 not in (0, 255):
            yield ip


def _address_here(address: str) -> str | None:
    """The loopback address of a cluster on this machine; None for any other."""
    return address.rpartition(":")[0] if address.startswith("127.") else None
