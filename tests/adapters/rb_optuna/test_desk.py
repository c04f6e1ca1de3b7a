"""What the study is asked and told, in which order, and who is called back."""

from __future__ import annotations

import gc
import logging
import math

import cloudpickle
import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState
from rb_optuna._compat import ProgressBar, optimizing
from rb_optuna.desk import Desk, RemoteTraceback, Seat, Wishes
from rb_optuna.heartbeat import Heartbeat
from rb_optuna.messages import End, Finished, Report, SetAttribute, StopStudy, Suggest


class Recorder(optuna.samplers.RandomSampler):
    """A sampler that remembers what it is asked for."""

    def __init__(self):
        super().__init__(seed=0)
        self.calls = []
        self.fails_after = None

    def before_trial(self, study, trial):
        self.calls.append(("before", trial.number))

    def after_trial(self, study, trial, state, values):
        self.calls.append(("after", trial.number, state.name, values, dict(study.trials[trial.number].user_attrs)))
        if self.fails_after is not None:
            raise self.fails_after

    def reseed_rng(self):
        self.calls.append(("reseed",))


@pytest.fixture
def study():
    return optuna.create_study(direction="minimize", sampler=Recorder())


@pytest.fixture
def desk_of(study):
    def desk_of(**wishes):
        return Desk(study, Wishes(**wishes), Heartbeat(study), ProgressBar(False))

    return desk_of


@pytest.fixture
def logged():
    """What `Study.optimize` would log, by level."""

    class Lines(logging.Handler):
        def emit(self, record):
            lines.append((record.levelname, record.getMessage()))

    lines, handler = [], Lines()
    loggers = [logging.getLogger(f"optuna.study.{name}") for name in ("study", "_optimize")]
    for logger in loggers:
        logger.addHandler(handler)
    yield lines
    for logger in loggers:
        logger.removeHandler(handler)


def value(number):
    return Finished(end=End.VALUE, value=number)


def failed(error):
    return Finished(end=End.FAILED, error=error, words=repr(error))


def report(number, step, value, **more):
    return Report(value=value, step=step, iterations=step + 1, **{"stored": False, **more})


# Trials begin


def test_trials_are_asked_for_one_by_one_when_they_begin(study, desk_of):
    desk = desk_of()
    assert study.trials == []
    assert desk.open(4)
    assert desk.open(4)
    assert desk.open(2)
    assert [desk.trial(number).number for number in (4, 2)] == [0, 1]
    assert study.sampler.calls == [("before", 0), ("before", 1)]
    assert desk.begun == 2


def test_with_a_search_space_parameters_are_drawn_when_a_trial_begins(study, desk_of):
    desk = desk_of(search_space={"a": FloatDistribution(0, 1)})
    desk.open(0)
    assert list(study.trials[0].params) == ["a"]


def test_the_generator_is_seeded_anew_once_and_only_where_that_is_wanted(study, desk_of):
    desk_of().open(0)
    assert ("reseed",) not in study.sampler.calls
    desk = desk_of(reseed=True)
    desk.open(0)
    desk.open(1)
    assert study.sampler.calls.count(("reseed",)) == 1


def test_no_trial_begins_once_the_time_is_up_but_the_first_one_does(study, desk_of):
    desk = desk_of(timeout=0.0)
    assert not desk.stopped
    # The time counts from the first trial that is asked for, which comes too late for a timeout of nothing.
    assert not desk.open(0)
    assert desk.stopped
    slow = desk_of(timeout=1000.0)
    assert slow.open(0)
    assert slow.open(1)


def test_enqueued_trials_come_first(study, desk_of):
    study.enqueue_trial({"a": 0.125})
    desk = desk_of()
    desk.open(0)
    answer = desk.answer(0, 0, Suggest(name="a", distribution=FloatDistribution(0, 1)))
    assert (answer.value, answer.error) == (0.125, None)


def test_seats_of_a_run_that_is_resumed_are_taken(study, desk_of):
    trial = study.ask()
    trial.report(0.5, 0)
    desk = desk_of()
    desk.begin_round(seats=[Seat(number=7, trial=trial, values={0: 0.5})])
    assert desk.open(7)
    assert len(study.trials) == 1
    assert desk.reports(7) == {0: 0.5}
    assert desk.facts(7).first_step == 0


