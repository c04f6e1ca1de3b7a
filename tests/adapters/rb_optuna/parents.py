"""Programs that run a study and are interrupted or killed at a moment of the test's choice, and what they leave."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import optuna
import rb_optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from rb_optuna import RubberBandExecutor

from rb_core.eventlog import read_log
from rb_core.events import Event, NodeLost, NodeReleased, NodeRequested
from rb_plugins import hookimpl
from rb_plugins.manager import make_manager
from rb_plugins.rundir import home
from rb_plugins.session import Session

MARK = "RB_TEST_MARK"
"""A variable that a program and all that come from it have in their environment, with a value of its own."""

PATIENCE_S = 30.0
"""How long processes that are on their way out may take."""

TRIALS = 9
XS = tuple(((7 * number) % TRIALS + 1) / 10 for number in range(TRIALS))
"""The parameter of each trial, so that the order of the trials is not that of their values."""

STEPS = 9
"""Of a trial that is never pruned; the rungs are at 1, 3 and 9."""

NAME = "study"

Outcome = dict[int, tuple[TrialState, float | None, dict[str, Any], dict[int, float]]]
"""State, value, parameters and reports of each trial, by its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When something happens to the program.

    Attributes:
        kind: ``step``: a trial's objective is amid a step; ``event``: the log has an event of this class, and nothing
            was made of it yet; ``told``: the study was told how a trial ended, and nobody else.
        what: the step's number, or the name of the event's class, or that of the state.
        trial: number of the trial in the study; any for None.
    """

    kind: str
    what: str
    trial: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the program is to do.

    Attributes:
        storage: of the study, see `connect`.
        folder: for what the objectives note.
        resumable: whether the objective keeps a state.
        moment: when `signal` comes; never for None.
        signal: its number; 0 for none: then `bell` is rung.
        to_group: whether it goes to all processes of the program, as from a terminal, or to the first one alone.
        launcher: of the executor.
        n_trials: of `optimize`.
    """

    storage: str
    folder: str
    resumable: bool = True
    moment: Moment | None = None
    signal: int = 9
    to_group: bool = False
    launcher: str = "process"
    n_trials: int = TRIALS

    @property
    def notes(self) -> Path:
        """Where each step is noted when it begins."""
        return Path(self.folder) / "steps"

    @property
    def bell(self) -> Path:
        """A pipe that is written to at the moment when no signal comes."""
        return Path(self.folder) / "bell"

    def noted(self) -> list[tuple[int, int]]:
        """Trial and step of every step that has begun."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [(int(trial), int(step)) for trial, step in map(str.split, lines)]


def connect(storage: str) -> BaseStorage:
    """Open a storage: the path of a journal, or the URL of a database."""
    if "://" not in storage:
        return JournalStorage(JournalFileBackend(storage))
    return RDBStorage(storage)


@contextmanager
def opened(storage: str) -> Iterator[BaseStorage]:
    """Connect, and leave no connection open."""
    connection = connect(storage)
    try:
        yield connection
    finally:
        if isinstance(connection, RDBStorage):
            connection.remove_session()
            connection.engine.dispose()


def create(storage: BaseStorage) -> Study:
    """A study with a trial that others run, and all others enqueued: whoever asks for them, they are the same."""
    study = optuna.create_study(study_name=NAME, storage=storage, direction="maximize")
    study.ask().report(0.5, step=0)
    for x in XS:
        study.enqueue_trial({"x": x})
    return study


def strike(program: Program, parent: int) -> None:
    """Let the program be hit, or only say that it is the moment."""
    if program.signal == 0:
        with program.bell.open("w") as bell:
            bell.write("now")
    elif program.to_group:
        os.killpg(os.getpgid(parent), program.signal)
    else:
        os.kill(parent, program.signal)


def objective_of(program: Program) -> Callable[[Trial], float]:
    """An objective whose value is a sum over its steps, so that a step done twice, or never, shows."""
    moment, parent, notes = program.moment, os.getpid(), program.notes

    def begin(number: int, step: int) -> None:
        with notes.open("a") as file:
            file.write(f"{number} {step}\n")
        if moment == Moment(kind="step", what=str(step), trial=number):
            strike(program, parent)
            if os.getpid() != parent:
                select.select([], [], [])

    def gain(x: float, step: int) -> float:
        return x * (1.0 + 0.25 * ((step * 5) % 3))

    def resumable(trial: Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        run = rb_optuna.session(trial)
        total = run.load() or 0.0
        for step in run.steps(STEPS):
            begin(trial.number, step)
            total += gain(x, step)
            run.save(total)
            trial.report(total, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return total

    def unmodified(trial: Trial) -> float:
        x, total = trial.suggest_float("x", 0.0, 1.0), 0.0
        for step in range(STEPS):
            begin(trial.number, step)
            total += gain(x, step)
            trial.report(total, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return total

    return resumable if program.resumable else unmodified


@dataclass(frozen=True, slots=True)
class AtEvent:
    """A plugin that strikes when the log has an event."""

    program: Program

    @hookimpl
    def rubberband_event(self, event: Event) -> None:
        """Look at an event."""
        moment = self.program.moment
        if moment is not None and (moment.kind, moment.what) == ("event", type(event).__name__):
            strike(self.program, os.getpid())


def optimize(program: Program, study: Study, **wishes: Any) -> None:
    """Run the study's trials in this process and those that it starts."""

    def told(study: Study, trial: FrozenTrial) -> None:
        moment = program.moment
        if moment is not None and (moment.kind, moment.what) == ("told", trial.state.name):
            strike(program, os.getpid())

    session = Session(manager=make_manager(plugins=[AtEvent(program)]))
    executor = RubberBandExecutor(study, max_resource=STEPS, launcher=program.launcher, session=session)
    executor.optimize(objective_of(program), n_trials=program.n_trials, callbacks=[told], **wishes)


