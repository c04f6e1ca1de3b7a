"""The fork-server's own program: imports what ranks need once, then forks a warden for every order.

It has one thread and initialises no GPU, since a fork of a process that had would hang or fail.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import selectors
import socket
import sys
from contextlib import suppress

from rb_core.errors import FailureKind, InvalidInput
from rb_core.launchers import linux
from rb_core.launchers.order import Ended, Failure, Order, Preparation, Prepared
from rb_core.launchers.warden import guard
from rb_core.oneline import last_line
from rb_core.target import Target, TrainingFunction
from rb_core.training.frames import receive_frame, receive_frame_with_descriptors, send_frame
from rb_core.training.randomness import capture, from_bytes, to_bytes


def main(control_descriptor: int, parent: int) -> None:
    """Prepare, answer, and serve until the launching program is gone.

    Args:
        control_descriptor: socket to the launching program.
        parent: its pid.
    """
    control = socket.socket(fileno=control_descriptor)
    control.set_inheritable(False)
    parent_alive = os.pidfd_open(parent)
    if os.getppid() != parent:
        return
    linux.adopt_orphans()
    preparation: Preparation = pickle.loads(receive_frame(control))
    prepared, target = prepare(preparation)
    send_frame(control, pickle.dumps(prepared))
    if prepared.problem is None and not prepared.unfit:
        gc.collect()
        gc.freeze()  # so that collections in the ranks do not touch, and thereby copy, what was preloaded
        try:
            _serve(control, parent_alive, target)
        finally:
            linux.end_family()


def prepare(preparation: Preparation) -> tuple[Prepared, Target | TrainingFunction]:
    """Import the modules, and the target if that is asked for and does no harm."""
    for name in preparation.modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            broken = f"needs {name}, which cannot be imported ({type(error).__name__}: {last_line(str(error))})"
            problem = InvalidInput("run.launcher", f"{broken}; `rb-tune doctor` says how to mend it")
            return Prepared(problem=problem), preparation.target
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)
        # What torch does when it first saves and loads is done once here, not in every rank.
        from_bytes(to_bytes(capture()))
    if not preparation.preload:
        return Prepared(), preparation.target
    before = linux.thread_count()
    try:
        function = preparation.target.load()
    except InvalidInput as error:
        return Prepared(problem=error), preparation.target
    if linux.thread_count() > before:
        return Prepared(unfit="it leaves threads running"), preparation.target
    if linux.holds_cuda():
        return Prepared(unfit="it initialises CUDA"), preparation.target
    return Prepared(), function


def _serve(control: socket.socket, parent_alive: int, target: Target | TrainingFunction) -> None:
    myself = os.pidfd_open(os.getpid())
    wardens: dict[int, int] = {}  # pidfd -> pid
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(parent_alive, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == parent_alive:
                    return
                if key.fd in wardens:
                    selector.unregister(key.fd)
                    status = os.waitpid(wardens.pop(key.fd), 0)[1]
                    os.close(key.fd)
                    if status:
                        linux.end_family(spare=frozenset(wardens.values()))
                    continue
                try:
                    payload, descriptors = receive_frame_with_descriptors(control)
                except (EOFError, OSError):
                    return
                lines = [socket.socket(fileno=descriptor) for descriptor in descriptors]
                try:
                    pid = os.fork()
                except OSError as error:
                    cause = f"no process could be forked: {error}"
                    failure = Failure(rank=0, cause=cause, kind=FailureKind.UNSTARTED)
                    with suppress(OSError):
                        send_frame(lines[0], pickle.dumps(Ended(failure=failure)))
                    pid = -1
                if pid == 0:
                    selector.close()
                    control.close()
                    for descriptor in (parent_alive, *wardens):
                        os.close(descriptor)
                    _become_warden(pickle.loads(payload), lines, myself, target)
                for line in lines:
                    line.close()
                if pid > 0:
                    pidfd = os.pidfd_open(pid)
                    wardens[pidfd] = pid
                    selector.register(pidfd, selectors.EVENT_READ)


def _become_warden(order: Order, lines: list[socket.socket], server: int, target: Target | TrainingFunction) -> None:
    status = 1
    try:
        guard(order, target=target, control=lines[0], lines=lines[1:], server=server)
        status = 0
    finally:
        os._exit(status)