def test_each_trial_that_begins_is_marked(study, desk_of):
    marked = []
    desk = desk_of()
    desk.begin_round(mark=lambda seat: marked.append((seat.number, seat.trial.number)))
    desk.open(3)
    desk.open(1)
    assert marked == [(3, 0), (1, 1)]


# Reports


def test_the_first_report_of_a_step_counts(study, desk_of):
    desk = desk_of()
    desk.open(0)
    assert desk.report(0, report(0, 1, 0.5)) == 0.5
    with pytest.warns(UserWarning, match="already reported"):
        assert desk.report(0, report(0, 1, 0.75)) == 0.5
    assert study.trials[0].intermediate_values == {1: 0.5}


def test_what_a_start_reports_again_is_dropped_without_a_word(study, desk_of):
    desk = desk_of()
    desk.open(0)
    desk.report(0, report(0, 0, 0.5))
    desk.start_anew(0)
    assert desk.report(0, report(0, 0, 0.75)) == 0.5
    assert desk.report(0, report(0, 1, 0.25)) == 0.25
    assert study.trials[0].intermediate_values == {0: 0.5, 1: 0.25}


def test_what_the_study_has_already_is_not_reported_to_it(study, desk_of):
    desk = desk_of()
    desk.open(0)
    assert desk.report(0, report(0, 0, 0.5, stored=True)) == 0.5
    assert study.trials[0].intermediate_values == {}


def test_a_report_of_a_trial_that_others_ended_counts_for_nothing(study, desk_of):
    desk = desk_of()
    desk.open(0)
    study.tell(0, state=TrialState.FAIL)
    assert desk.report(0, report(0, 0, 0.5)) is None
    assert desk.is_over(0)
    desk.end(0, value(1.0))
    assert study.trials[0].state is TrialState.FAIL


# How trials end


def test_a_value_is_told_and_said_as_optuna_does(study, desk_of, logged):
    desk = desk_of()
    desk.open(0)
    desk.end(0, value(0.5))
    (line,) = [text for level, text in logged if level == "INFO"]
    assert line.startswith("Trial 0 finished with value: 0.5 and parameters: {}.")
    assert "Best" in line or "best" in line
    assert desk.is_over(0)


@pytest.mark.parametrize("number", [math.inf, -math.inf, 1, np.float32(0.5), np.array(2.0), [0.25], (1.0,), True])
def test_a_feasible_value_completes_a_trial(study, desk_of, number):
    desk = desk_of()
    desk.open(0)
    desk.end(0, value(number))
    trial = study.trials[0]
    assert trial.state is TrialState.COMPLETE
    assert trial.value == float(number[0] if isinstance(number, list | tuple) else number)


@pytest.mark.parametrize(
    "number", [None, math.nan, "many", "5", object(), [1.0, 2.0], [], [None], [math.nan], {"a": 1}]
)
def test_an_infeasible_value_fails_a_trial_and_nothing_else(study, desk_of, logged, number):
    called = []
    desk = desk_of(callbacks=[lambda study, trial: called.append(trial.state)])
    desk.open(0)
    desk.end(0, value(number))
    assert study.trials[0].state is TrialState.FAIL
    assert called == [TrialState.FAIL]
    first, second = [text for level, text in logged if level == "WARNING"]
    assert first.startswith("Trial 0 failed with parameters: {} because of the following error: The ")
    assert second == f"Trial 0 failed with value {number!r}."


@pytest.mark.parametrize("number", [None, math.nan, "m", [1.0, 2.0], [None]])
def test_it_is_said_as_optuna_says_it(study, desk_of, logged, number):
    study.optimize(lambda trial: number, n_trials=1)
    theirs = [text for level, text in logged if level == "WARNING"]
    logged.clear()
    desk = desk_of()
    desk.open(0)
    desk.end(0, value(number))
    ours = [text.replace("Trial 1", "Trial 0") for level, text in logged if level == "WARNING"]
    # Optuna ends a sentence on None with two full stops.
    assert ours == [text.replace("..", ".") for text in theirs]


