"""A machine of any number of slots, and objectives that can be sent to it, for the tests of traps and threads."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
from rb_optuna import RubberBandExecutor, session

from rb_core.hardware import Billing, Cloud, InstanceType
from rb_core.providers.local import LocalProvider
from rb_plugins import Session, hookimpl, make_manager


def bench(devices: Sequence[str] | int = 1, *, slots: int = 1, **options: Any) -> dict[str, Any]:
    """Arguments of an executor that runs processes on so many slots, however many cores this machine has.

    Args:
        devices: the GPUs that it seems to have, or its number of cores.
        slots: of each of its nodes.
        options: further arguments.
    """
    count = devices if isinstance(devices, int) else len(devices)
    cloud = Cloud(
        instance_types=(InstanceType(name="bench", slots=slots, usd_per_hour=0.0),),
        max_nodes=count // slots,
        billing=Billing(minimum_s=0.0),
        provider="bench",
    )

    def rent(*, cloud: Cloud, clock: Any, inbox: Any) -> LocalProvider:
        return LocalProvider(cloud=cloud, clock=clock, inbox=inbox, slots=devices)

    plugin = SimpleNamespace(rubberband_register_providers=hookimpl(lambda: {"bench": rent}))
    manager = make_manager(autoload=False, plugins=[plugin])
    usual = {"launcher": "process", "cloud": cloud, "provider": "bench", "session": Session(manager=manager)}
    return usual | options


def executor(study: optuna.Study, **options: Any) -> RubberBandExecutor:
    """One whose rungs lie at 1 and 3 of 9 steps, inline unless told otherwise."""
    return RubberBandExecutor(study, **{"max_resource": 9, "launcher": "inline"} | options)


def steps_of(study: optuna.Study) -> dict[int, list[int]]:
    """The steps that each trial has reported."""
    return {trial.number: sorted(trial.intermediate_values) for trial in study.trials}


def states_of(study: optuna.Study) -> list[str]:
    """The state of each trial."""
    return [trial.state.name for trial in study.trials]


@dataclass(frozen=True)
class Plain:
    """An ordinary objective: the score of a trial is its number's in a table, at every step.

    Attributes:
        table: the scores; the trial's own number is its score where there is none.
        steps: those that are reported.
        seen: folder that gets an entry for each call, named after the trial's number.
    """

    table: Mapping[int, float] = field(default_factory=dict)
    steps: Sequence[int] = range(1, 10)
    seen: Path | None = None

    def __call__(self, trial: optuna.Trial) -> float:
        if self.seen is not None:
            note(self.seen, f"{trial.number}")
        score = self.table.get(trial.number, float(trial.number))
        for step in self.steps:
            trial.report(score, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return score


@dataclass(frozen=True)
class Resumable:
    """The same with what makes it resumable; it notes each step that it does as ``number:step``."""

    seen: Path
    steps: int = 9

    def __call__(self, trial: optuna.Trial) -> float:
        run = session(trial)
        state = run.load() or {"done": 0}
        for step in range(state["done"], self.steps):
            note(self.seen, f"{trial.number}:{step}")
            state["done"] = step + 1
            run.save(state)
            trial.report(float(trial.number), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return float(trial.number)


def note(folder: Path, text: str) -> None:
    """Add a line to the notes in a folder; whole, whoever writes at the same time."""
    with (folder / "notes").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{text}\n")


def notes(folder: Path) -> list[str]:
    """What was noted in a folder, in order."""
    file = folder / "notes"
    return file.read_text().splitlines() if file.exists() else []


def first_time(folder: Path, name: str) -> bool:
    """Whether nobody has asked this before, in whatever process."""
    try:
        os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Meeting:
    """Two processes that wait for each other: whoever comes first goes on when the other one is there.

    A named pipe: to open one end blocks until the other end is opened.
    """

    def __init__(self, folder: Path, name: str = "meeting") -> None:
        self.path = folder / name
        os.mkfifo(self.path)

    def wait(self) -> None:
        """Until the other one has called `come`."""
        os.close(os.open(self.path, os.O_RDONLY))

    def come(self) -> None:
        """Until the other one has called `wait`."""
        os.close(os.open(self.path, os.O_WRONLY))
