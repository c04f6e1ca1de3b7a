"""A whole `rb-tune run` on EC2's shim, whose instances are processes of this machine that really join Ray."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from faulty_ec2 import FaultyEC2, Instance, use
from faulty_ec2.machines import Machines

from rb_core.clock import SystemClock

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
short_grace = true
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
