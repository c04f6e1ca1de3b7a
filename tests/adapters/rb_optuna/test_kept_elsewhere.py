"""Checkpoints of an executor's trials in a place of the user's choice: a folder, or a store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
import rb_optuna
from rb_optuna import RubberBandExecutor

from rb_core.errors import InvalidInput
from rb_core.testing import FakeDepot, FolderDepot
from rb_plugins import hookimpl
from rb_plugins.manager import make_manager
from rb_plugins.session import Session


class Objective:
    """Three steps, whose state is saved after each and noted in a file."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def __call__(self, trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        run = rb_optuna.session(trial)
        total = run.load() or 0.0
        for step in run.steps(3):
            total += x
            with self.notes.open("a") as notes:
                notes.write(f"{trial.number} {step}\n")
            run.save(total)
            trial.report(total, step)
            if trial.should_prune():
                raise optuna.TrialPruned()
        return total


def session(tmp_path: Path, make=None) -> Session:
    make = make or (lambda uri: FolderDepot(Path(uri.removeprefix("file://"))))
    plugin = SimpleNamespace(rubberband_register_depots=hookimpl(lambda: {"file": make}))
    return Session(manager=make_manager(autoload=False, plugins=[plugin]), directory=tmp_path / "home")


def executor(tmp_path: Path, checkpoints, **options) -> RubberBandExecutor:
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    options = {"launcher": "process", "session": session(tmp_path), "max_resource": 3, **options}
    return RubberBandExecutor(study, checkpoints=checkpoints, **options)


@pytest.mark.parametrize("stored", [False, True])
def test_trials_go_on_from_there_and_repeat_no_step(tmp_path, stored):
    place = tmp_path / "place"
    executor(tmp_path, f"file://{place}" if stored else place).optimize(Objective(tmp_path / "notes"), n_trials=3)
    steps = [tuple(map(int, line.split())) for line in (tmp_path / "notes").read_text().splitlines()]
    assert sorted(step for _, step in steps) == [0, 0, 0, 1, 2]
    (run,) = (tmp_path / "home" / "runs").iterdir()
    assert not (run / "checkpoints").exists()
    assert list(place.glob(f"{run.name}/trial-*/*"))


def test_a_store_that_cannot_be_used_is_an_error_before_anything_starts(tmp_path):
    depot = FakeDepot()
    depot.failure = "the store is closed"
    with pytest.raises(ValueError, match=r"^`checkpoints`: the store is closed\.$") as caught:
        executor(tmp_path, "file:///x", session=session(tmp_path, lambda uri: depot)).optimize(print, n_trials=3)
    assert not isinstance(caught.value, InvalidInput)
    with pytest.raises(ValueError, match=r"^`checkpoints`: must be a folder, or the address of a store"):
        executor(tmp_path, "moon://x").optimize(print, n_trials=3)


def test_inline_keeps_none(tmp_path):
    with pytest.raises(ValueError, match="The inline launcher keeps no checkpoints: leave out `checkpoints`"):
        executor(tmp_path, tmp_path, launcher="inline")
