"""The guardian's own program: runs one command and ends it, with everything below it, once it is not wanted any more.

That is when it is told to (SIGTERM), when the program that started it is gone, or when the command has ended by
itself. Imports nothing but the standard library, so that it starts in a moment.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
from types import FrameType

from rb_core.launchers import linux


def main(parent: int, folder: str, command: list[str]) -> None:
    """Run the command; end with its exit status, as shells have it, or 0 where it was ended on purpose.

    Args:
        parent: pid of the program that wants it.
        folder: removed at the end.
        command: the command.
    """
    try:
        sys.exit(_guard(parent, command))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        linux.end_family()
        shutil.rmtree(folder, ignore_errors=True)


def _guard(parent: int, command: list[str]) -> int:
    signal.signal(signal.SIGTERM, _leave)
    parent_alive = os.pidfd_open(parent)
    if os.getppid() != parent:
        return 0
    linux.adopt_orphans()
    myself = os.getpid()
    # Should this process be killed, the command is, too.
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=lambda: linux.die_with(myself))
    except OSError as error:
        sys.stderr.write(f"{command[0]} could not be started: {error.strerror}\n")
        return 127
    with selectors.DefaultSelector() as selector:
        selector.register(parent_alive, selectors.EVENT_READ)
        selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ)
        selector.select()
    status = process.poll()
    if status is None:
        return 0
    return status if status >= 0 else 128 - status


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)
