"""The launcher's side of its hosts: made when a node is first used or has joined, ended with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rb_core.errors import LaunchFailure, RubberBandError
from rb_core.target import Target
from rb_ray.launching.host import Host
from rb_ray.launching.luggage import pack

CLOSING_S = 10.0
"""Longest wait for a host to end its processes before Ray ends it."""

_CALLS_AT_A_TIME = 64
_AGAIN_S = 0.5


class RemoteHost:
    """A host on one node, from its making to its end, seen to by a thread.

    Args:
        node_id: Ray's id of the node.
        target: the training function.
        modules: what to import before it.
        folder: what goes along with it; None where the node finds it by its path.
        died: told once, with the reason, when a host that was ready is gone.

    Attributes:
        node_id: Ray's id of the node.
        ready: set when it can start trials or never will.
        problem: why it never will.
        address: the node's, once it is ready.
        remark: for the user; may be empty.
        users: how many trials hold it; kept by `Hosts`.
        retired: whether it is to end with the last of them; kept by `Hosts`.
    """

    def __init__(
        self,
        node_id: str,
        target: Target,
        modules: tuple[str, ...],
        folder: Path | None,
        died: Callable[[RemoteHost, str], None],
    ) -> None:
        self.node_id = node_id
        self.ready = threading.Event()
        self.problem: RubberBandError | None = None
        self.address = self.remark = ""
        self.users = 0
        self.retired = False
        self._target, self._modules, self._folder, self._died = target, modules, folder, died
        self._lock = threading.Lock()
        self._actor: Any = None
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="ray-host", daemon=True)
        self._last: threading.Thread | None = None
        self._thread.start()

    def is_gone(self) -> bool:
        """Whether it can start nothing, now and later."""
        return not self._thread.is_alive()

    def is_over(self) -> bool:
        """Whether nothing calls Ray for it any more."""
        return self.is_gone() and (self._last is None or not self._last.is_alive())

    def call(self, name: str, *arguments: Any) -> Any:
        """Begin a call of the actor, see `Host`; the reference to its result."""
        return getattr(self._actor, name).remote(*arguments)

    def end(self) -> None:
        """End it, with all its processes. Returns at once; idempotent."""
        with self._lock:
            if self._ending:
                return
            self._ending = True
            if self._actor is not None:
                self._last = threading.Thread(target=self._end, name="ray-host-end", daemon=True)
                self._last.start()

    def join(self) -> None:
        """Wait until it has ended, and nothing calls Ray for it any more: a call without a cluster starts one."""
        self._thread.join(2 * CLOSING_S)
        if self._last is not None:
            self._last.join(2 * CLOSING_S)

    def _run(self) -> None:
        try:
            self._make()
        except RubberBandError as error:
            self.problem = error
        except RayError as error:
            self.problem = LaunchFailure(f"nothing can be started on the node: {_line(error)}")
        finally:
            self.ready.set()
        if self.problem is None:
            self._stay()
        else:
            self.end()

    def _make(self) -> None:
        runtime_env = None if self._folder is None else pack(self._folder)
        with self._lock:
            if self._ending:
                raise LaunchFailure("the launcher was left")
            self._actor = (
                ray.remote(Host)
                .options(
                    num_cpus=0,
                    max_concurrency=_CALLS_AT_A_TIME,
                    runtime_env=runtime_env,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(self.node_id, soft=False),
                )
                .remote()
            )
        unpacked = None if self._folder is None else str(self._folder)
        answer = ray.get(self.call("warm", self._target, self._modules, unpacked))
        if isinstance(answer, RubberBandError):
            raise answer
        self.address, self.remark = answer

    def _stay(self) -> None:
        """Until the host is gone; Ray tells, also when its machine is."""
        why = "its host has ended"
        while not self._ending:
            try:
                ray.get(self.call("stay"))
                break
            except ActorUnavailableError:  # Ray does not know yet whether it is gone
                threading.Event().wait(_AGAIN_S)
            except RayError as error:
                why = _line(error)
                break
        if not self._ending:
            self._died(self, why)

    def _end(self) -> None:
        with suppress(RayError):
            ray.wait([self.call("close")], timeout=CLOSING_S)
        with suppress(RayError):
            ray.kill(self._actor)


class Hosts:
    """The hosts of one launcher, at most one a node.

    Args:
        make: makes the host of a node, by Ray's id of it.
    """

    def __init__(self, make: Callable[[str], RemoteHost]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._hosts: dict[str, RemoteHost] = {}
        self._retired: list[RemoteHost] = []

    def welcome(self, node_id: str) -> RemoteHost:
        """The node's host, made if there is none that can start anything."""
        with self._lock:
            return self._at(node_id)

    def borrow(self, node_id: str) -> RemoteHost:
        """The node's host, for a trial; to be given back."""
        with self._lock:
            host = self._at(node_id)
            host.users += 1
            return host

    def give_back(self, host: RemoteHost) -> None:
        """The trial that has borrowed it is over."""
        with self._lock:
            host.users -= 1
            if host.retired and not host.users:
                host.end()

    def retire(self, node_id: str) -> None:
        """The node is to go: end its host, once no trial needs it. Returns at once."""
        with self._lock:
            host = self._hosts.pop(node_id, None)
            if host is not None:
                host.retired = True
                self._retired = [*(h for h in self._retired if not h.is_over()), host]
                if not host.users:
                    host.end()

    def close(self) -> None:
        """End all, and wait until they are gone."""
        with self._lock:
            hosts = [*self._hosts.values(), *self._retired]
            self._hosts.clear()
            self._retired.clear()
        for host in hosts:
            host.end()
        for host in hosts:
            host.join()

    def _at(self, node_id: str) -> RemoteHost:
        host = self._hosts.get(node_id)
        if host is not None and host.is_gone():
            self._retired.append(host)
            host = None
        if host is None:
            host = self._hosts[node_id] = self._make(node_id)
        return host


def _line(error: BaseException) -> str:
    """What Ray says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:500] or type(error).__name__
