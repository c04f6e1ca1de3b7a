"""A program that is killed at any moment, and started again: it goes on with its own trials, and with no others."""

from __future__ import annotations

import os
import select
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import optuna
import parents
import pytest
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState
from parents import Moment, Program

from rb_core.events import RunEnded, RunResumed, TrialSaved

Create = Callable[[str], str]

WINNER, FIRST, STRANGER = 6, 1, 0
"""Numbers of the trial that is never dropped, of the program's first one, and of somebody else's."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> parents.Outcome:
    """What becomes of the trials where nothing happens."""
    study = parents.create(InMemoryStorage())
    folder = tmp_path_factory.mktemp("undisturbed")
    parents.optimize(Program(storage="", folder=str(folder), launcher="inline"), study)
    outcome = parents.summary(study)
    assert outcome[WINNER][0] == TrialState.COMPLETE
    assert outcome[STRANGER][0] == TrialState.RUNNING
    return outcome


@pytest.fixture(scope="module")
def new_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal and an SQLite file that hold the study as it begins."""
    folder = tmp_path_factory.mktemp("new")
    parents.create(parents.connect(str(folder / "journal")))
    parents.create(parents.connect(f"sqlite:///{folder}/sqlite"))
    return folder


@pytest.fixture
def created(new_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Create:
    """Create the study in a storage of that kind."""
    monkeypatch.setenv("RB_HOME", str(tmp_path / "home"))

    def create(kind: str) -> str:
        if kind == "postgres":
            url: str = request.getfixturevalue("postgres_url")
            parents.create(request.getfixturevalue("postgres_storage")())
            return url
        shutil.copy(new_files / kind, tmp_path / kind)
        return str(tmp_path / kind) if kind == "journal" else f"sqlite:///{tmp_path}/{kind}"

    return create


def kill(program: Program) -> None:
    """Run the program until it is killed; nothing of it is left."""
    with parents.started(program) as parent:
        status, said = parent.ended()
        assert status == -signal.SIGKILL, said
        assert parent.left() == []


def saved(program: Program) -> dict[int, int]:
    """The steps that each trial need not do again, by its number in the study."""
    (events,) = parents.run_events()
    return {event.trial + FIRST: event.iterations for event in events if isinstance(event, TrialSaved)}


def go_on(program: Program) -> list[tuple[int, int]]:
    """Start the program again, to its end; the steps that it does."""
    before = len(program.noted())
    with parents.opened(program.storage) as storage:
        parents.optimize(replace(program, moment=None), optuna.load_study(study_name=parents.NAME, storage=storage))
    return program.noted()[before:]


def outcome(program: Program) -> parents.Outcome:
    with parents.opened(program.storage) as storage:
        return parents.summary(optuna.load_study(study_name=parents.NAME, storage=storage))


BEFORE_THE_FIRST_REPORT = Moment(kind="step", what="0", trial=FIRST)
AMID_A_STAGE = Moment(kind="step", what="2", trial=WINNER)
IN_THE_LAST_STAGE = Moment(kind="step", what="5", trial=WINNER)
SAVED = Moment(kind="event", what="TrialSaved")
AT_A_RUNG = Moment(kind="event", what="TrialPaused")
DECIDED = Moment(kind="event", what="StageEnded")
DROPPED = Moment(kind="told", what="PRUNED")
DONE = Moment(kind="told", what="COMPLETE")


# A journal's lock outlives, for half a minute, a process that is killed while it writes; so there the program's first
# process ends at a moment of its own, when it does not.
@pytest.mark.parametrize(
    ("moment", "kind"),
    [
        pytest.param(BEFORE_THE_FIRST_REPORT, "sqlite", id="before-the-first-report-sqlite", marks=pytest.mark.long),
        pytest.param(SAVED, "sqlite", id="saved-sqlite"),
        pytest.param(AT_A_RUNG, "journal", id="at-a-rung-journal", marks=pytest.mark.long),
        pytest.param(DECIDED, "postgres", id="decided-postgres"),
        pytest.param(DROPPED, "journal", id="dropped-journal", marks=pytest.mark.long),
        pytest.param(DONE, "sqlite", id="done-sqlite", marks=pytest.mark.long),
    ],
)
def test_a_killed_program_goes_on_from_its_checkpoints(
    moment: Moment, kind: str, created: Create, tmp_path: Path, undisturbed: parents.Outcome
) -> None:
    program = Program(storage=created(kind), folder=str(tmp_path), moment=moment)
    kill(program)
    kept, first = saved(program), {}
    for trial, step in go_on(program):
        first.setdefault(trial, step)
    assert first == {trial: kept.get(trial, 0) for trial in first}
    assert outcome(program) == undisturbed
    (events,) = parents.run_events()
    assert isinstance(events[-1], RunEnded)
    assert parents.held(events) == set()


def test_unmodified_objectives_of_a_killed_program_are_replayed(
    created: Create, tmp_path: Path, undisturbed: parents.Outcome
) -> None:
    storage = created("postgres")
    program = Program(storage=storage, folder=str(tmp_path), moment=IN_THE_LAST_STAGE, resumable=False)
    kill(program)
    first: dict[int, int] = {}
    for trial, step in go_on(program):
        first.setdefault(trial, step)
    assert first
    assert set(first.values()) == {0}
    assert outcome(program) == undisturbed


@pytest.mark.long
def test_a_program_may_be_killed_again_and_again(created: Create, tmp_path: Path, undisturbed: parents.Outcome) -> None:
    program = Program(storage=created("sqlite"), folder=str(tmp_path), moment=AMID_A_STAGE)
    kill(program)
    kill(replace(program, moment=IN_THE_LAST_STAGE))
    assert go_on(program) == [(WINNER, step) for step in range(3, parents.STEPS)]
    assert outcome(program) == undisturbed
    (events,) = parents.run_events()
    assert sum(isinstance(event, RunResumed) for event in events) == 2


def test_another_living_program_goes_on_with_none_of_its_trials(created: Create, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    stays = Moment(kind="step", what="0", trial=FIRST)
    program = Program(storage=created("postgres"), folder=str(own), moment=stays, signal=0)
    second = replace(program, folder=str(other), moment=None, n_trials=3)
    os.mkfifo(program.bell)
    bell = os.open(program.bell, os.O_RDONLY | os.O_NONBLOCK)
    with parents.started(program) as parent:
        assert select.select([bell], [], [], parents.PATIENCE_S)[0], "the program never came to its first step"
        os.close(bell)
        done = {trial for trial, _ in go_on(second)}
        stored = outcome(program)
        assert len(done) == 3
        assert {stored[trial][0] for trial in done} == {TrialState.COMPLETE, TrialState.PRUNED}
        mine = {trial for trial, _ in program.noted()}
        assert FIRST in mine
        assert not mine & done
        assert {stored[trial][0] for trial in mine} == {TrialState.RUNNING}
        parent.process.kill()
        parent.ended()
        assert parent.left() == []
    theirs = {trial: stored[trial] for trial in done}
    assert not {trial for trial, _ in go_on(program)} & done
    stored = outcome(program)
    assert {trial: stored[trial] for trial in done} == theirs
    assert stored.pop(STRANGER)[0] == TrialState.RUNNING
    assert len(stored) == parents.TRIALS + 3
    assert {state for state, *_ in stored.values()} == {TrialState.COMPLETE, TrialState.PRUNED}
