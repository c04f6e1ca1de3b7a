"""The trial that an objective meets in a process of its own, beside Optuna's."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import BaseTrial, TrialState
from rb_optuna._compat import ProgressBar, optimizing
from rb_optuna.desk import Desk, Wishes
from rb_optuna.gate import Gate
from rb_optuna.heartbeat import Heartbeat
from rb_optuna.messages import Attach, Passed
from rb_optuna.proxy import NESTED, ProxyTrial, asked

from rb_core.ports import Slot, TrialRun

ABSTRACT = {
    "4.0": "datetime_start distributions params report set_system_attr set_user_attr should_prune suggest_categorical "
    "suggest_discrete_uniform suggest_float suggest_int suggest_loguniform suggest_uniform system_attrs user_attrs",
    "5.0": "datetime_start distributions params report set_constraint set_user_attr should_prune suggest_categorical "
    "suggest_discrete_uniform suggest_float suggest_int suggest_loguniform suggest_uniform user_attrs",
}
"""What a trial must have, by the first version of Optuna that wants it so; all of 4 and of 5 agree."""


class Wire:
    """A line whose other end is the desk itself."""

    def __init__(self, desk, rank):
        self.desk, self.rank = desk, rank
        self.asked = []

    def send(self, message):
        self.desk.answer(0, self.rank, message)
        self.asked.append(message)

    def ask(self, message):
        self.asked.append(message)
        return self.desk.answer(0, self.rank, message)

    def stop_requested(self):
        return False


@pytest.fixture
def study():
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=3))


@pytest.fixture
def desk(study):
    desk = Desk(study, Wishes(), Heartbeat(study), ProgressBar(False))
    desk.open(0)
    return desk


def proxy(desk, *, rank=0):
    run = TrialRun(
        trial=0,
        stage=0,
        config={},
        slots=(Slot(node="n", index=0), Slot(node="n", index=1)),
        from_iteration=0,
        to_iteration=9,
        max_iterations=9,
        checkpoint=None,
        storage=Path(),
        logs=Path(),
    )
    wire = Wire(desk, rank)
    facts = asked(wire, Attach())
    return ProxyTrial(wire, Gate(wire, run, rank=rank, first_step=None, last_step=None), facts, rank=rank)


@pytest.fixture
def trial(desk):
    return proxy(desk)


def sides(desk):
    """A trial of Optuna's, and the proxy of another one: parameters are drawn alike."""
    other = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=3))
    return other.ask(), proxy(desk)


# The contract of a trial


@pytest.mark.parametrize("version", ABSTRACT)
def test_everything_that_a_trial_must_have_is_there(version):
    assert [name for name in ABSTRACT[version].split() if name not in vars(ProxyTrial)] == []


def test_everything_that_this_version_wants_is_known():
    wanted = ABSTRACT["4.0" if optuna.__version__ < "5" else "5.0"]
    assert BaseTrial.__abstractmethods__ == frozenset(wanted.split())


def test_it_is_a_trial(trial):
    assert isinstance(trial, BaseTrial)
    assert trial.number == 0
    assert trial.datetime_start is not None


# Parameters

SUGGESTIONS = [
    lambda trial: trial.suggest_float("a", 0.0, 1.0),
    lambda trial: trial.suggest_float("a", 1e-4, 1.0, log=True),
    lambda trial: trial.suggest_float("a", 0, 1, step=0.1),
    lambda trial: trial.suggest_float("a", 2.0, 2.0),
    lambda trial: trial.suggest_int("a", 1, 100),
    lambda trial: trial.suggest_int("a", 1, 99, step=7),
    lambda trial: trial.suggest_int("a", 1, 1000, log=True),
    lambda trial: trial.suggest_categorical("a", ["x", None, 2.5, True]),
    lambda trial: [trial.suggest_float("a", 0, 1), trial.suggest_int("b", 0, 9), trial.suggest_float("a", 0, 1)],
]


@pytest.mark.parametrize("suggestion", SUGGESTIONS)
def test_the_same_parameters_are_suggested_as_by_optuna(desk, suggestion):
    theirs, ours = sides(desk)
    assert suggestion(ours) == suggestion(theirs)
    assert ours.params == theirs.params == desk.trial(0).params
    assert ours.distributions == theirs.distributions
    assert list(map(type, ours.params.values())) == list(map(type, theirs.params.values()))


