"""A run that takes its time until it is told to hurry, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
from click.testing import CliRunner, Result

from rb_core.eventlog import read_log
from rb_core.events import Event
from rb_plugins.cli import main

TRAIN = """
import threading
from pathlib import Path

HURRY = Path(__file__).with_name("hurry")

def train(config, trial):
    trial.load()
    for _ in trial.iterations():
        if trial.from_iteration > 1 and not HURRY.exists():
            threading.Event().wait(0.02)
        if trial.save_due:
            trial.report(config["x"])
            with trial.save() as folder:
                (folder / "state").write_text("kept")
"""

EXPERIMENT = """
name = "slow"
[train]
target = "train_slow.py:train"
[space]
x = {uniform = [0, 1]}
[experiment]
stages = [{trials = 3, iterations = 2}, {trials = 2, iterations = 4000}, {trials = 1, iterations = 2}]
[profile]
iteration_s = {1 = 1e-9}
[cloud]
instance_types = [{name = "core", slots = 1, usd_per_hour = 0.17}]
max_nodes = 1
billing = {minimum_s = 0}
[run]
launcher = "process"
checkpoint_every_s = 0.2
[objective]
deadline_s = "10m"
"""


class SlowRun:
    """The run, whose second stage takes 160 s unless it is told to hurry.

    Attributes:
        file: the experiment file.
        home: where runs are kept.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.file = folder / "slow.toml"
        self.file.write_text(EXPERIMENT)
        (folder / "train_slow.py").write_text(TRAIN)

    @property
    def directory(self) -> Path:
        (directory,) = (self.home / "runs").iterdir()
        return directory

    @property
    def run(self) -> str:
        return self.directory.name

    @property
    def events(self) -> Sequence[Event]:
        return read_log(self.directory / "events.jsonl").events

    def hurry(self) -> None:
        """From now on iterations take no time."""
        self.file.with_name("hurry").touch()

    def command(self, *arguments: object) -> Result:
        """Let `rb-tune` do something to its end, in this process."""
        return CliRunner().invoke(main, [str(argument) for argument in arguments], env={"RB_HOME": str(self.home)})

    def answer(self, *arguments: object) -> dict:
        """The object that it prints."""
        done = self.command(*arguments, "--json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    def begin(self, *arguments: object, until: str) -> subprocess.Popen[str]:
        """Begin the run, and come back when it has said something."""
        process = subprocess.Popen(
            [sys.executable, "-m", "rb_plugins", *(map(str, arguments or ("run", self.file)))],
            env={**os.environ, "RB_HOME": str(self.home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = ""
        for line in process.stderr:
            said += line
            if until in line:
                return process
        raise AssertionError(f"the run ended before it said {until!r}: {said}")

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for its end: the exit status, and what it still said."""
        with process:
            said = process.stderr.read()
        return process.returncode, said

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Let it end by SIGKILL, and see that all of its processes end."""
        family = psutil.Process(process.pid).children(recursive=True)
        assert family
        process.kill()
        self.end(process)
        _, left = psutil.wait_procs(family, timeout=60)
        assert left == []
