"""`RubberBandScheduler` called as Ray's own tests call schedulers: no storage, and a runner that is none."""

from __future__ import annotations

import logging
import math
import pickle
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from rb_ray import RubberBandScheduler
from rb_ray.scheduling import results

from rb_core.hardware import Cloud, InstanceType

CONTINUE, PAUSE, STOP = TrialScheduler.CONTINUE, TrialScheduler.PAUSE, TrialScheduler.STOP


class Runner:
    """What Ray's tests of schedulers have in place of a controller."""

    def __init__(self, scheduler, search_alg=None):
        self.scheduler, self.search_alg, self.trials = scheduler, search_alg, []

    def add(self, count):
        added = [Trial("mock", trial_id=f"t{len(self.trials) + n}", stub=True) for n in range(count)]
        for trial in added:
            self.trials.append(trial)
            self.scheduler.on_trial_add(self, trial)
        return added

    def get_trials(self):
        return self.trials

    def get_live_trials(self):
        return [trial for trial in self.trials if not trial.is_finished()]

    def stop_trial(self, trial):
        if trial.status in (Trial.PENDING, Trial.PAUSED):
            self.scheduler.on_trial_remove(self, trial)
        elif trial.status == Trial.RUNNING:
            self.scheduler.on_trial_complete(self, trial, {"score": 0.0, "training_iteration": 1})
        trial.status = Trial.TERMINATED

    def launch(self):
        """Start whatever the scheduler names until it names none."""
        launched = []
        while (trial := self.scheduler.choose_trial_to_run(self)) is not None:
            assert trial.status in (Trial.PENDING, Trial.PAUSED)
            trial.status = Trial.RUNNING
            launched.append(trial)
        return launched

    def report(self, trial, iterations, score):
        """Hand a result in and do what the scheduler answers."""
        result = {"training_iteration": iterations, "score": score}
        answer = self.scheduler.on_trial_result(self, trial, {k: v for k, v in result.items() if v is not None})
        if answer == PAUSE:
            trial.status = Trial.PAUSED
        elif answer == STOP:
            self.stop_trial(trial)
        return answer


def scheduler(**args):
    return RubberBandScheduler(**{"metric": "score", "mode": "max", "max_t": 9, **args})


@pytest.fixture
def runner():
    return Runner(scheduler())


def test_one_in_three_goes_on_after_every_rung(runner):
    trials = runner.add(9)
    assert all(trial.status == Trial.PAUSED for trial in trials)
    assert runner.launch() == trials
    assert [runner.report(trial, 1, float(n)) for n, trial in enumerate(trials)] == [PAUSE] * 9
    assert runner.launch() == [trials[8], trials[7], trials[6]]
    assert [trial.status for trial in trials[:6]] == [Trial.TERMINATED] * 6
    for n in (6, 7, 8):
        assert runner.report(trials[n], 2, 0.0) == CONTINUE
        assert runner.report(trials[n], 3, float(-n)) == PAUSE
    assert runner.launch() == [trials[6]]
    assert runner.report(trials[6], 8, 1.0) == CONTINUE
    assert runner.report(trials[6], 9, 1.0) == STOP
    assert runner.launch() == []
    assert all(trial.is_finished() for trial in trials)


def test_callbacks_alone_decide_nothing(runner):
    trials = runner.add(3)
    for n, trial in enumerate(trials):
        trial.status = Trial.RUNNING
        assert runner.report(trial, 1, float(n)) == PAUSE
    assert not any(trial.is_finished() for trial in trials)
    assert runner.launch() == [trials[2]]


def test_trials_may_be_added_without_a_runner():
    own = scheduler()
    trials = [Trial("mock", trial_id=str(n), stub=True) for n in range(3)]
    for trial in trials:
        own.on_trial_add(None, trial)
    assert own.choose_trial_to_run(Runner(own)) is trials[0]