@pytest.mark.parametrize(
    ("reports", "value"), [({}, None), ({0: 0.5, 3: 0.25}, 0.25), ({0: math.nan}, None), ({0: math.inf}, math.inf)]
)
def test_one_that_pruned_itself_has_its_last_report_for_a_value(study, desk_of, logged, reports, value):
    desk = desk_of()
    desk.open(0)
    for step, score in reports.items():
        desk.report(0, report(0, step, score))
    desk.end(0, Finished(end=End.PRUNED, words="too slow"))
    assert (study.trials[0].state, study.trials[0].value) == (TrialState.PRUNED, value)
    assert ("INFO", "Trial 0 pruned. too slow") in logged


def test_one_that_was_dropped_while_it_was_suspended_is_pruned(study, desk_of):
    called = []
    desk = desk_of(callbacks=[lambda study, trial: called.append(trial.number)])
    desk.open(0)
    desk.drop(0)
    desk.drop(0)
    desk.drop(5)
    assert study.trials[0].state is TrialState.PRUNED
    assert called == [0]


def test_one_that_was_lost_fails_and_says_why(study, desk_of, logged):
    desk = desk_of()
    desk.open(0)
    desk.lose(0, "killed by SIGKILL twice")
    assert study.trials[0].state is TrialState.FAIL
    assert any("killed by SIGKILL twice" in text for _, text in logged)


def test_an_error_fails_the_trial_and_is_raised_as_it_is(study, desk_of, logged):
    called = []
    desk = desk_of(callbacks=[lambda *args: called.append(args)])
    desk.open(0)
    error = ZeroDivisionError("x")
    with pytest.raises(ZeroDivisionError) as caught:
        desk.end(0, failed(error))
    assert caught.value is error
    assert study.trials[0].state is TrialState.FAIL
    assert called == []
    assert [text for level, text in logged if level == "WARNING"] == [
        "Trial 0 failed with parameters: {} because of the following error: ZeroDivisionError('x').",
        "Trial 0 failed with value None.",
    ]


def test_an_error_that_is_caught_calls_back(study, desk_of):
    called = []
    desk = desk_of(catch=(ArithmeticError,), callbacks=[lambda study, trial: called.append(trial.state)])
    desk.open(0)
    desk.end(0, failed(ZeroDivisionError("x")))
    assert called == [TrialState.FAIL]
    desk.open(1)
    with pytest.raises(KeyError):
        desk.end(1, failed(KeyError("x")))


def test_an_error_from_another_process_keeps_its_type_and_shows_its_traceback(desk_of):
    desk = desk_of()
    desk.open(0)
    error = ZeroDivisionError("x")
    finished = Finished(end=End.FAILED, pickled=cloudpickle.dumps(error), words=repr(error), traceback="in line 3")
    with pytest.raises(ZeroDivisionError, match="x") as caught:
        desk.end(0, finished)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in line 3" in str(caught.value.__cause__)


@pytest.mark.parametrize("pickled", [b"", b"broken"])
def test_an_error_that_cannot_come_is_told_in_words(desk_of, pickled):
    desk = desk_of()
    desk.open(0)
    with pytest.raises(RuntimeError, match="Odd"):
        desk.end(0, Finished(end=End.FAILED, pickled=pickled, words="Odd('x')", traceback="t"))


# Order


def test_attributes_are_stored_before_the_study_is_told(study, desk_of):
    desk = desk_of()
    desk.begin_round(attributes=lambda number: {"rubberband:cost": 0.5 + number})
    desk.open(1)
    desk.end(1, value(2.0))
    assert study.sampler.calls[-1] == ("after", 0, "COMPLETE", [2.0], {"rubberband:cost": 1.5})


def test_what_the_sampler_raises_after_a_trial_leaves_it_complete_and_calls_nobody(study, desk_of, logged):
    called = []
    study.sampler.fails_after = ZeroDivisionError("after")
    desk = desk_of(catch=(ZeroDivisionError,), callbacks=[lambda *args: called.append(args)])
    desk.open(0)
    with pytest.raises(ZeroDivisionError, match="after"):
        desk.end(0, value(1.0))
    desk.close(TrialState.FAIL)
    assert study.trials[0].state is TrialState.COMPLETE
    assert len([call for call in study.sampler.calls if call[0] == "after"]) == 1
    assert called == []
    assert any("Trial 0 finished with value: 1.0" in text for _, text in logged)


