"""What people have asked of Optuna, Ray Tune and others in public: each thread is a case here."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
from bench import Meeting, Plain, Resumable, bench, executor, first_time, note, notes, states_of, steps_of
from optuna.samplers import GridSampler
from optuna.trial import FrozenTrial, TrialState

from rb_core.hardware import Latency
from rb_core.profile import ScalingProfile

PROFILE = ScalingProfile(iteration_s={1: Latency(mean=0.01)})


def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'study.db'}"


class TestOrder:
    """Successive halving pruned good trials by the order they came in (optuna#404, #388)."""

    def test_the_survivors_do_not_depend_on_who_reports_first(self, tmp_path: Path) -> None:
        outcomes = []
        for first in (0, 1):
            meeting = Meeting(tmp_path, f"{first}").path
            folder = tmp_path / f"order {first}"
            folder.mkdir()

            def objective(
                trial: optuna.Trial, first: int = first, meeting: Path = meeting, folder: Path = folder
            ) -> float:
                for step in range(1, 10):
                    if step == 1 and trial.number == 1 - first and first_time(folder, "late"):
                        os.close(os.open(meeting, os.O_RDONLY))
                    trial.report(-float(trial.number), step)
                    note(folder, f"{trial.number}")
                    if step == 1 and trial.number == first and first_time(folder, "early"):
                        os.close(os.open(meeting, os.O_WRONLY))
                    if trial.should_prune():
                        raise optuna.TrialPruned
                return -float(trial.number)

            study = optuna.create_study(direction="maximize")
            executor(study, **bench(2)).optimize(objective, n_trials=9)
            assert notes(folder)[0] == f"{first}"
            outcomes.append(steps_of(study))
        assert outcomes[0] == outcomes[1]
        assert {number: len(steps) for number, steps in outcomes[0].items() if len(steps) > 1} == {0: 9, 1: 3, 2: 3}

    @pytest.mark.parametrize("best", [0, 8])
    def test_the_best_wins_whether_it_comes_first_or_last(self, best: int) -> None:
        study = optuna.create_study(direction="maximize")
        executor(study).optimize(Plain({best: 100.0}), n_trials=9)
        assert study.best_trial.number == best

    def test_what_cannot_be_resumed_is_run_again_after_a_warning_that_says_how_to_avoid_it(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        study = optuna.create_study(direction="maximize")
        executor(study, **bench(1)).optimize(Plain({}, range(1, 10), tmp_path), n_trials=9)
        calls = Counter(notes(tmp_path))
        assert calls["0"] == 1
        assert 1 < calls["7"] <= 3
        (warning,) = [r.getMessage() for r in caplog.records if "fewer slots than trials" in r.getMessage()]
        assert "rb_optuna.session(" in warning
        assert "run.steps(" in warning

    def test_or_ends_the_study_where_that_was_asked_for(self) -> None:
        study = optuna.create_study()
        with pytest.raises(RuntimeError, match="fewer slots than trials"):
            executor(study, unresumable="error", **bench(1)).optimize(Plain(), n_trials=9)
        assert set(states_of(study)) == {"FAIL"}

    def test_nothing_is_run_again_where_slots_suffice(self, tmp_path: Path) -> None:
        study = optuna.create_study(direction="maximize")
        executor(study, unresumable="error", **bench(3)).optimize(Plain({}, range(1, 10), tmp_path), n_trials=3)
        assert sorted(notes(tmp_path)) == ["0", "1", "2"]
        assert study.best_trial.number == 2


class TestFullLength:
    """Ray's Hyperband never reached ``max_t`` (ray-project/ray#11695)."""

    @pytest.mark.parametrize("hyperband", [True, False])
    @pytest.mark.parametrize(("resource", "factor"), [(9, 3), (10, 3), (7, 2), (16, 4)])
    def test_the_winner_of_every_bracket_gets_exactly_all_of_it(
        self, resource: int, factor: int, hyperband: bool
    ) -> None:
        study = optuna.create_study(direction="maximize")
        runs = executor(study, max_resource=resource, reduction_factor=factor, hyperband=hyperband)
        runs.optimize(Plain({}, range(resource)), n_trials=40)
        lengths = {trial.number: len(trial.intermediate_values) for trial in study.trials}
        complete = [trial.number for trial in study.trials if trial.state is TrialState.COMPLETE]
        assert complete
        assert {lengths[number] for number in complete} == {resource}
        assert max(lengths.values()) == resource
        assert all(length < resource for number, length in lengths.items() if number not in complete)


class TestCounting:
    """``n_trials`` counts further trials, those of earlier calls not included (optuna#2638, #1865)."""

    def test_each_call_runs_so_many_more(self, tmp_path: Path) -> None:
        study = optuna.create_study(study_name="counted", storage=database(tmp_path))
        executor(study).optimize(Plain(), n_trials=3)
        again = optuna.load_study(study_name="counted", storage=database(tmp_path))
        executor(again).optimize(Plain(), n_trials=4)
        assert len(again.trials) == 7
        assert "RUNNING" not in states_of(again)

    def test_those_that_were_enqueued_count_and_come_first(self) -> None:
        study = optuna.create_study()
        study.enqueue_trial({"x": 0.25})
        executor(study).optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
        assert len(study.trials) == 2
        assert study.trials[0].params == {"x": 0.25}


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
import optuna
from bench import Resumable, bench, executor, note

folder, launcher = Path(sys.argv[1]), sys.argv[2]

class Endless(Resumable):
    def __call__(self, trial):
        note(folder, str(os.getpid()))
        if trial.number == 5:
            os.kill(parent, signal.SIGINT)
            while True:
                signal.pause()
        return super().__call__(trial)

parent = os.getpid()
study = optuna.load_study(study_name="interrupted", storage=f"sqlite:///{folder / 'study.db'}")
options = {} if launcher == "inline" else bench(2)
try:
    executor(study, **options).optimize(Endless(folder), n_trials=9)
except KeyboardInterrupt:
    sys.exit(77)
"""


class TestInterruption:
    """Ctrl-C left trials running, in parallel above all (optuna#485, #913, #2742, #3336, #3374)."""

    @pytest.mark.parametrize("launcher", ["inline", "process"])
    def test_it_leaves_neither_a_trial_nor_a_process_that_runs(self, tmp_path: Path, launcher: str) -> None:
        study = optuna.create_study(study_name="interrupted", storage=database(tmp_path))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", INTERRUPTED, str(tmp_path), launcher],
            env=environment,
            capture_output=True,
            timeout=100,
        )
        assert done.returncode == 77, done.stderr.decode()
        assert set(states_of(study)) == {"FAIL"}
        assert 6 <= len(study.trials) <= 7  # of two slots the other one may have begun a trial
        pids = {int(line) for line in notes(tmp_path) if ":" not in line}
        assert pids
        assert not any(psutil.pid_exists(pid) for pid in pids)


class TestRetries:
    """What an objective raises and the loss of its process are not the same failure (optuna#6398, #6085)."""

    def test_a_process_that_is_lost_at_the_very_end_is_replaced_and_its_value_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def objective(trial: optuna.Trial) -> float:
            value = Resumable(tmp_path, steps=3)(trial)
            if first_time(tmp_path, "killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            return value

        monkeypatch.setattr("rb_core.engine.chainrun.DOUBT_S", 0.1)
        study = optuna.create_study(direction="maximize")
        executor(study, max_resource=3, **bench(1)).optimize(objective, n_trials=3)
        assert (tmp_path / "killed").exists()
        assert states_of(study) == ["PRUNED", "PRUNED", "COMPLETE"]
        assert study.best_value == 2.0

    def test_one_that_is_lost_on_its_way_goes_on_from_its_checkpoint(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @dataclass(frozen=True)
        class Mortal(Resumable):
            def __call__(self, trial: optuna.Trial) -> float:
                if trial.number == 8 and Counter(notes(self.seen))["8:2"] and first_time(self.seen, "killed"):
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().__call__(trial)

        monkeypatch.setattr("rb_core.engine.chainrun.DOUBT_S", 0.1)
        study = optuna.create_study(direction="maximize")
        executor(study, **bench(1)).optimize(Mortal(tmp_path), n_trials=9)
        assert (tmp_path / "killed").exists()
        assert study.best_trial.number == 8
        assert set(Counter(notes(tmp_path)).values()) == {1}  # no step was done twice

    def test_an_ordinary_error_is_not_tried_again(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            note(tmp_path, f"{trial.number}")
            raise ValueError("of the objective")

        study = optuna.create_study()
        executor(study, **bench(1)).optimize(objective, n_trials=2, catch=ValueError)
        assert notes(tmp_path) == ["0", "1"]
        assert states_of(study) == ["FAIL", "FAIL"]

    def test_a_process_that_is_lost_every_time_is_given_up_and_ends_nothing_else(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def objective(trial: optuna.Trial) -> float:
            if trial.number == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return 1.0

        monkeypatch.setattr("rb_core.engine.chainrun.DOUBT_S", 0.1)
        study = optuna.create_study()
        executor(study, **bench(1)).optimize(objective, n_trials=2)
        assert states_of(study) == ["FAIL", "COMPLETE"]


class TestDevices:
    """A GPU for each trial, from a queue that survives a crash (optuna#1365, syne-tune#632)."""

    def test_no_two_trials_share_a_device_and_that_of_a_crashed_one_is_used_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def objective(trial: optuna.Trial) -> float:
            device = os.environ["CUDA_VISIBLE_DEVICES"]
            with (tmp_path / f"device {device}").open("w") as mine:
                fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held as long as the process lives
                note(tmp_path, device)
                if trial.number == 0 and first_time(tmp_path, "killed"):
                    os.kill(os.getpid(), signal.SIGKILL)
                return Plain()(trial)

        monkeypatch.setattr("rb_core.engine.chainrun.DOUBT_S", 0.1)
        study = optuna.create_study(direction="maximize")
        executor(study, **bench(("3", "5"))).optimize(objective, n_trials=9)
        assert Counter(states_of(study)) == {"PRUNED": 8, "COMPLETE": 1}
        assert set(notes(tmp_path)) == {"3", "5"}
        assert notes(tmp_path).count(notes(tmp_path)[0]) > 1


class TestStragglers:
    """A trial that hangs blocked the study for ever (optuna#1484, #2478, #3009, #3102)."""

    def test_one_that_says_nothing_is_started_again_while_the_others_wait(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def objective(trial: optuna.Trial) -> float:
            if trial.number == 1 and first_time(tmp_path, "hung"):
                signal.pause()
            return Plain()(trial)

        monkeypatch.setattr("rb_core.engine.running.LEAST_PATIENCE_S", 5.0)
        study = optuna.create_study(direction="maximize")
        executor(study, profile=PROFILE, deadline=3600, **bench(1)).optimize(objective, n_trials=3)
        assert (tmp_path / "hung").exists()
        assert Counter(states_of(study)) == {"PRUNED": 2, "COMPLETE": 1}
        assert study.best_trial.number == 2


class TestGrids:
    """Retries ate up grids, and the end of one must end the study (optuna#2993, #3256)."""

    def test_a_grid_is_run_once_though_a_process_was_lost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def objective(trial: optuna.Trial) -> float:
            x = trial.suggest_int("x", 0, 5)
            if trial.number == 2 and first_time(tmp_path, "killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            return float(x)

        monkeypatch.setattr("rb_core.engine.chainrun.DOUBT_S", 0.1)
        study = optuna.create_study(sampler=GridSampler({"x": list(range(6))}))
        executor(study, **bench(1)).optimize(objective)
        assert (tmp_path / "killed").exists()
        assert sorted(trial.params["x"] for trial in study.trials) == list(range(6))
        assert states_of(study) == ["COMPLETE"] * 6


class TestLimits:
    """Limits of time were ignored by those who run trials elsewhere (optuna-distributed#16)."""

    def test_after_the_timeout_nothing_begins_and_what_runs_comes_to_its_end(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            signal.sigtimedwait([], 0.2)
            note(tmp_path, f"{trial.number}")
            return 0.0

        study = optuna.create_study()
        executor(study, **bench(1)).optimize(objective, timeout=0.1)
        assert states_of(study) == ["COMPLETE"]
        assert notes(tmp_path) == ["0"]

    def test_a_timeout_ends_round_after_round(self) -> None:
        calls: list[int] = []

        def callback(study: optuna.Study, trial: FrozenTrial) -> None:
            calls.append(trial.number)

        study = optuna.create_study()
        executor(study).optimize(Plain(), timeout=0.2, callbacks=[callback])
        assert len(calls) == len(study.trials)
        assert "RUNNING" not in states_of(study)

    def test_the_deadline_stops_what_runs_where_that_was_asked_for(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            while True:
                signal.pause()

        study = optuna.create_study()
        options: dict[str, Any] = {"deadline": 2.0, "on_deadline": "stop", "profile": PROFILE}
        executor(study, max_resource=3, **options, **bench(1)).optimize(objective, n_trials=3)
        assert study.trials
        assert "RUNNING" not in states_of(study)
        assert "COMPLETE" not in states_of(study)

    def test_a_deadline_that_no_plan_meets_is_refused_before_anything_is_asked(self) -> None:
        study = optuna.create_study()
        slow = ScalingProfile(iteration_s={1: Latency(mean=1000.0)})
        with pytest.raises(ValueError, match="deadline"):
            executor(study, deadline=10.0, profile=slow, **bench(1)).optimize(Plain(), n_trials=3)
        assert study.trials == []