OLD = [
    lambda trial: trial.suggest_uniform("a", 0.0, 1.0),
    lambda trial: trial.suggest_loguniform("a", 1e-4, 1.0),
    lambda trial: trial.suggest_discrete_uniform("a", 0.0, 1.0, 0.1),
]


@pytest.mark.parametrize("suggestion", OLD)
def test_the_old_names_still_suggest(desk, suggestion):
    theirs, ours = sides(desk)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert suggestion(ours) == suggestion(theirs)
    assert ours.distributions == theirs.distributions


WRONG = [
    lambda trial: trial.suggest_float("a", 1.0, 0.0),
    lambda trial: trial.suggest_float("a", 0.0, 1.0, log=True),
    lambda trial: trial.suggest_float("a", 0.1, 1.0, step=0.1, log=True),
    lambda trial: trial.suggest_int("a", 5, 1),
    lambda trial: trial.suggest_int("a", 1, 5, step=2, log=True),
    lambda trial: trial.suggest_categorical("a", []),
    lambda trial: (trial.suggest_float("a", 0, 1), trial.suggest_int("a", 0, 1)),
    lambda trial: (trial.suggest_categorical("a", [1, 2]), trial.suggest_categorical("a", [1, 3])),
    lambda trial: trial.report("many", 1),
    lambda trial: trial.report(None, 1),
    lambda trial: trial.report([1.0, 2.0], 1),
    lambda trial: trial.report(1.0, "first"),
    lambda trial: trial.report(1.0, None),
]


@pytest.mark.parametrize("call", WRONG)
def test_what_optuna_refuses_is_refused_in_its_words(desk, call):
    theirs, ours = sides(desk)
    with pytest.raises((TypeError, ValueError)) as expected:
        call(theirs)
    with pytest.raises(type(expected.value)) as caught:
        call(ours)
    assert str(caught.value) == str(expected.value)
    assert type(caught.value) is type(expected.value)


def test_a_negative_step_is_refused(trial):
    with pytest.raises(ValueError, match="step"):
        trial.report(1.0, -1)


def test_what_was_enqueued_is_suggested(study):
    study.enqueue_trial({"a": 0.25, "b": "y"})
    desk = Desk(study, Wishes(), Heartbeat(study), ProgressBar(False))
    desk.open(0)
    trial = proxy(desk)
    assert trial.suggest_float("a", 0, 1) == 0.25
    assert trial.suggest_categorical("b", ["x", "y"]) == "y"


def test_an_error_of_the_sampler_is_the_objective_s(study, desk):
    def fail(*args):
        raise ZeroDivisionError("of the sampler")

    study.sampler.sample_independent = fail
    with pytest.raises(ZeroDivisionError, match="of the sampler"):
        proxy(desk).suggest_float("a", 0, 1)


def test_all_ranks_get_the_same_parameters_exactly(desk):
    ranks = [proxy(desk, rank=rank) for rank in (1, 0, 2)]
    values = {rank.suggest_float("a", 0, 1) for rank in ranks}
    assert len(values) == 1
    assert {rank.suggest_int("b", 0, 10**9) for rank in reversed(ranks)} == {desk.trial(0).params["b"]}


def test_what_a_resumed_trial_had_is_known_to_it_without_asking(desk, trial):
    value = trial.suggest_float("a", 0, 1)
    trial.set_user_attr("key", [1, 2])
    again = proxy(desk)
    assert (again.params, again.user_attrs) == ({"a": value}, {"key": [1, 2]})
    assert again.distributions == {"a": FloatDistribution(0, 1)}


def test_what_is_read_is_a_copy(trial):
    trial.suggest_float("a", 0, 1)
    for name in ("params", "distributions", "user_attrs", "system_attrs"):
        getattr(trial, name)["new"] = 1
        assert "new" not in getattr(trial, name)


# Reports