@dataclass(slots=True)
class Parent:
    """A program that runs.

    Attributes:
        process: its first process.
        mark: what all its processes have in their environment.
    """

    process: subprocess.Popen[str]
    mark: str
    began_s: float = field(default_factory=time.monotonic)

    def kin(self) -> list[int]:
        """Processes of the program that are there, the first one included."""
        return [pid for pid in _pids() if f"{MARK}={self.mark}".encode() in _environ(pid)]

    def ended(self) -> tuple[int, str]:
        """Wait for the first process; its exit status, and what it said."""
        said = self.process.communicate(timeout=PATIENCE_S)[0]
        return self.process.returncode, said

    def left(self) -> list[int]:
        """Processes that do not end although the first one has."""
        until_s = time.monotonic() + PATIENCE_S
        return [pid for pid in self.kin() if not _ends(pid, until_s)]


@contextmanager
def started(program: Program) -> Iterator[Parent]:
    """Start a program; nothing of it is left afterwards."""
    mark = secrets.token_hex()
    command = [sys.executable, "-W", "error", __file__, json.dumps(asdict(program))]
    process = subprocess.Popen(
        command,
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    parent = Parent(process, mark)
    try:
        yield parent
    finally:
        for pid in parent.kin():
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        process.communicate()


def run_events(study: str = NAME) -> list[list[Event]]:
    """The logs of all runs of studies of that name, the oldest first."""
    logs = sorted((home() / "runs").glob(f"{study}-*/events.jsonl"), key=lambda log: log.stat().st_ctime_ns)
    return [list(read_log(log).events) for log in logs]


def held(events: list[Event]) -> set[str]:
    """Nodes that were asked for, and never given back or lost."""
    asked = {event.node for event in events if isinstance(event, NodeRequested)}
    return asked - {event.node for event in events if isinstance(event, NodeReleased | NodeLost)}


def summary(study: Study) -> Outcome:
    """What has become of each trial."""
    return {t.number: (t.state, t.value, t.params, t.intermediate_values) for t in study.trials}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _ends(pid: int, until_s: float) -> bool:
    """Wait for a process, whosever child it is, to end."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], max(0.0, until_s - time.monotonic()))[0])
    finally:
        os.close(descriptor)


def main() -> None:
    """Be the program."""
    table = json.loads(sys.argv[1])
    moment = table.pop("moment")
    program = Program(**table, moment=None if moment is None else Moment(**moment))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optimize(program, optuna.load_study(study_name=NAME, storage=connect(program.storage)))


if __name__ == "__main__":
    main()
