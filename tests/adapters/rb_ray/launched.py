"""A launcher `ray` with nodes of this machine that have joined it, and starts of trials on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raynodes import WAIT_S, Heard, local
from rb_ray.launching.launcher import RayLauncher

from rb_core.clock import SystemClock
from rb_core.ports import Slot, TrialRun
from rb_core.target import Target
from rb_core.testing.launching_contract import a_run, is_running

TRAINED = Path(__file__).parents[2] / "rb_core" / "launchers" / "trained.py"
"""Training functions of the launchers' tests."""


class Joined(Heard):
    """An entered launcher and its nodes.

    Attributes:
        launcher: it.
    """

    def __init__(self, launcher: RayLauncher, slots: int = 4) -> None:
        super().__init__()
        self.launcher = launcher
        self.provider = launcher.gather(local(self.clock, slots), self.inbox)

    def slots(self, *nodes: str) -> tuple[Slot, ...]:
        """All slots of these nodes."""
        return tuple(slot for node in nodes for slot in self.provider.slots(node))


@contextmanager
def joined(target: Target, **options) -> Iterator[Joined]:
    """A launcher and nodes, given back at the end."""
    launcher = RayLauncher(target, SystemClock(), **options)
    made = Joined(launcher)
    try:
        with launcher:
            yield made
    finally:
        made.close()


def above(pid: int, generations: int) -> list[int]:
    """The parent of a process, its parent, and so on."""
    found = []
    for _ in range(generations):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def until_gone(*pids: int) -> None:
    """Wait until none of these processes runs."""
    clock = SystemClock()
    limit_s, inbox = clock.now() + WAIT_S, clock.inbox()
    while running := [pid for pid in pids if is_running(pid)]:
        assert clock.now() < limit_s, f"of {pids}, {running} still run"
        inbox.get(clock.now() + 0.05)


def on(slots: tuple[Slot, ...], folder: Path, **named) -> TrialRun:
    """A start of a trial on these slots; see `a_run`."""
    return dataclasses.replace(a_run(folder, ranks=len(slots), **named), slots=slots)
