"""Objectives on their way to other processes."""

from __future__ import annotations

import multiprocessing
import socket
import threading

import cloudpickle
import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from rb_optuna.objective import RankObjective
from rb_optuna.pickling import sendable


@pytest.fixture
def stored(tmp_path):
    """A study that outlives this process."""
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "journal")))
    return optuna.create_study(storage=storage, study_name="stored")


def test_an_objective_arrives_with_what_it_closes_over():
    factor = 3.0
    target, copies = sendable(lambda trial: factor * trial, "words")
    assert (target.name, copies) == ("words", False)
    arrived = cloudpickle.loads(target.by_value)
    assert isinstance(arrived, RankObjective)
    assert arrived.objective(2.0) == 6.0


def test_an_object_that_can_be_called_will_do():
    class Objective:
        def __init__(self, offset):
            self.offset = offset

        def __call__(self, trial):
            return self.offset

    target, _ = sendable(Objective(0.5), "words")
    assert cloudpickle.loads(target.by_value).objective(None) == 0.5


def ways(study):
    """Ways to take a study along."""

    class Holder:
        def __init__(self):
            self.inner = {"deep": [study]}

        def __call__(self, trial):
            return 1.0

    def default(trial, known=study):
        return 1.0

    return [lambda trial: study.best_value, Holder(), default, study.optimize]


@pytest.mark.parametrize("way", range(4))
def test_a_study_in_memory_among_it_is_noticed(way):
    study = optuna.create_study()
    assert sendable(ways(study)[way], "words")[1] is True


@pytest.mark.parametrize("way", range(4))
def test_a_stored_study_is_no_matter(stored, way):
    assert sendable(ways(stored)[way], "words")[1] is False


def test_a_study_that_is_not_used_is_not_noticed():
    study = optuna.create_study()
    assert study.trials == []
    assert sendable(lambda trial: 1.0, "words")[1] is False


class Refuses:
    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


def deep():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (threading.Lock, "TypeError"),
        (socket.socket, "TypeError"),
        (multiprocessing.Lock, "RuntimeError"),
        (lambda: (number for number in range(3)), "TypeError"),
        (lambda: Refuses(AttributeError("no")), "AttributeError"),
        (lambda: Refuses(ValueError("no")), "ValueError"),
        (deep, "PicklingError"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_a_way_out(make, kind):
    thing = make()
    try:
        with pytest.raises(ValueError, match=rf'cannot be sent .*\({kind}: .*launcher="inline"'):
            sendable(lambda trial: thing, "words")
    finally:
        if hasattr(thing, "close"):
            thing.close()
