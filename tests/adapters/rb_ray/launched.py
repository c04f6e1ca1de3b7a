"""A launcher `ray` with nodes of this machine that have joined it, and starts of trials on them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raynodes import WAIT_S, local, node_type
from rb_ray.launching.launcher import RayLauncher

from rb_core.clock import SystemClock
from rb_core.ports import NodeNews, NodeNotice, Slot, TrialRun
from rb_core.target import Target
from rb_core.testing.launching_contract import a_run, is_running

TRAINED = Path(__file__).parents[2] / "rb_core" / "launchers" / "trained.py"
"""Training functions of the launchers' tests."""


class Joined:
    """An entered launcher and its nodes.

    Attributes:
        launcher: it.
        provider: of its nodes, as the engine has it.
    """

    _runs = itertools.count()

    def __init__(self, launcher: RayLauncher, slots: int = 4) -> None:
        self.launcher = launcher
        self.clock = SystemClock()
        self.inbox = self.clock.inbox()
        self.run = f"launched{next(self._runs)}"
        self._names = itertools.count()
        self._said: list[NodeNotice] = []
        self.provider = launcher.gather(local(self.clock, slots), self.inbox)

    def launch(self, count: int, slots: int = 1) -> list[str]:
        """Launch nodes and wait until all are ready."""
        names = [f"{self.run}-{next(self._names)}" for _ in range(count)]
        self.provider.launch(names, node_type(slots), run=self.run)
        for name in names:
            self.hear(name, NodeNews.READY)
        return names

    def hear(self, node: str, kind: NodeNews) -> NodeNotice:
        """Wait until this is said of a node."""
        limit_s = self.clock.now() + WAIT_S
        while True:
            for said in self._said:
                if (said.node, said.kind) == (node, kind):
                    return said
            notice = self.inbox.get(limit_s)
            assert notice is not None, f"{node} was not {kind} within {WAIT_S:g} s; said so far: {self._said}"
            if isinstance(notice, NodeNotice):
                self._said.append(notice)

    def slots(self, *nodes: str) -> tuple[Slot, ...]:
        """All slots of these nodes."""
        return tuple(slot for node in nodes for slot in self.provider.slots(node))

    def close(self) -> None:
        """Give the nodes back."""
        self.provider.release(self.provider.owned(self.run))
        self.provider.close()


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
