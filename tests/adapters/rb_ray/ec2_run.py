"""A whole `rb-tune run` on EC2's shim, whose instances are processes of this machine that really join Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from faulty_ec2 import FaultyEC2, Instance, use
from faulty_ec2.machines import Machines

from rb_core.clock import SystemClock
from rb_core.eventlog import read_log
from rb_core.events import Event

DRIVER = "127.0.0.2"
"""Where nodes find the driver; they share this machine's loopback network."""


def cloud_table(cloud: FaultyEC2, *, max_nodes: int) -> str:
    """The part of an experiment file that says where nodes come from."""
    return f"""
[cloud]
provider = "ec2"
region = "{cloud.region}"
instance_types = [{{name = "c5.large", slots = 1, usd_per_hour = 0.085}}]
max_nodes = {max_nodes}
launch_s = 2
init_s = 10
[cloud.settings]
image = "{cloud.image()}"
instance_profile = "{cloud.profile()}"
python = "{sys.executable}"
driver_address = "{DRIVER}"
public_ip = false
volume_gib = 20
lease_s = 60
grace_s = 2
tags = {{"cost-centre" = "42"}}
"""


@contextmanager
def shim(patch: pytest.MonkeyPatch, **settings: Any) -> Iterator[tuple[FaultyEC2, Machines]]:
    """EC2 in real time, with an instance's processes begun when it boots and ended when it ends."""
    cells: list[Machines] = []

    def begin(instance: Instance) -> None:
        cells[0].begin(instance.id, instance.user_data)

    def end(instance: Instance) -> None:
        cells[0].end(instance.id)

    # Short, since Ray's sockets lie in it.
    folder = tempfile.TemporaryDirectory(prefix="rb", dir="/tmp")
    clock = SystemClock()
    with folder as path, FaultyEC2(clock=clock, boot_s=0.5, on_boot=begin, on_end=end, **settings) as cloud:
        use(patch, cloud)
        with Machines(cloud.url, Path(path), {"OMP_NUM_THREADS": "1"}) as machines, ticking(cloud):
            cells.append(machines)
            yield cloud, machines


@contextmanager
def ticking(cloud: FaultyEC2) -> Iterator[None]:
    """Do what is due, also while nobody calls."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.2):
            cloud.tick()

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Program:
    """An `rb-tune` that runs, and is ended with the `with` block; its run's directory is under `home`."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self._home = home
        env = {**os.environ, "RB_HOME": str(home), "OMP_NUM_THREADS": "1"}
        for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            env.pop(name, None)
        command = [sys.executable, "-m", "rb_plugins", *arguments]
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it at once, as nothing that it could know of. Idempotent."""
        self.process.kill()
        self.process.communicate()

    @property
    def log(self) -> Path | None:
        """The newest run's log; None before there is one."""
        return max(self._home.glob("**/events.jsonl"), key=lambda log: log.stat().st_mtime, default=None)

    def events(self) -> tuple[Event, ...]:
        """What that log tells so far."""
        return () if self.log is None else tuple(read_log(self.log).events)

    def until(self, met: Callable[[tuple[Event, ...]], bool], limit_s: float = 240.0) -> tuple[Event, ...]:
        """The events, once they meet a condition; fails when the program ends before."""
        clock = SystemClock()
        end_s, pause = clock.now() + limit_s, threading.Event()
        while not met(self.events()):
            assert self.process.poll() is None, self.process.communicate()[1]
            assert clock.now() < end_s, f"not met in {limit_s:.0f} s: {[type(e).__name__ for e in self.events()]}"
            pause.wait(0.2)
        return self.events()

    def answer(self, limit_s: float = 240.0) -> dict[str, Any]:
        """What it prints with `--json`, when it has ended well."""
        out, said = self.process.communicate(timeout=limit_s)
        assert self.process.returncode == 0, said
        told: dict[str, Any] = json.loads(out)
        return told
