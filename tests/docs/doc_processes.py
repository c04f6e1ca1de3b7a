"""One shell and one Python for a page: what a block leaves behind, the next one finds."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 240.0
"""A block that takes longer has failed."""

SHELL = """\
exec {answers}>&1 1>>"$0" 2>&1 </dev/null
while IFS= read -r -d '' command <&"$1"; do
  eval "$command"
  printf '%s\\n' "$?" >&"$answers"
done
"""
"""Takes commands, each ended by a NUL, from descriptor $1, and appends what they print to the file $0."""

PYTHON = """\
import json, os, sys, traceback
orders = os.fdopen(int(sys.argv[2]))
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND), 1)
os.dup2(1, 2)
sys.argv, sys.path[0] = [""], ""
def serve(names):
    for line in orders:
        order, status = json.loads(line), 0
        try:
            exec(compile("\\n" * order["above"] + order["text"], order["page"], "exec", dont_inherit=True), names)
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        print(status, file=answers, flush=True)
serve(vars(sys.modules["__main__"]))
"""
"""Takes blocks as lines of JSON; descriptor and file are as for the shell, the other way round as with `python -c`."""


class _Companion:
    """A process that does one thing after another, in a session of its own, until it is closed."""

    def __init__(self, command: list[str], output: Path, folder: Path, variables: Mapping[str, str]) -> None:
        reader, self._orders = os.pipe()
        self._output = output
        output.touch()
        self._process = subprocess.Popen(
            [*command, str(output), str(reader)],
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=(reader,),
            start_new_session=True,
        )
        os.close(reader)

    def _ask(self, order: bytes) -> tuple[int, str]:
        before = self._output.stat().st_size
        with suppress(BrokenPipeError):
            os.write(self._orders, order)
        stream = self._process.stdout
        line = stream.readline() if stream and select.select([stream], [], [], PATIENCE_S)[0] else b""
        with self._output.open("rb") as printed:
            printed.seek(before)
            return int(line) if line else -1, printed.read().decode(errors="replace")

    def close(self) -> None:
        """Let it end; after 20 s, and with all that it left in its session, by force."""
        os.close(self._orders)
        ended = os.pidfd_open(self._process.pid)
        select.select([ended], [], [], 20.0)
        os.close(ended)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


class Shell(_Companion):
    """Bash: directory, variables and functions last from one command to the next."""

    def __init__(self, output: Path, folder: Path, variables: Mapping[str, str]) -> None:
        """Start it in `folder`."""
        super().__init__(["bash", "-c", SHELL], output, folder, variables)

    def run(self, command: str) -> tuple[int, str]:
        """The exit status of a command, and what it printed; -1: the shell has ended, or it takes too long."""
        return self._ask(command.encode() + b"\0")


class Python(_Companion):
    """An interpreter: all blocks share its `__main__`."""

    def __init__(self, output: Path, folder: Path, variables: Mapping[str, str]) -> None:
        """Start it in `folder`."""
        super().__init__([sys.executable, "-c", PYTHON], output, folder, variables)

    def run(self, text: str, page: Path, line: int) -> tuple[int, str]:
        """0 and what was printed, or 1 and that with the traceback; -1 as with a shell.

        Args:
            text: what is run.
            page: where it stands, for tracebacks.
            line: its first line there.
        """
        order = {"text": text, "page": str(page), "above": line - 1}
        return self._ask(json.dumps(order).encode() + b"\n")