def test_choosing_again_names_the_same_trial(runner):
    trials = runner.add(3)
    assert [runner.scheduler.choose_trial_to_run(runner) for _ in range(3)] == [trials[0]] * 3


def test_trials_that_come_while_others_run_widen_the_first_rung(runner):
    first = runner.add(1)
    assert runner.launch() == first
    later = runner.add(5)
    assert runner.launch() == later
    for n, trial in enumerate(first + later):
        assert runner.report(trial, 1, float(n)) == PAUSE
    assert runner.launch() == [later[4], later[3]]


def test_a_trial_that_comes_after_the_first_rung_is_not_run(runner, caplog):
    trials = runner.add(3)
    runner.launch()
    for n, trial in enumerate(trials):
        runner.report(trial, 1, float(n))
    runner.launch()
    (late,) = runner.add(1)
    assert late.status == Trial.TERMINATED
    assert "came after the first rung" in caplog.text
    assert runner.scheduler.on_trial_result(runner, late, {"training_iteration": 1, "score": 1.0}) == CONTINUE


def test_results_of_trials_that_were_never_added_change_nothing(runner):
    stranger = Trial("mock", trial_id="stranger", stub=True)
    for own in (runner.scheduler, scheduler()):
        assert own.on_trial_result(runner, stranger, {"training_iteration": 1, "score": 1.0}) == CONTINUE
        own.on_trial_error(runner, stranger)
        own.on_trial_remove(runner, stranger)
        own.on_trial_complete(runner, stranger, {})
        assert own.choose_trial_to_run(runner) is None
        runner.add(1)


def test_a_result_far_beyond_the_rung_counts_at_every_rung_that_it_passes(runner):
    trials = runner.add(9)
    runner.launch()
    assert runner.report(trials[0], 5, 100.0) == PAUSE
    for n in range(1, 9):
        runner.report(trials[n], 1, float(n))
    assert runner.launch() == [trials[8], trials[7]]
    assert trials[0].status == Trial.PAUSED
    for n in (8, 7):
        assert runner.report(trials[n], 3, 200.0 + n) == PAUSE
    assert runner.launch() == [trials[8]]
    assert trials[0].status == Trial.TERMINATED


def test_a_failure_for_good_leaves_the_rung_to_the_others(runner):
    trials = runner.add(3)
    runner.launch()
    for n in (0, 1):
        runner.report(trials[n], 1, float(n))
    assert runner.scheduler.choose_trial_to_run(runner) is None
    runner.scheduler.on_trial_error(runner, trials[2])
    trials[2].status = Trial.ERROR
    assert runner.launch() == [trials[1]]


def test_a_trial_that_is_tried_again_after_its_rung_is_not_started_for_it(runner):
    trials = runner.add(3)
    runner.launch()
    assert runner.report(trials[2], 1, 5.0) == PAUSE
    # It fails while it is saving, as Tune has it: error, pending, added again.
    trials[2].status = Trial.ERROR
    runner.scheduler.on_trial_error(runner, trials[2])
    trials[2].status = Trial.PENDING
    runner.scheduler.on_trial_add(runner, trials[2])
    assert trials[2].status == Trial.PAUSED
    assert runner.launch() == []
    for n in (0, 1):
        runner.report(trials[n], 1, float(n))
    assert runner.launch() == [trials[2]]


def test_a_paused_trial_that_is_stopped_by_others_leaves(runner):
    trials = runner.add(3)
    runner.launch()
    runner.report(trials[2], 1, 5.0)
    runner.stop_trial(trials[2])
    for n in (0, 1):
        runner.report(trials[n], 1, float(n))
    assert runner.launch() == [trials[1]]


def test_nan_ranks_last_and_of_equals_the_first_is_better(runner):
    trials = runner.add(4)
    runner.launch()
    for trial, score in zip(trials, (math.nan, 1.0, 1.0, 1.0), strict=True):
        runner.report(trial, 1, score)
    assert runner.launch() == [trials[1]]


