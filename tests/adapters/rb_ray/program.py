"""`rb-tune` in a process of its own, and a training function for it that counts through all its starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from rb_core.clock import SystemClock
from rb_core.eventlog import read_log
from rb_core.events import Event


def counting(step_s: float, *, held_at: int = 0, until: Path | None = None) -> str:
    """The text of a training function whose checkpoint is how far it has come, with iterations of a given time.

    Where `until` is given, it goes no further than `held_at` iterations before that file is there.
    """
    return f"""
import threading
from pathlib import Path

until = {str(until) if until else None!r}

def train(config, trial):
    folder = trial.load()
    count = int((folder / "count").read_text()) if folder else 0
    assert count == trial.from_iteration
    for _ in trial.iterations():
        threading.Event().wait({step_s})
        while count == {held_at} and until and not Path(until).exists():
            threading.Event().wait(0.05)
        count += 1
        trial.report(config["x"])
        if trial.save_due:
            with trial.save() as folder:
                (folder / "count").write_text(str(count))
"""


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
        return max(self._home.glob("runs/*/events.jsonl"), key=lambda log: log.stat().st_mtime, default=None)

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