def test_callbacks_are_called_in_order_with_copies_of_their_own(study, desk_of):
    seen = []

    def first(given, trial):
        seen.append(("first", given is study, trial.state, trial.value))
        trial.user_attrs["spoilt"] = True
        trial.params["spoilt"] = True

    def second(given, trial):
        seen.append(("second", given is study, dict(trial.user_attrs), dict(trial.params)))

    desk = desk_of(callbacks=[first, second])
    desk.open(0)
    desk.end(0, value(1.0))
    assert seen == [("first", True, TrialState.COMPLETE, 1.0), ("second", True, {}, {})]
    assert study.trials[0].user_attrs == {}


def test_a_callback_that_raises_keeps_the_others_from_being_called(study, desk_of):
    called = []

    def angry(study, trial):
        raise KeyError("callback")

    desk = desk_of(catch=(KeyError,), callbacks=[angry, lambda *args: called.append(args)])
    desk.open(0)
    with pytest.raises(KeyError, match="callback"):
        desk.end(0, value(1.0))
    assert called == []
    assert study.trials[0].state is TrialState.COMPLETE


def test_a_callback_can_stop_the_study(study, desk_of):
    desk = desk_of(callbacks=[lambda study, trial: study.stop()])
    with optimizing(study):
        desk.open(0)
        desk.end(0, value(1.0))
        assert desk.stopped
        assert not desk.open(1)
    assert len(study.trials) == 1


def test_garbage_is_collected_once_a_trial_and_before_the_callbacks(desk_of, monkeypatch):
    order = []
    monkeypatch.setattr(gc, "collect", lambda: order.append("collect"))
    for wanted in (True, False):
        desk = desk_of(gc_after_trial=wanted, callbacks=[lambda *args: order.append("callback")])
        desk.open(0)
        desk.end(0, value(1.0))
    assert order == ["collect", "callback", "callback"]


@pytest.mark.parametrize("state", [TrialState.FAIL, TrialState.PRUNED])
def test_at_the_close_trials_that_are_not_over_are_ended_without_a_call(study, desk_of, state):
    called = []
    desk = desk_of(callbacks=[lambda study, trial: called.append(trial.number)])
    for number in range(3):
        desk.open(number)
    desk.end(1, value(1.0))
    desk.close(state)
    assert [trial.state for trial in study.trials] == [state, TrialState.COMPLETE, state]
    assert called == [1]


def test_at_the_close_one_that_cannot_be_ended_does_not_keep_others_from_it(study, desk_of):
    desk = desk_of()
    for number in range(2):
        desk.open(number)
    study.sampler.fails_after = ZeroDivisionError("after")
    desk.close(TrialState.FAIL)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL] * 2


# What ranks ask


@pytest.mark.parametrize("kind", ["set_user_attr", "set_system_attr"])
def test_attributes_are_set(study, desk_of, kind):
    desk = desk_of()
    desk.open(0)
    assert desk.answer(0, 0, SetAttribute(kind=kind, key="k", value=[1])).error is None
    assert getattr(study.trials[0], kind[4:] + "s")["k"] == [1]


def test_an_error_goes_back_to_the_rank_and_one_that_cannot_go_does_so_in_words(study, desk_of):
    class Odd(Exception):
        def __init__(self, one, two):
            super().__init__("odd")

    desk = desk_of()
    desk.open(0)
    for error, kind in ((ZeroDivisionError("x"), ZeroDivisionError), (Odd(1, 2), RuntimeError)):

        def fail(*args, error=error):
            raise error

        study.sampler.sample_independent = fail
        answer = desk.answer(0, 0, Suggest(name="a", distribution=FloatDistribution(0, 1)))
        assert type(answer.error) is kind


def test_stopping_needs_no_answer(study, desk_of):
    desk = desk_of()
    desk.open(0)
    with optimizing(study):
        assert desk.answer(0, 0, StopStudy()) is None
        assert desk.stopped


def test_facts_are_those_of_the_trial(study, desk_of):
    desk = desk_of()
    desk.open(5)
    desk.answer(5, 0, Suggest(name="a", distribution=FloatDistribution(0, 1)))
    desk.report(5, report(5, 2, 0.5))
    desk.report(5, report(5, 4, 0.5))
    facts = desk.facts(5)
    assert (facts.number, facts.params) == (0, study.trials[0].params)
    assert (facts.first_step, facts.last_step) == (2, 4)
    assert facts.directions == tuple(study.directions)