def test_a_rung_of_nothing_but_nan_is_the_end(runner):
    trials = runner.add(4)
    runner.launch()
    for trial in trials:
        runner.report(trial, 1, math.nan)
    assert runner.launch() == []
    assert all(trial.status == Trial.TERMINATED for trial in trials)


@pytest.mark.parametrize("number", [np.float32(3.5), np.int64(3), 3])
def test_scores_and_times_may_be_of_any_kind_of_number(number):
    runner = Runner(scheduler(max_t=4.0, reduction_factor=2.0, time_attr="t"))
    one, other = runner.add(2)
    runner.launch()
    answers = [runner.scheduler.on_trial_result(runner, t, {"t": number, "score": number}) for t in (one, other)]
    assert answers == [PAUSE, PAUSE]


def test_results_without_the_time_are_passed_over_and_warned_of_once(runner, caplog):
    trial, _ = runner.add(2)
    runner.launch()
    for odd in (None, "2", math.nan, [1]):
        assert runner.scheduler.on_trial_result(runner, trial, {"training_iteration": odd, "score": 1.0}) == CONTINUE
    assert caplog.text.count("has no number as `training_iteration`") == 1
    assert runner.report(trial, 1, 1.0) == PAUSE


def test_a_trial_that_never_tells_the_time_does_not_hold_up_the_others(runner, monkeypatch):
    monkeypatch.setattr(results, "MISSES", 5)
    trials = runner.add(3)
    runner.launch()
    for n in (0, 1):
        runner.report(trials[n], 1, float(n))
    answers = [runner.report(trials[2], None, 1.0) for _ in range(5)]
    assert answers == [CONTINUE] * 4 + [STOP]
    assert runner.launch() == [trials[1]]


def test_a_trial_without_a_score_goes_on_for_a_while_and_then_ranks_last(caplog):
    runner = Runner(scheduler(grace_period=3))
    trials = runner.add(3)
    runner.launch()
    assert runner.report(trials[0], 3, None) == CONTINUE
    assert runner.report(trials[0], 4, 9.0) == PAUSE
    assert [runner.report(trials[1], t, None) for t in (3, 4, 5, 6)] == [CONTINUE] * 3 + [PAUSE]
    assert runner.report(trials[2], 3, 1.0) == PAUSE
    assert caplog.text.count("has no number as `score`") == 1
    assert runner.launch() == [trials[0]]


def test_time_that_goes_back_is_warned_of_once_and_repeats_no_rung(runner, caplog):
    trials = runner.add(3)
    runner.launch()
    for n, trial in enumerate(trials):
        runner.report(trial, 1, float(n))
    runner.launch()
    for again in (1, 1, 2):
        assert runner.report(trials[2], again, 0.0) == CONTINUE
    assert caplog.text.count("went back from 1 to 1") == 1


def test_a_time_of_which_several_reports_take_one_unit_has_not_gone_back(caplog):
    runner = Runner(scheduler(time_attr="epoch", grace_period=2))
    trials = runner.add(2)
    runner.launch()
    reports = [{"epoch": epoch, "score": 1.0} for epoch in (0.4, 0.8, 1, 1, 1.5, 2)]
    answers = [runner.scheduler.on_trial_result(runner, trials[0], report) for report in reports]
    assert answers == [CONTINUE] * 5 + [PAUSE]
    assert "went back" not in caplog.text
    for epoch in (1, 0):
        runner.scheduler.on_trial_result(runner, trials[1], {"epoch": epoch, "score": 1.0})
    assert "epoch went back from 1 to 0" in caplog.text


def test_last_trials_may_go_on():
    runner = Runner(scheduler(max_t=2, reduction_factor=2, stop_last_trials=False))
    trials = runner.add(2)
    runner.launch()
    for n, trial in enumerate(trials):
        runner.report(trial, 1, float(n))
    runner.launch()
    assert [runner.report(trials[1], t, 1.0) for t in (2, 3, 50)] == [CONTINUE] * 3
    assert runner.launch() == []
    assert trials[1].status == Trial.RUNNING


