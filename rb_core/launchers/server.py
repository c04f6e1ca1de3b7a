"""The launching program's side of the fork-server: starts it, hands it orders, ends it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from rb_core.errors import LaunchFailure
from rb_core.launchers.order import Order, Preparation, Prepared
from rb_core.target import Target
from rb_core.training.frames import receive_frame, send_frame

_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[3])
from rb_core.launchers.forkserver import main
main(int(sys.argv[1]), int(sys.argv[2]))
"""
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Lets torch.cuda.is_available() answer without initialising CUDA, which would spoil every fork.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
_CLOSING_S = 10.0


class SlowImport(LaunchFailure):
    """What a fork-server was to import took longer than it was given; its processes have been ended."""


class ForkServer:
    """A running fork-server.

    Args:
        preparation: what it is to import.
        limit_s: how long that may take; None for as long as it takes.

    Attributes:
        prepared: its answer to that.

    Raises:
        LaunchFailure: it could not be started, or ended while it imported the modules.
        SlowImport: the imports took longer than `limit_s`.
    """

    def __init__(self, preparation: Preparation, *, limit_s: float | None = None) -> None:
        descriptor, name = tempfile.mkstemp(prefix="fork-server-")
        os.unlink(name)
        self._output = os.fdopen(descriptor, "rb")
        self._control, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [
                        sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid()), json.dumps(sys.path)
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=self._output,
                    env=os.environ | _ENVIRONMENT,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                self._control.close()
                self._output.close()
                raise LaunchFailure(f"the fork-server could not be started: {error}") from error
        try:
            self._control.settimeout(limit_s)
            send_frame(self._control, pickle.dumps(preparation))
            self.prepared: Prepared = pickle.loads(receive_frame(self._control))
            self._control.settimeout(None)
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)  # nobody has collected it, so the number is still its own
            self.close()
            raise SlowImport(f"{preparation.target.name} was not imported within {limit_s:g} s") from None
        except (OSError, EOFError):
            self._process.wait()
            said = self._said()
            self.close()
            raise LaunchFailure(f"the fork-server ended while it was starting:\n{said}") from None
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether its process still runs."""
        return self._process.poll() is None

    def order(self, order: Order, lines: Sequence[socket.socket]) -> None:
        """Have a trial started. Returns before it is.

        Args:
            order: what to start.
            lines: the warden's socket, then one for each rank; the caller closes its own copies.

        Raises:
            LaunchFailure: the fork-server is gone.
        """
        try:
            send_frame(self._control, pickle.dumps(order), [line.fileno() for line in lines])
        except OSError as error:
            raise LaunchFailure(f"the fork-server is gone ({error}):\n{self._said()}") from error

    def close(self) -> None:
        """End it and everything below it. Idempotent."""
        self._control.close()
        try:
            self._process.wait(_CLOSING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _said(self) -> str:
        with suppress(OSError, ValueError):
            self._output.seek(0)
            return "\n".join(self._output.read().decode(errors="replace").splitlines()[-20:])
        return ""


def try_out(target: Target, *, limit_s: float) -> None:
    """Import the training function as launchers do, in a process that ends with it.

    Args:
        target: the training function.
        limit_s: how long that may take.

    Raises:
        InvalidInput: it cannot be imported or called.
        SlowImport: that took too long to say.
        LaunchFailure: no process could be started, or it ended on import.
    """
    with ForkServer(Preparation(target=target, modules=(), preload=True), limit_s=limit_s) as server:
        if server.prepared.problem is not None:
            raise server.prepared.problem


def warm(target: Target, modules: tuple[str, ...], *, remark: str = "") -> tuple[ForkServer, str]:
    """Start a fork-server that has imported the training function too, if that does no harm.

    Args:
        target: the training function.
        modules: what to import before it.
        remark: that of an earlier call, which has found that it does harm.

    Returns:
        The fork-server, and a remark for the user where every rank has to import the function anew; else empty.

    Raises:
        InvalidInput: the training function cannot be imported or called, or a module cannot be imported.
        LaunchFailure: no process could be started.
    """
    server = ForkServer(Preparation(target=target, modules=modules, preload=not remark))
    if server.prepared.unfit:
        server.close()
        remark = (
            f"{target.name} is imported anew by every process, because on import {server.prepared.unfit}; "
            "trials start faster if it does that inside the training function"
        )
        server = ForkServer(Preparation(target=target, modules=modules, preload=False))
    if server.prepared.problem is not None:
        server.close()
        raise server.prepared.problem
    return server, remark
