"""A command of this machine that leaves no process behind, however it or this program ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rb_core.errors import LaunchFailure

_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[3])
from rb_core.launchers.guardian import main
main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[4]))
"""
_ENDING_S = 10.0
_LINES = 8


class GuardedProcess:
    """A running command with a guardian above it, which ends all that comes of it.

    It runs in a session of its own, so that the terminal's Ctrl-C is this program's alone, and with a folder of its
    own for temporary files (TMPDIR), which goes when it ends.

    Args:
        command: program and arguments.
        env: variables in addition to this process's.
        ended: called once, from another thread, when the command ends by itself, with what it last said.

    Attributes:
        pid: the guardian's.
        folder: the command's folder, with a short path: sockets in it must have names below 108 bytes.

    Raises:
        LaunchFailure: no process could be started.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], ended: Callable[[str], None] | None = None
    ) -> None:
        descriptor, name = tempfile.mkstemp(prefix="guarded-")
        os.unlink(name)
        self._output = os.fdopen(descriptor, "rb")
        self._lock = threading.Lock()
        self._wanted = True
        self.folder = Path(tempfile.mkdtemp(prefix="rb-", dir="/tmp"))
        arguments = (str(os.getpid()), str(self.folder), json.dumps(sys.path), json.dumps(list(command)))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                env={**os.environ, **env, "TMPDIR": str(self.folder)},
                start_new_session=True,
            )
        except OSError as error:
            self._output.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise LaunchFailure(f"{command[0]} could not be started: {error.strerror}") from error
        self.pid = self._process.pid
        self._watch = threading.Thread(target=self._wait, args=(ended,), name=f"guarded-{self.pid}", daemon=True)
        self._watch.start()

    def said(self) -> str:
        """The last lines of its output."""
        with suppress(OSError, ValueError):
            text = os.pread(self._output.fileno(), 1 << 20, 0).decode(errors="replace")
            return "\n".join([line for line in text.splitlines() if line.strip()][-_LINES:])
        return ""

    def is_alive(self) -> bool:
        """Whether the command or anything of it may still run."""
        return self._process.poll() is None

    def end(self) -> None:
        """Begin to end it; returns at once. Idempotent."""
        with self._lock:
            self._wanted = False
        self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End it, and wait until nothing of it is left. Idempotent."""
        self.end()
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        if threading.current_thread() is not self._watch:
            self._watch.join()
        self._output.close()

    def _wait(self, ended: Callable[[str], None] | None) -> None:
        status = self._process.wait()
        with self._lock:
            wanted, self._wanted = self._wanted, False
        if wanted and ended is not None:
            ended(self.said() or f"it ended with status {status}")