def test_a_searcher_that_waits_for_results_gets_them(monkeypatch):
    from rb_ray.scheduling import hosting

    monkeypatch.setattr(hosting, "STALLED_S", -1.0)
    search = SimpleNamespace(is_finished=lambda: False, total_samples=6)
    runner = Runner(scheduler(), search)
    first = runner.add(2)
    assert runner.launch() == first
    for n, trial in enumerate(first):
        assert runner.report(trial, 1, float(n)) == PAUSE
    assert runner.launch() == []
    later = runner.add(4)
    assert runner.launch() == later
    for n, trial in enumerate(later):
        runner.report(trial, 1, 10.0 + n)
    assert runner.launch() == []
    search.is_finished = lambda: True
    assert runner.launch() == [later[3], later[2]]


def test_trials_are_stopped_at_the_deadline_where_that_is_wanted():
    runner = Runner(scheduler(deadline=1e-6, on_deadline="stop"))
    trials = runner.add(3)
    assert runner.launch() == []
    assert all(trial.status == Trial.TERMINATED for trial in trials)


def test_metric_and_mode_come_from_one_place():
    own = RubberBandScheduler(metric="score", mode="max")
    assert not own.set_search_properties("other", None)
    assert not own.set_search_properties(None, "min")
    assert own.set_search_properties(None, None)
    assert own.metric == "score"
    for made in (RubberBandScheduler(), RubberBandScheduler(metric="score"), RubberBandScheduler(mode="max")):
        with pytest.raises(ValueError, match="valid `metric`"):
            made.on_trial_add(None, Trial("mock", stub=True))
    anonymous = RubberBandScheduler()
    assert anonymous.set_search_properties(None, "max")
    anonymous.on_trial_add(None, Trial("mock", stub=True))


def test_tune_s_time_budget_is_the_deadline_where_none_is_given():
    for own, limit_s in ((scheduler(), 90.0), (scheduler(deadline="1h"), 3600.0)):
        own.set_search_properties(None, None, num_samples=3, time_budget_s=timedelta(seconds=90))
        trial = Trial("mock", stub=True)
        own.on_trial_add(None, trial)
        assert pickle.loads(pickle.dumps(own))._terms.deadline_s == limit_s


def test_a_scheduler_serves_one_experiment_after_another():
    own = scheduler(max_t=3)
    for experiment in range(2):
        assert own.set_search_properties(None, None, num_samples=3)
        runner = Runner(own)
        trials = [Trial("mock", trial_id=f"{experiment}-{n}", stub=True) for n in range(3)]
        for trial in trials:
            runner.trials.append(trial)
            own.on_trial_add(runner, trial)
        assert runner.launch() == trials
        for n, trial in enumerate(trials):
            assert runner.report(trial, 1, float(n)) == PAUSE
        assert runner.launch() == [trials[2]]
        assert runner.report(trials[2], 3, 1.0) == STOP


def test_an_experiment_in_the_folder_of_another_one_is_a_new_one(tmp_path):
    for experiment, most in (("a", 3), ("b", 3), ("c", 9)):
        runner = Runner(scheduler(max_t=most))
        trials = [Trial("mock", trial_id=f"{experiment}{n}", stub=True) for n in range(3)]
        for trial in trials:
            trial.storage = SimpleNamespace(experiment_driver_staging_path=str(tmp_path))
            runner.trials.append(trial)
            runner.scheduler.on_trial_add(runner, trial)
        assert runner.launch() == trials
        for n, trial in enumerate(trials):
            runner.report(trial, 1, float(n))
        assert runner.launch() == [trials[2]]