@pytest.mark.parametrize(
    ("value", "step", "stored"),
    [
        (np.float32(0.5), np.int64(3), (3, 0.5)),
        (1, 2.9, (2, 1.0)),
        ("0.25", 0, (0, 0.25)),
        (math.inf, 1, (1, math.inf)),
        (True, 1, (1, 1.0)),
    ],
)
def test_what_can_be_a_number_is_reported(trial, value, step, stored):
    trial.report(value, step)
    (report,) = [message for message in trial._line.asked if hasattr(message, "stored")]
    assert (report.step, report.value) == stored
    assert type(report.value) is float
    assert type(report.step) is int


def test_other_ranks_are_checked_but_not_heard(study, desk):
    other = proxy(desk, rank=1)
    with pytest.raises(TypeError, match="supposed to be a float"):
        other.report("many", 1)
    other.report(0.5, 1)
    other.set_user_attr("key", 1)
    assert other.user_attrs == {"key": 1}
    assert [type(message) for message in other._line.asked] == [Attach]
    assert study.trials[0].user_attrs == {}


def test_before_a_report_nothing_is_pruned(trial):
    assert trial.should_prune() is False
    assert isinstance(trial._line.asked[-1], Passed)


# Attributes


def test_attributes_are_stored_at_once(study, trial):
    trial.set_user_attr("key", {"a": [1]})
    trial.set_system_attr("rb:key", 3)
    assert study.trials[0].user_attrs == trial.user_attrs == {"key": {"a": [1]}}
    assert study.trials[0].system_attrs["rb:key"] == trial.system_attrs["rb:key"] == 3


if hasattr(BaseTrial, "set_constraint"):  # since Optuna 5.0

    class TestConstraints:
        def test_they_are_stored_once(self, study, trial):
            trial.set_constraint("c", 1)
            assert study.trials[0].constraints == trial.constraints == {"c": 1.0}
            with pytest.raises(UserWarning, match="already set"):
                trial.set_constraint("c", 2.0)
            assert study.trials[0].constraints == trial.constraints == {"c": 1.0}

        def test_one_that_is_run_again_sets_them_again_without_a_word(self, study, desk, trial):
            trial.set_constraint("c", 1.0)
            desk.start_anew(0)
            again = proxy(desk)
            assert again.constraints == {"c": 1.0}
            again.set_constraint("c", 2.0)
            again.set_constraint("d", 3.0)
            assert study.trials[0].constraints == again.constraints == {"c": 1.0, "d": 3.0}

        @pytest.mark.parametrize("value", ["many", None, math.nan])
        def test_what_optuna_refuses_is_refused(self, desk, value):
            theirs, ours = sides(desk)
            with pytest.raises((TypeError, ValueError)) as expected:
                theirs.set_constraint("c", value)
            with pytest.raises(type(expected.value)) as caught:
                ours.set_constraint("c", value)
            assert str(caught.value) == str(expected.value)
            assert ours.constraints == {}


def test_a_trial_that_is_over_takes_no_more(study, trial):
    study.tell(0, 1.0)
    with pytest.raises(RuntimeError, match="finished"):
        trial.set_user_attr("key", 1)


# The study


def test_what_an_objective_may_know_of_its_study(study, trial):
    assert trial.study.direction is StudyDirection.MAXIMIZE
    assert trial.study.directions == [StudyDirection.MAXIMIZE]
    assert trial.study.study_name == study.study_name


def test_the_study_can_be_stopped(study, desk, trial):
    with optimizing(study):
        assert not desk.stopped
        trial.study.stop()
        assert desk.stopped
        assert not desk.open(1)


def test_what_stays_with_the_parent_says_how_to_have_it(trial):
    with pytest.raises(AttributeError, match=r'`trial\.study\.best_value`.*launcher="inline"'):
        trial.study.best_value  # noqa: B018
    assert not hasattr(trial.study, "trials")


def test_optimizing_within_is_refused_in_optuna_s_words(study, trial):
    with pytest.raises(RuntimeError) as caught:
        trial.study.optimize(lambda trial: 1.0, n_trials=1)
    assert str(caught.value) == NESTED

    def nested(inner):
        study.optimize(lambda trial: 1.0, n_trials=1)

    with pytest.raises(RuntimeError) as expected:
        study.optimize(nested, n_trials=1)
    assert str(expected.value) == NESTED
    assert study.trials[-1].state is TrialState.FAIL
