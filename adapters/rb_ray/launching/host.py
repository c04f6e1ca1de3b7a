"""The host: one actor on each node, which keeps a fork-server there and starts ranks on order."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import ray.util

from rb_core.errors import LaunchFailure, RubberBandError
from rb_core.launchers.order import Order
from rb_core.launchers.server import ForkServer, warm
from rb_core.target import Target
from rb_ray.launching.lines import HANDSHAKE_S, Listener, Ticket, dial

_CUDA = "CUDA_VISIBLE_DEVICES"


class Host:
    """An actor; its calls run in threads of its process. What goes wrong is returned, so that it arrives as it is."""

    def __init__(self) -> None:
        """Undo what Ray does to the environment of a process that asked for no GPU: slots name their own."""
        found = _variable_of(os.getppid(), _CUDA)
        if found is None:
            os.environ.pop(_CUDA, None)
        else:
            os.environ[_CUDA] = found
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._server: ForkServer | None = None
        self._remark = ""
        self._target: Target | None = None
        self._modules: tuple[str, ...] = ()
        self.address: str = ray.util.get_node_ip_address()
        self._listener = Listener(self.address)

    def warm(self, target: Target, modules: tuple[str, ...], unpacked: str | None) -> tuple[str, str] | RubberBandError:
        """Start the fork-server.

        Args:
            target: the training function.
            modules: what to import before it.
            unpacked: the folder on the launcher's machine whose copy is this process's current one, if any is.

        Returns:
            The address of this node, and a remark for the user or nothing.
        """
        self._target = target if unpacked is None else moved(target, Path(unpacked), Path.cwd())
        self._modules = modules
        try:
            with self._lock:
                self._warm()
        except RubberBandError as error:
            return error
        return self.address, self._remark

    def offer(self, count: int) -> list[Ticket]:
        """Tickets for connections from other hosts to this one."""
        return self._listener.offer(count)

    def start(
        self, order: Order, lines: Sequence[Ticket], dialled: Sequence[Ticket], expected: Sequence[Ticket]
    ) -> RubberBandError | None:
        """Start this node's share of a trial. Returns when the fork-server has been told.

        Args:
            order: what to start.
            lines: to the launcher: the warden's line, then the ranks' channels.
            dialled: to rank 0's host, one for each rank here, where rank 0 is elsewhere.
            expected: from other hosts, one for each rank there, where rank 0 is here.
        """
        try:
            with ExitStack() as ours:
                connections = [ours.enter_context(dial(ticket)) for ticket in (*lines, *dialled)]
                self._listener.wait(expected, HANDSHAKE_S)
                arrived = self._listener.take(expected)
                connections += [ours.enter_context(peer) for peer in arrived if peer is not None]
                if None in arrived:
                    raise LaunchFailure(f"ranks on other nodes did not reach rank 0's node, {self.address}")
                with self._lock:
                    self._warm().order(order, connections)
        except RubberBandError as error:
            return error
        return None

    def stay(self) -> None:
        """Return when the host closes; whoever waits for that learns of its death at once."""
        self._over.wait()

    def close(self) -> None:
        """End every process."""
        self._listener.close()
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None
        self._over.set()

    def _warm(self) -> ForkServer:
        if self._over.is_set() or self._target is None:
            raise LaunchFailure("this host has been closed")
        if self._server is not None and not self._server.is_alive():
            self._server.close()
            self._server = None
        if self._server is None:
            self._server, self._remark = warm(self._target, self._modules, remark=self._remark)
        return self._server


def moved(target: Target, old: Path, new: Path) -> Target:
    """The same training function, with the folder that holds it found elsewhere."""
    file = None if target.file is None else new / target.file.relative_to(old)
    folder = None if target.folder is None else new / target.folder.relative_to(old)
    return dataclasses.replace(target, file=file, folder=folder)


def _variable_of(pid: int, name: str) -> str | None:
    """A variable that a process was started with; None where it had none or cannot be read."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    start = f"{name}=".encode()
    return next((v[len(start) :].decode(errors="replace") for v in variables if v.startswith(start)), None)
