"""Instances as processes of this machine: each runs its user data in namespaces of its own, where `shutdown` is ours.

The first line of a node's user data halts the machine that it runs on, in a while. So nothing is run before it was
seen, from within the namespaces, that every command that could do so is the script made here; where namespaces cannot
be had, `Machines` refuses to start.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

HALTING = ("shutdown", "poweroff", "halt", "reboot", "telinit", "init", "systemctl")
"""Commands that end a machine."""

_PLACES = ("/sbin", "/usr/sbin", "/bin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")

_HALT = """#!{python}
import subprocess, sys, urllib.request
if sys.argv[1:] == ["--whose"]:
    print("{mark}")
    sys.exit()
if "-c" in sys.argv[1:]:
    sys.exit("a shutdown that is due cannot be cancelled here")
when = next((a for a in sys.argv[1:] if a == "now" or a.lstrip("+").isdigit()), None)
if when is None:
    sys.exit("expected `shutdown -h +MINUTES` or `shutdown -h now`, got " + repr(sys.argv[1:]))
call = "import time, urllib.request; time.sleep({{}}); urllib.request.urlopen('{url}', b'').read()"
wait_s = 0 if when == "now" else int(when) * 60
command = [sys.executable, "-c", call.format(wait_s)]
if wait_s:
    subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
else:
    subprocess.run(command, check=True)
"""

_CELL = """#!/bin/sh
# CELL HALT MARK USERDATA: cover what halts a machine, look that it is covered, and be the machine.
set -eu
for place in {places}; do
  for name in {halting}; do
    if [ -e "$place/$name" ]; then mount --bind "$1" "$place/$name"; fi
  done
done
for place in {places}; do
  for name in {halting}; do
    if [ -e "$place/$name" ] && [ "$("$place/$name" --whose)" != "$2" ]; then exit 97; fi
  done
done
if [ "$(shutdown --whose)" != "$2" ]; then exit 97; fi
# What cloud-init would run at the next boot is not this machine's own.
if [ -d /var/lib/cloud ]; then mount -t tmpfs none /var/lib/cloud; fi
echo covered
if [ -z "$3" ]; then exit 0; fi
/bin/bash "$3" || true
# As a machine's first process: goes on after its user data, and collects whatever ends.
while :; do
  sleep 1 &
  wait
done
"""


class Machines:
    """The processes of instances, by instance id. A context manager: leaving it ends them all.

    Args:
        url: the shim's.
        folder: for their files; short, since sockets lie in it.
        env: variables that all of them have besides.

    Raises:
        RuntimeError: this machine gives no namespaces to run them in.
    """

    def __init__(self, url: str, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._folder = folder
        self._env = dict(env or {})
        self._mark = secrets.token_hex(8)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        # A child is told of the death of the thread that made it, and those of a server come and go.
        self._maker = ThreadPoolExecutor(1, "machines")
        probe = self._begin("probe", None)
        if probe.wait(timeout=30) != 0 or "covered" not in self.said("probe"):
            raise RuntimeError(
                f"instances cannot be run as processes here: {self.said('probe')} (root, or user namespaces, are "
                "needed, so that a node's `shutdown` does not halt this machine)"
            )
        self._running.clear()

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *exc: object) -> None:
        for instance in list(self._running):
            self.end(instance)
        self._maker.shutdown()

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the instances whose processes are there."""
        with self._lock:
            return tuple(name for name, process in self._running.items() if process.poll() is None)

    def begin(self, instance: str, user_data: str) -> None:
        """Start an instance's process: what its user data says, as root of its own namespaces."""
        self._begin(instance, user_data)

    def end(self, instance: str) -> None:
        """End an instance, with all that it has started. Idempotent."""
        with self._lock:
            process = self._running.pop(instance, None)
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            # Its files stay, for who wants to know what it said.

    def said(self, instance: str) -> str:
        """All that the instance's processes have printed."""
        return (self._folder / instance / "console").read_text(encoding="utf-8", errors="replace")

    def _begin(self, instance: str, user_data: str | None) -> subprocess.Popen[bytes]:
        own = self._folder / instance
        home = own / "home"
        home.mkdir(parents=True)
        if user_data is not None:
            (own / "user-data").write_text(user_data, encoding="utf-8")
        halt = own / "halt"
        halt.write_text(
            _HALT.format(python=sys.executable, mark=self._mark, url=f"{self._url}/ctl/shutdown/{instance}"),
            encoding="utf-8",
        )
        halt.chmod(0o755)
        bin_folder = own / "bin"
        bin_folder.mkdir()
        for name in HALTING:
            (bin_folder / name).symlink_to(halt)
        cell = own / "cell"
        cell.write_text(_CELL.format(places=" ".join(_PLACES), halting=" ".join(HALTING)), encoding="utf-8")
        env = {
            "PATH": ":".join([str(bin_folder), *_PLACES]),
            "HOME": str(home),
            "TMPDIR": str(own),
            "LANG": "C.UTF-8",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{self._url}/imds/{instance}",
            "AWS_ENDPOINT_URL": self._url,
            **{name: os.environ[name] for name in ("RB_CI_RUN",) if name in os.environ},
            **self._env,
        }
        command = [
            *("setpriv", "--pdeathsig", "KILL"),
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"),
            *([] if os.geteuid() == 0 else ["--map-root-user"]),
            *("/bin/sh", str(cell), str(halt), self._mark, "" if user_data is None else str(own / "user-data")),
        ]
        if shutil.which("unshare") is None or shutil.which("setpriv") is None:
            raise RuntimeError(
                "instances cannot be run as processes here: unshare and setpriv (util-linux) are missing"
            )
        with (own / "console").open("wb") as console:
            start = partial(
                subprocess.Popen,
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=home,
            )
            process = self._maker.submit(start).result()
        with self._lock:
            self._running[instance] = process
        return process
