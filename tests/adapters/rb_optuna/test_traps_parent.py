"""Traps that a drop-in for `Study.optimize` can fall into, one by one: those on the side of the study."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
import sqlalchemy
from bench import Meeting, Plain, Resumable, bench, executor, first_time, note, notes, states_of, steps_of
from optuna.distributions import FloatDistribution
from optuna.samplers import BruteForceSampler, GridSampler, RandomSampler, TPESampler
from optuna.storages import InMemoryStorage, RDBStorage
from optuna.study import MaxTrialsCallback
from optuna.trial import FrozenTrial, TrialState
from rb_optuna import RubberBandPruner
from rb_optuna.gate import StageSuspended

NINE = {1: 6, 3: 2, 9: 1}
"""Of nine trials how many end with so many reports, when the rungs lie at 1 and 3 of 9."""


def lengths(study: optuna.Study) -> dict[int, int]:
    return dict(Counter(len(steps) for steps in steps_of(study).values()))


def retrying() -> dict[str, Any]:
    """What has a storage try stale trials again; it was renamed within 4.x."""
    if hasattr(optuna.storages, "RetryHeartbeatStaleTrialCallback"):
        return {"heartbeat_stale_trial_callback": optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=1)}
    return {"failed_trial_callback": optuna.storages.RetryFailedTrialCallback(max_retry=1)}


def sqlite(tmp_path: Path, **options: Any) -> RDBStorage:
    return RDBStorage(f"sqlite:///{tmp_path / 'study.db'}", **options)


class TestBarrier:
    """A blocking pruner within `study.optimize` deadlocks where fewer trials run at a time than a rung waits for."""

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_one_slot_is_enough_for_all_trials_of_a_rung(self, launcher: str) -> None:
        study = optuna.create_study(direction="maximize")
        options = {} if launcher == "inline" else bench(1)
        executor(study, **options).optimize(Plain(), n_trials=9)
        assert lengths(study) == NINE
        assert study.best_trial.number == 8

    def test_n_jobs_says_nothing_about_how_many_trials_meet(self) -> None:
        study = optuna.create_study(direction="maximize")
        executor(study).optimize(Plain(), n_trials=9, n_jobs=2)
        assert lengths(study) == NINE

    def test_an_error_at_the_barrier_leaves_no_thread_that_waits(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            if trial.number == 5:
                raise ZeroDivisionError("at the barrier")
            return Plain()(trial)

        before = threading.active_count()
        study = optuna.create_study()
        with pytest.raises(ZeroDivisionError, match="at the barrier"):
            executor(study).optimize(objective, n_trials=9)
        assert threading.active_count() == before
        assert states_of(study) == ["FAIL"] * 6


class TestSeedAndErrorsOfSeveralJobs:
    """With ``n_jobs > 1`` Optuna seeds the sampler anew for every trial and swallowed the last trials' errors."""

    def test_the_seed_is_kept_with_one_job(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            return trial.suggest_float("x", 0, 1) + trial.suggest_int("y", 0, 99)

        plain, ours = (optuna.create_study(sampler=RandomSampler(seed=3)) for _ in range(2))
        plain.optimize(objective, n_trials=5)
        executor(ours).optimize(objective, n_trials=5)
        assert [trial.params for trial in ours.trials] == [trial.params for trial in plain.trials]

    @pytest.mark.parametrize(("n_jobs", "times"), [(1, 0), (2, 1), (-1, 1)])
    def test_the_sampler_is_seeded_anew_with_several_jobs_alone(self, n_jobs: int, times: int) -> None:
        class Counting(RandomSampler):
            reseeded = 0

            def reseed_rng(self) -> None:
                self.reseeded += 1

        study = optuna.create_study(sampler=Counting())
        executor(study).optimize(Plain(), n_trials=3, n_jobs=n_jobs)
        assert study.sampler.reseeded == times

    def test_an_error_of_the_last_trials_is_raised(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            if trial.number == 3:
                raise ValueError(f"trial {trial.number}")
            return 0.0

        study = optuna.create_study()
        with pytest.raises(ValueError, match="trial") as caught:
            executor(study, **bench(2)).optimize(objective, n_trials=4, n_jobs=2)
        assert type(caught.value) is ValueError
        assert states_of(study)[3] == "FAIL"
        assert "RUNNING" not in states_of(study)


class TestOneThread:
    """What Optuna caches per thread is reset by `ask` and `tell` in that thread alone: TPE then sees one trial."""

    def test_every_call_of_the_sampler_and_the_storage_comes_from_the_thread_of_optimize(self) -> None:
        class Storage(InMemoryStorage):
            def __getattribute__(self, name: str) -> Any:
                if not name.startswith("_"):
                    threads.add(threading.get_ident())
                return super().__getattribute__(name)

        class Sampler(TPESampler):
            def __getattribute__(self, name: str) -> Any:
                threads.add(threading.get_ident())
                return super().__getattribute__(name)

        threads: set[int] = set()

        def objective(trial: optuna.Trial) -> float:
            trial.set_user_attr("key", "value")
            return Plain({}, range(1, 4))(trial) + trial.suggest_float("x", 0, 1)

        study = optuna.create_study(storage=Storage(), sampler=Sampler(seed=0))
        pool = threading.Thread(
            target=lambda: executor(study, max_resource=3, **bench(2)).optimize(objective, n_trials=3)
        )
        threads.clear()
        pool.start()
        ident = pool.ident
        pool.join()
        assert threads == {ident}
        assert states_of(study).count("COMPLETE") == 1

    def test_suggestions_see_every_trial_that_was_told(self) -> None:
        class Sampler(RandomSampler):
            def sample_independent(self, study: Any, trial: FrozenTrial, *args: Any) -> Any:
                told = study._get_trials(deepcopy=False, states=(TrialState.COMPLETE,), use_cache=True)
                seen.append(len(told))
                return super().sample_independent(study, trial, *args)

        seen: list[int] = []
        study = optuna.create_study(sampler=Sampler(seed=0))
        executor(study, **bench(1)).optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=4)
        assert seen == [0, 1, 2, 3]


class TestStop:
    """`study.stop` refuses unless the thread is in Optuna's loop; grids call it from within `tell`."""

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_in_an_objective(self, launcher: str) -> None:
        def objective(trial: optuna.Trial) -> float:
            if trial.number == 1:
                trial.study.stop()
            return float(trial.number)

        study = optuna.create_study()
        executor(study, **({} if launcher == "inline" else bench(1))).optimize(objective, n_trials=9)
        assert states_of(study) == ["COMPLETE"] * 2

    def test_in_a_callback(self) -> None:
        study = optuna.create_study()
        executor(study).optimize(lambda trial: 0.0, n_trials=9, callbacks=[MaxTrialsCallback(3)])
        assert states_of(study) == ["COMPLETE"] * 3

    @pytest.mark.filterwarnings("ignore:BruteForceSampler is experimental")
    @pytest.mark.parametrize(
        ("kind", "launcher"), [(GridSampler, "inline"), (GridSampler, "process"), (BruteForceSampler, "inline")]
    )
    def test_by_a_grid_that_is_exhausted(self, kind: type, launcher: str) -> None:
        sampler = GridSampler({"x": [1, 2, 3], "y": [1, 2]}) if kind is GridSampler else BruteForceSampler()
        study = optuna.create_study(sampler=sampler)
        options = {} if launcher == "inline" else bench(1)
        executor(study, **options).optimize(lambda trial: trial.suggest_int("x", 1, 3) * trial.suggest_int("y", 1, 2))
        assert sorted(tuple(trial.params.values()) for trial in study.trials) == [
            (x, y) for x in (1, 2, 3) for y in (1, 2)
        ]

    def test_by_a_grid_whose_last_trials_are_pruned_at_a_rung(self) -> None:
        study = optuna.create_study(sampler=GridSampler({"x": list(range(9))}))

        def objective(trial: optuna.Trial) -> float:
            trial.suggest_int("x", 0, 8)
            return Plain()(trial)

        executor(study).optimize(objective)
        assert sorted(trial.params["x"] for trial in study.trials) == list(range(9))
        assert lengths(study) == NINE

    def test_outside_it_is_refused_again(self) -> None:
        study = optuna.create_study()
        with pytest.raises(ZeroDivisionError):
            executor(study).optimize(lambda trial: 1 // 0, n_trials=1)
        with pytest.raises(RuntimeError, match=r"Study\.stop"):
            study.stop()


class TestAskLazily:
    """Trials that were asked for up front fail, all of them, when the study is ended early."""

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_an_error_in_the_first_trial_leaves_that_one_alone(self, launcher: str) -> None:
        study = optuna.create_study()
        with pytest.raises(ZeroDivisionError):
            executor(study, **({} if launcher == "inline" else bench(1))).optimize(lambda trial: 1 // 0, n_trials=9)
        assert states_of(study) == ["FAIL"]

    def test_no_trial_begins_before_there_is_a_slot(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            return Plain({}, range(1, 10), tmp_path)(trial)

        class Sampler(RandomSampler):
            def before_trial(self, study: Any, trial: FrozenTrial) -> None:
                note(tmp_path, f"ask {trial.number}")

        study = optuna.create_study(sampler=Sampler())
        executor(study, **bench(1)).optimize(objective, n_trials=3)
        assert notes(tmp_path)[:6] == ["ask 0", "0", "ask 1", "1", "ask 2", "2"]

    def test_a_timeout_leaves_those_that_began(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            threading.Event().wait(0.05)
            return 0.0

        study = optuna.create_study()
        executor(study).optimize(objective, n_trials=9, timeout=0.04)
        assert states_of(study) == ["COMPLETE"]


class TestSeededRaces:
    """Trials that ask for parameters in whatever order they come to it differ from run to run of the same seed."""

    def test_a_search_space_gives_the_same_trials_whoever_asks_first(self, tmp_path: Path) -> None:
        seen = []
        for first in (0, 1):
            meeting = Meeting(tmp_path, f"{first}")

            def objective(trial: optuna.Trial, first: int = first, meeting: Path = meeting.path) -> float:
                if trial.number == 1 - first:
                    os.close(os.open(meeting, os.O_RDONLY))
                x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
                if trial.number == first:
                    os.close(os.open(meeting, os.O_WRONLY))
                return x + y

            space = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
            study = optuna.create_study(sampler=RandomSampler(seed=11))
            executor(study, max_resource=2, reduction_factor=2, search_space=space, **bench(2)).optimize(
                objective, n_trials=2
            )
            seen.append([trial.params for trial in study.trials])
        plain = optuna.create_study(sampler=RandomSampler(seed=11))
        plain.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_float("y", 0, 1), n_trials=2)
        assert seen == [[trial.params for trial in plain.trials]] * 2


class TestCallbacks:
    """They are not called after an error that ends the study, get copies, and run in the caller's thread."""

    def test_not_after_an_error_that_is_not_caught(self) -> None:
        calls: list[int] = []
        study = optuna.create_study()
        with pytest.raises(ZeroDivisionError):
            executor(study).optimize(lambda t: 1 // 0, n_trials=3, callbacks=[lambda s, t: calls.append(t.number)])
        assert calls == []

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_after_every_other_trial_whatever_it_comes_to(self, launcher: str) -> None:
        def objective(trial: optuna.Trial) -> float:
            if trial.number == 1:
                raise KeyError("caught")
            return Plain()(trial)

        def callback(study: optuna.Study, trial: FrozenTrial) -> None:
            calls[trial.number] = (trial.state, threading.get_ident())
            assert study.trials[trial.number].state is trial.state

        calls: dict[int, tuple[TrialState, int]] = {}
        study = optuna.create_study(direction="maximize")
        executor(study, **({} if launcher == "inline" else bench(2))).optimize(
            objective, n_trials=9, catch=KeyError, callbacks=[callback]
        )
        assert len(calls) == 9
        assert calls[1][0] is TrialState.FAIL
        assert {state for state, _ in calls.values()} == {TrialState.FAIL, TrialState.PRUNED, TrialState.COMPLETE}
        assert {thread for _, thread in calls.values()} == {threading.get_ident()}

    def test_each_gets_a_copy_of_its_own(self) -> None:
        def spoil(study: optuna.Study, trial: FrozenTrial) -> None:
            assert "spoilt" not in trial.user_attrs
            trial.user_attrs["spoilt"] = True

        study = optuna.create_study()
        executor(study).optimize(lambda trial: 0.0, n_trials=1, callbacks=[spoil, spoil])
        assert study.trials[0].user_attrs == {}

    def test_an_error_in_one_ends_the_study(self) -> None:
        def callback(study: optuna.Study, trial: FrozenTrial) -> None:
            raise LookupError("in a callback")

        study = optuna.create_study()
        with pytest.raises(LookupError, match="in a callback"):
            executor(study).optimize(lambda trial: 0.0, n_trials=5, catch=LookupError, callbacks=[callback])
        assert states_of(study) == ["COMPLETE"]


class TestPrunerOfTheStudy:
    """A study has a `MedianPruner` that nobody chose; who chose one cannot be told, so none is consulted."""

    @pytest.mark.parametrize("chosen", [None, optuna.pruners.MedianPruner(), RubberBandPruner(max_resource=9)])
    def test_neither_the_default_nor_ours_is_worth_a_warning(
        self, chosen: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        study = optuna.create_study(direction="maximize", pruner=chosen)
        executor(study).optimize(Plain(), n_trials=9)
        assert lengths(study) == NINE
        assert "not consulted" not in caplog.text

    def test_another_is_named_once_and_never_asked(self, caplog: pytest.LogCaptureFixture) -> None:
        class Angry(optuna.pruners.BasePruner):
            def prune(self, study: Any, trial: FrozenTrial) -> bool:
                raise AssertionError("asked")

        study = optuna.create_study(direction="maximize", pruner=Angry())
        runs = executor(study)
        runs.optimize(Plain(), n_trials=9)
        assert lengths(study) == NINE
        runs.optimize(Plain(), n_trials=1)
        named = [record for record in caplog.records if "Angry is not consulted" in record.getMessage()]
        assert [record.levelname for record in named] == ["WARNING"]


class TestSuspendingSignal:
    """What unwinds a suspended objective must pass ``except Exception``, and must never reach plain `optimize`."""

    def test_it_passes_an_objective_that_catches_every_exception(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            try:
                return Resumable(tmp_path)(trial)
            except optuna.TrialPruned:
                raise
            except Exception:
                return -1.0

        assert not issubclass(StageSuspended, Exception)
        study = optuna.create_study(direction="maximize")
        executor(study, **bench(1)).optimize(objective, n_trials=9)
        assert lengths(study) == NINE
        assert study.best_value == 8.0
        assert set(Counter(notes(tmp_path)).values()) == {1}  # so it was suspended, and no step was done twice

    def test_a_resumable_objective_leaves_no_trial_running_under_plain_optimize(self, tmp_path: Path) -> None:
        study = optuna.create_study(direction="maximize", pruner=RubberBandPruner(max_resource=9))
        study.optimize(Resumable(tmp_path), n_trials=9)
        assert set(states_of(study)) <= {"COMPLETE", "PRUNED"}

    def test_another_signal_of_an_objective_is_not_ours_to_take(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            raise SystemExit(3)

        ours, plain = optuna.create_study(), optuna.create_study()
        with pytest.raises(SystemExit):
            plain.optimize(objective, n_trials=2)
        with pytest.raises(SystemExit):
            executor(ours).optimize(objective, n_trials=2)
        assert states_of(ours) == states_of(plain) == ["RUNNING"]


class TestSendingObjectives:
    """A study in memory goes along as a private copy, silently; what holds a lock cannot go at all."""

    def test_a_study_in_memory_that_goes_along_is_warned_of(self) -> None:
        study = optuna.create_study()

        def objective(trial: optuna.Trial) -> float:
            return float(len(study.trials))

        with pytest.warns(UserWarning, match="copy that learns nothing of other trials"):
            executor(study, **bench(1)).optimize(objective, n_trials=1)

    def test_what_cannot_be_sent_is_refused_before_anything_is_asked(self) -> None:
        lock = threading.Lock()

        def objective(trial: optuna.Trial) -> float:
            with lock:
                return 0.0

        study = optuna.create_study()
        with pytest.raises(ValueError, match=r"cannot be sent to other processes.*inline"):
            executor(study, **bench(1)).optimize(objective, n_trials=1)
        assert study.trials == []
        executor(study).optimize(objective, n_trials=1)
        assert states_of(study) == ["COMPLETE"]


class TestSuspendedStates:
    """Optuna has no state for a trial that is paused, and nothing can be stored with one that is over."""

    def test_one_that_waits_is_running_and_nobody_else_is_given_it(self, tmp_path: Path) -> None:
        def callback(study: optuna.Study, trial: FrozenTrial) -> None:
            if not seen:
                seen.extend(states_of(study))
                foreign.append(study.ask().number)

        seen: list[str] = []
        foreign: list[int] = []
        study = optuna.create_study(direction="maximize", storage=sqlite(tmp_path))
        executor(study, **bench(1)).optimize(Resumable(tmp_path), n_trials=9, callbacks=[callback])
        assert Counter(seen) == {"RUNNING": 8, "PRUNED": 1}
        assert foreign == [9]
        assert states_of(study)[9] == "RUNNING"
        assert states_of(study).count("COMPLETE") == 1

    def test_what_a_trial_has_used_is_stored_before_it_is_over(self) -> None:
        study = optuna.create_study(direction="maximize")
        executor(study, **bench(1)).optimize(Plain(), n_trials=9)
        keys = {"rubberband:gpu_seconds", "rubberband:cost", "rubberband:allocation"}
        assert all(keys <= set(trial.user_attrs) for trial in study.trials)
        assert study.trials[8].user_attrs["rubberband:gpu_seconds"] > 0
        assert study.trials[8].user_attrs["rubberband:allocation"] in ([1], [1, 1], [1, 1, 1])


class TestOneHandle:
    """Two handles of a trial do not see each other's reports, and each has the sampler begin the trial once more."""

    @pytest.mark.parametrize("resumable", [True, pytest.param(False, marks=pytest.mark.long)])
    def test_the_sampler_begins_a_trial_once_however_often_it_is_started(self, tmp_path: Path, resumable: bool) -> None:
        class Sampler(RandomSampler):
            def before_trial(self, study: Any, trial: FrozenTrial) -> None:
                begun.append(trial.number)

            def after_trial(self, study: Any, trial: FrozenTrial, *args: Any) -> None:
                ended.append(trial.number)

        begun: list[int] = []
        ended: list[int] = []
        study = optuna.create_study(direction="maximize", sampler=Sampler())
        objective = Resumable(tmp_path) if resumable else Plain({}, range(1, 10), tmp_path)
        executor(study, **bench(1)).optimize(objective, n_trials=9)
        assert begun == list(range(9))
        assert sorted(ended) == list(range(9))
        starts = max(len(trial.user_attrs["rubberband:allocation"]) for trial in study.trials)
        assert starts > 1


class TestReports:
    """A step counts once, the first time; it is an integer, and not a negative one."""

    def test_a_step_that_is_reported_again_after_a_restart_is_dropped_silently(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            again = not first_time(tmp_path, f"{trial.number}")
            if again:
                note(tmp_path, f"again {trial.number}")
            for step in range(1, 10):
                trial.report(-1000.0 if again and step == 1 else float(trial.number), step)
                if trial.should_prune():
                    raise optuna.TrialPruned
            return float(trial.number)

        study = optuna.create_study(direction="maximize")
        executor(study, **bench(1)).optimize(objective, n_trials=9)  # a warning would be an error
        assert any(line.startswith("again") for line in notes(tmp_path))
        assert all(trial.intermediate_values[1] == trial.number for trial in study.trials)
        assert study.best_trial.number == 8

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_a_step_is_truncated_and_twice_the_same_at_once_is_warned_of_as_ever(self, launcher: str) -> None:
        def objective(trial: optuna.Trial) -> float:
            trial.report(1.0, 2.9)  # type: ignore[arg-type]
            trial.report(2.0, 2)
            trial.should_prune()
            return 0.0

        study = optuna.create_study()
        with pytest.warns(UserWarning, match="already reported"):
            executor(study, **({} if launcher == "inline" else bench(1))).optimize(objective, n_trials=1)
        assert study.trials[0].intermediate_values == {2: 1.0}

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_a_negative_step_is_the_objectives_error(self, launcher: str) -> None:
        study = optuna.create_study()
        with pytest.raises(ValueError, match="negative"):
            executor(study, **({} if launcher == "inline" else bench(1))).optimize(Plain({}, [-1]), n_trials=1)
        assert states_of(study) == ["FAIL"]
        assert study.trials[0].intermediate_values == {}


class TestValuesOfPrunedTrials:
    """The value of a pruned trial is its last report; the best trial is among the complete ones alone."""

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_it_is_the_last_report_if_that_is_a_number(self, launcher: str) -> None:
        table = {0: math.nan, 1: math.inf, 2: 7.0}

        def objective(trial: optuna.Trial) -> float:
            if trial.number < 3:
                trial.report(table[trial.number], 1)
            raise optuna.TrialPruned

        study = optuna.create_study()
        executor(study, **({} if launcher == "inline" else bench(1))).optimize(objective, n_trials=4)
        assert [trial.value for trial in study.trials] == [None, math.inf, 7.0, None]
        assert states_of(study) == ["PRUNED"] * 4

    def test_it_is_the_same_of_trials_that_are_dropped_at_a_rung_where_nothing_is_a_number(self) -> None:
        study = optuna.create_study()
        executor(study).optimize(Plain(dict.fromkeys(range(9), math.nan)), n_trials=9)
        assert all(trial.value is None for trial in study.trials)
        assert states_of(study) == ["PRUNED"] * 9

    def test_nothing_that_is_no_number_goes_on_before_something_that_is(self) -> None:
        study = optuna.create_study(direction="maximize")
        executor(study).optimize(Plain({8: math.nan, 7: math.nan, 3: -math.inf}), n_trials=9)
        assert study.best_trial.number == 6
        assert steps_of(study)[8] == steps_of(study)[7] == steps_of(study)[3] == [1]

    def test_there_is_no_best_trial_when_the_winner_fails(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            Plain()(trial)
            raise ArithmeticError("at its end")

        study = optuna.create_study(direction="maximize")
        executor(study).optimize(objective, n_trials=9, catch=ArithmeticError)
        assert Counter(states_of(study)) == {"PRUNED": 8, "FAIL": 1}
        with pytest.raises(ValueError, match="No trials are completed"):
            _ = study.best_trial


class TestRungs:
    """Optuna's pruners look one step late at trials that count from 0 (optuna#5750, #1489)."""

    @pytest.mark.parametrize(("first", "launcher"), [(0, "inline"), (1, "inline"), (0, "process")])
    def test_trials_stop_exactly_at_a_rung_whether_they_count_from_0_or_1(self, first: int, launcher: str) -> None:
        study = optuna.create_study(direction="maximize")
        options = {} if launcher == "inline" else bench(2)
        executor(study, **options).optimize(Plain({}, range(first, first + 9)), n_trials=9)
        assert lengths(study) == NINE
        assert steps_of(study)[8] == list(range(first, first + 9))

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_one_report_may_pass_several_rungs(self, launcher: str) -> None:
        """Of nine trials that report every third step one passes the rungs at 1 and 3, decided by one report."""
        study = optuna.create_study(direction="maximize")
        options = {} if launcher == "inline" else bench(2)
        executor(study, **options).optimize(Plain({}, [3, 6, 9]), n_trials=9)
        assert lengths(study) == {1: 8, 3: 1}
        assert study.best_trial.number == 8

    def test_a_report_beyond_the_last_rung_passes_all(self) -> None:
        study = optuna.create_study(direction="maximize")
        executor(study).optimize(Plain({}, [1000]), n_trials=9)
        assert lengths(study) == {1: 9}
        assert Counter(states_of(study)) == {"PRUNED": 8, "COMPLETE": 1}
        assert study.best_trial.number == 8


KILLED = """
import os, signal, sys
from pathlib import Path
import optuna
from bench import Resumable, bench, executor, first_time

folder, parent = Path(sys.argv[1]), os.getpid()

class Deadly(Resumable):
    def __call__(self, trial):
        if trial.number == 5 and first_time(folder, "killed"):
            (folder / "orphan").write_text(str(os.getpid()))
            os.kill(parent, signal.SIGKILL)
            while True:
                signal.pause()
        return super().__call__(trial)

study = optuna.load_study(study_name="killed", storage=f"sqlite:///{folder / 'study.db'}")
executor(study, **bench(1)).optimize(Deadly(folder), n_trials=9)
"""


def run_and_kill(folder: Path) -> optuna.Study:
    """A study whose process was killed while five of nine trials waited at the first rung, and one had just begun."""
    study = optuna.create_study(study_name="killed", storage=sqlite(folder), direction="maximize")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(folder)], env=environment, capture_output=True, timeout=100
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert states_of(study) == ["RUNNING"] * 6
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int((folder / "orphan").read_text())).wait(timeout=60)  # it does not outlive its parent
    return study


class TestKilledParent:
    """Who waits at a rung has not passed it, and trials of others are nobody else's to take up."""

    def test_its_trials_go_on_and_the_rung_is_decided_as_if_nothing_had_happened(self, tmp_path: Path) -> None:
        """Its trials are told by their numbers: `study.tell` takes no frozen one, as Optuna's FAQ has it."""
        study = run_and_kill(tmp_path)
        foreign = study.ask()
        executor(study, **bench(1)).optimize(Resumable(tmp_path), n_trials=9)
        reports = {number: len(steps) for number, steps in steps_of(study).items() if number != foreign.number}
        assert Counter(reports.values()) == NINE
        assert len(study.trials) == 10
        assert study.trials[foreign.number].state is TrialState.RUNNING
        assert study.best_trial.number == 9
        assert set(Counter(notes(tmp_path)).values()) == {1}  # no step was done twice

    def test_running_trials_of_others_are_left_alone(self, tmp_path: Path) -> None:
        study = optuna.create_study(study_name="shared", storage=sqlite(tmp_path), direction="maximize")
        foreign = study.ask()
        foreign.report(1e9, 1)
        executor(study, **bench(1)).optimize(Plain(), n_trials=3)
        assert study.trials[0].state is TrialState.RUNNING
        assert study.trials[0].intermediate_values == {1: 1e9}
        assert len(study.trials) == 4
        study.tell(foreign, 0.0)


class TestHeartbeat:
    """Only `Study.optimize` beats, and whoever waits too long without is failed by other processes."""

    @pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
    def test_one_that_waits_at_a_rung_is_kept_alive(self, tmp_path: Path) -> None:
        beaten = threading.Event()
        waiting: list[int] = []

        class Storage(RDBStorage):
            def record_heartbeat(self, trial_id: int) -> None:
                super().record_heartbeat(trial_id)
                if trial_id in waiting:
                    beaten.set()

        def objective(trial: optuna.Trial) -> float:
            trial.report(0.0, 1)
            if trial.number == 0:
                waiting.append(trial._trial_id)
            else:
                assert beaten.wait(60)
            return float(trial.should_prune())

        storage = Storage(f"sqlite:///{tmp_path / 'study.db'}", heartbeat_interval=1)
        study = optuna.create_study(storage=storage)
        executor(study, max_resource=2, reduction_factor=2).optimize(objective, n_trials=2)
        assert len(study.trials) == 2
        assert not [thread for thread in threading.enumerate() if "heartbeat" in thread.name]

    @pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
    def test_stale_trials_are_failed_and_their_retries_run(self, tmp_path: Path) -> None:
        storage = sqlite(tmp_path, heartbeat_interval=60, **retrying())
        study = optuna.create_study(storage=storage)
        with pytest.warns(UserWarning, match="Heartbeat"):
            stale = study.ask()
        storage.record_heartbeat(stale._trial_id)
        with storage.engine.begin() as connection:
            connection.execute(sqlalchemy.text("UPDATE trial_heartbeats SET heartbeat = '2000-01-01 00:00:00'"))
        executor(study).optimize(lambda trial: 0.0, n_trials=1)
        assert states_of(study) == ["FAIL", "COMPLETE"]
        assert study.trials[1].system_attrs["failed_trial"] == 0

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_a_trial_that_another_process_failed_ends_nothing_else(self, tmp_path: Path, launcher: str) -> None:
        """optuna#5470"""

        def fail_the_best_that_waits(study: optuna.Study, trial: FrozenTrial) -> None:
            if trial.number == 0:
                study.tell(8, state=TrialState.FAIL)

        study = optuna.create_study(direction="maximize", storage=sqlite(tmp_path))
        options = {} if launcher == "inline" else bench(1)
        executor(study, **options).optimize(Plain(), n_trials=9, callbacks=[fail_the_best_that_waits])
        assert len(study.trials) == 9
        assert states_of(study)[8] == "FAIL"
        assert set(states_of(study)[:8]) <= {"PRUNED", "COMPLETE"}


class TestNoValue:
    """`tell` turns what is no number into a failed trial, with a warning that is Optuna's alone to give."""

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_it_fails_the_trial_and_ends_nothing(self, launcher: str) -> None:
        values = [None, math.nan, "abc", [1.0, 2.0], 0.0]
        study = optuna.create_study()
        options = {} if launcher == "inline" else bench(1)
        executor(study, **options).optimize(lambda trial: values[trial.number], n_trials=5)
        assert states_of(study) == ["FAIL"] * 4 + ["COMPLETE"]