def test_what_is_said_of_the_run(runner):
    assert runner.scheduler.debug_string() == "Using RubberBand: no trial yet"
    trials = runner.add(3)
    runner.launch()
    for n, trial in enumerate(trials):
        runner.report(trial, 1, float(n))
    runner.launch()
    where = "stage 2 of 2, up to 9 training_iteration, training"
    assert runner.scheduler.debug_string() == f"Using RubberBand: {where}: 1 trial(s) in, 1 slot(s) each; 2 stopped"


def test_a_scheduler_forgets_its_experiment_when_it_is_pickled(runner):
    runner.add(2)
    assert pickle.loads(pickle.dumps(runner.scheduler)).debug_string() == "Using RubberBand: no trial yet"


def test_saving_and_restoring_by_hand(runner, tmp_path):
    trials = runner.add(3)
    runner.launch()
    for n, trial in enumerate(trials):
        runner.report(trial, 1, float(n))
    runner.launch()
    runner.scheduler.save(str(tmp_path / "state"))
    after = Runner(scheduler())
    after.scheduler.restore(str(tmp_path / "state"))
    again = after.add(3)
    assert [trial.status for trial in again] == [Trial.TERMINATED, Trial.TERMINATED, Trial.PAUSED]
    assert after.launch() == [again[2]]
    (tmp_path / "state").write_text("{}")
    with pytest.raises(ValueError, match="not written by"):
        after.scheduler.restore(str(tmp_path / "state"))


def test_a_failed_trial_that_the_user_resumes_takes_part_again(runner, tmp_path):
    trials = runner.add(3)
    runner.launch()
    runner.report(trials[0], 1, 1.0)
    runner.scheduler.on_trial_error(runner, trials[2])
    runner.scheduler.save(str(tmp_path / "state"))
    after = Runner(scheduler())
    after.scheduler.restore(str(tmp_path / "state"))
    again = after.add(3)
    assert after.launch() == [again[1], again[2]]
    for n in (1, 2):
        after.report(again[n], 1, 1.0 + n)
    assert after.launch() == [again[2]]


BOXES = Cloud(instance_types=(InstanceType(name="box", slots=1, usd_per_hour=1.0),))
WRONG = {
    "max_t": ({"max_t": 0}, "`max_t` must be a positive integer"),
    "grace": ({"max_t": 3, "grace_period": 4}, r"`grace_period` must not exceed `max_t` \(3\)"),
    "factor": ({"reduction_factor": 1}, "`reduction_factor` must be an integer of at least 2"),
    "fraction": ({"reduction_factor": 2.5}, "`reduction_factor`"),
    "mode": ({"mode": "most"}, "`mode` must be 'min' or 'max'"),
    "both": ({"deadline": 1, "budget_usd": 1}, "not both"),
    "deadline": ({"deadline": "soon"}, "`deadline` must be seconds"),
    "negative": ({"deadline": -1}, "`deadline` must be a finite number above 0"),
    "on_deadline": ({"on_deadline": "explode"}, "`on_deadline` must be one of"),
    "time_attr": ({"time_attr": ""}, "`time_attr`"),
    "slots": ({"max_slots_per_trial": 0}, "`max_slots_per_trial` must be a positive integer"),
    "nodes": ({"nodes": 4}, "`nodes` must be"),
    "nodes of the cluster": (
        {"nodes": replace(BOXES, provider="ray")},
        "got those of 'ray', which the cluster has already. Leave `nodes` out",
    ),
    "usd": ({"max_usd": 0, "nodes": BOXES}, "`max_usd` must be a finite number above 0"),
    "a budget for nothing": ({"budget_usd": 1}, "`budget_usd` needs `nodes` with a price"),
    "a limit for nothing": ({"max_usd": 1, "deadline": 60}, "`max_usd` needs `nodes` with a price"),
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_are_checked_in_tune_s_words(case):
    args, words = WRONG[case]
    with pytest.raises(ValueError, match=words):
        RubberBandScheduler(**args)


@pytest.fixture(autouse=True)
def _loud(caplog):
    caplog.set_level(logging.WARNING, logger="rb_ray")
