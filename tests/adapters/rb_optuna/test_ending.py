"""Every way in which a study ends before its time: nothing runs on, no trial is left open, nodes are given back."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import parents
import psutil
import pytest
import sqlalchemy
from bench import Plain, Resumable, bench, executor, states_of
from optuna.samplers import RandomSampler
from optuna.storages import InMemoryStorage, RDBStorage
from optuna.study import MaxTrialsCallback
from optuna.trial import FrozenTrial, Trial, TrialState
from parents import Moment, Program
from rb_optuna.desk import RemoteTraceback

from rb_core.events import RunEnded, RunEnding

FIRST, WINNER, STRANGER = 1, 6, 0
QUICK_S = 20.0
"""Far more than an interrupted program takes, and far less than for ever, as long as its objectives would run."""


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no run be seen but the test's, and no process be there afterwards that was not there before."""
    monkeypatch.setenv("RB_HOME", str(tmp_path / "home"))
    before = psutil.Process().children(recursive=True)
    yield
    assert set(psutil.Process().children(recursive=True)) <= set(before)


def ending() -> RunEnding:
    """How the one run of the test ended; all its nodes were given back."""
    (events,) = parents.run_events()
    assert parents.held(events) == set()
    assert isinstance(events[-1], RunEnded)
    return events[-1].ending


class TestInterrupted:
    """By Ctrl-C, which a terminal sends to every process, or by whoever ends the program politely."""

    @pytest.mark.parametrize(
        ("moment", "number", "to_group", "states"),
        [
            pytest.param(Moment(kind="step", what="0", trial=FIRST), signal.SIGINT, False, {}, id="in-the-first-step"),
            pytest.param(
                Moment(kind="step", what="2", trial=WINNER),
                signal.SIGINT,
                True,
                {TrialState.PRUNED: 6, TrialState.FAIL: 3},
                id="from-a-terminal-amid-a-stage",
            ),
            pytest.param(
                Moment(kind="event", what="StageEnded"),
                signal.SIGTERM,
                False,
                {},
                id="politely-at-a-rung",
                marks=pytest.mark.long,
            ),
            pytest.param(
                Moment(kind="told", what="PRUNED"), signal.SIGINT, True, {}, id="in-a-callback", marks=pytest.mark.long
            ),
        ],
    )
    def test_processes(
        self, moment: Moment, number: int, to_group: bool, states: dict[TrialState, int], tmp_path: Path
    ) -> None:
        storage = f"sqlite:///{tmp_path}/sqlite"
        program = Program(
            storage=storage, folder=str(tmp_path), moment=moment, signal=number, to_group=to_group, resumable=False
        )
        self.interrupt(program)
        with parents.opened(storage) as opened:
            trials = optuna.load_study(study_name=parents.NAME, storage=opened).trials
        assert trials.pop(STRANGER).state == TrialState.RUNNING
        found = Counter(trial.state for trial in trials if trial.state != TrialState.WAITING)
        assert found[TrialState.FAIL]
        assert found.keys() <= {TrialState.FAIL, TrialState.PRUNED}
        if states:
            assert found == states
        assert ending() is RunEnding.INTERRUPTED

    def test_inline(self, tmp_path: Path) -> None:
        storage = f"sqlite:///{tmp_path}/sqlite"
        moment = Moment(kind="step", what="2", trial=WINNER)
        program = Program(storage=storage, folder=str(tmp_path), moment=moment, signal=signal.SIGINT, launcher="inline")
        self.interrupt(program)
        with parents.opened(storage) as opened:
            trials = optuna.load_study(study_name=parents.NAME, storage=opened).trials
        assert Counter(trial.state for trial in trials) == {
            TrialState.RUNNING: 1, TrialState.PRUNED: 6, TrialState.FAIL: 3,
        }  # fmt: skip

    @pytest.mark.parametrize("amid", ["before_trial", "after_trial"])
    def test_amid_a_call_of_the_study(self, amid: str) -> None:
        """What was asked for is known, and what is told is told whole, before anything else happens."""

        class Sampler(RandomSampler):
            def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
                if amid == "before_trial" and trial.number == 3:
                    os.kill(os.getpid(), signal.SIGINT)

            def after_trial(self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
                if amid == "after_trial" and state == TrialState.PRUNED:
                    os.kill(os.getpid(), signal.SIGINT)

        study = optuna.create_study(study_name=parents.NAME, direction="maximize", sampler=Sampler())
        with pytest.raises(KeyboardInterrupt):
            executor(study, **bench(1)).optimize(Plain(), n_trials=9)
        found = Counter(states_of(study))
        if amid == "before_trial":
            assert found == {"FAIL": 4}
        else:
            assert found.keys() == {"FAIL", "PRUNED"}
        assert ending() is RunEnding.INTERRUPTED

    def interrupt(self, program: Program) -> None:
        with parents.opened(program.storage) as storage:
            parents.create(storage)
        with parents.started(program) as parent:
            status, said = parent.ended()
            took_s = time.time() - program.notes.stat().st_mtime
            assert "KeyboardInterrupt" in said
            assert status == -signal.SIGINT
            assert parent.left() == []
        assert took_s < QUICK_S


class TestErrors:
    """Of an objective or a callback: raised as they are, and nothing is left."""

    def test_of_an_objective(self) -> None:
        def objective(trial: Trial) -> float:
            trial.report(0.0, 1)
            if trial.number == 2:
                raise KeyError("lost")
            return float(trial.should_prune())

        study = optuna.create_study(study_name=parents.NAME)
        with pytest.raises(KeyError, match="lost") as raised:
            executor(study, **bench(1)).optimize(objective, n_trials=9)
        assert isinstance(raised.value.__cause__, RemoteTraceback)
        assert "in objective" in str(raised.value.__cause__)
        assert states_of(study) == ["FAIL"] * 3
        assert ending() is RunEnding.FAILED

    def test_those_that_are_caught_end_nothing(self) -> None:
        def objective(trial: Trial) -> float:
            if trial.number % 2:
                raise KeyError(trial.number)
            return Plain()(trial)

        study = optuna.create_study(study_name=parents.NAME, direction="maximize")
        executor(study, **bench(1)).optimize(objective, n_trials=9, catch=(LookupError,))
        assert states_of(study)[1::2] == ["FAIL"] * 4
        assert study.best_trial.number == 8
        assert ending() is RunEnding.DONE

    def test_of_all_that_were_left_in_the_last_stage(self) -> None:
        def objective(trial: Trial) -> float:
            value = Plain()(trial)
            raise ValueError(value)

        study = optuna.create_study(study_name=parents.NAME, direction="maximize")
        executor(study, **bench(1)).optimize(objective, n_trials=9, catch=(ValueError,))
        assert states_of(study) == ["PRUNED"] * 8 + ["FAIL"]
        assert ending() is RunEnding.DONE

    @pytest.mark.parametrize("error", [ZeroDivisionError("mine"), KeyboardInterrupt()], ids=["error", "interrupt"])
    def test_of_a_callback(self, error: BaseException) -> None:
        called: list[int] = []

        def callback(study: optuna.Study, trial: FrozenTrial) -> None:
            called.append(trial.number)
            if len(called) == 1:
                raise error

        study = optuna.create_study(study_name=parents.NAME, direction="maximize")
        with pytest.raises(type(error)):
            executor(study, **bench(1)).optimize(Plain(), n_trials=9, callbacks=[callback])
        assert set(states_of(study)) == {"PRUNED", "FAIL"}
        assert ending() in (RunEnding.FAILED, RunEnding.INTERRUPTED)


class TestStopped:
    """By the study itself: what runs comes to its end."""

    def test_in_an_objective_of_its_own_process(self) -> None:
        def objective(trial: Trial) -> float:
            if trial.number == 3:
                trial.study.stop()
            return Plain()(trial)

        study = optuna.create_study(study_name=parents.NAME, direction="maximize")
        executor(study, **bench(1)).optimize(objective, n_trials=9)
        assert len(study.trials) == 4
        assert set(states_of(study)) == {"COMPLETE", "PRUNED"}
        assert study.best_trial.number == 3
        assert ending() is RunEnding.DONE

    def test_in_a_callback_between_rounds(self) -> None:
        def callback(study: optuna.Study, trial: FrozenTrial) -> None:
            if trial.state == TrialState.COMPLETE:
                study.stop()

        study = optuna.create_study(study_name=parents.NAME, direction="maximize")
        executor(study, **bench(1)).optimize(Plain(), callbacks=[callback])
        assert len(study.trials) == 9
        assert ending() is RunEnding.DONE

    def test_by_the_callback_that_counts_trials(self) -> None:
        study = optuna.create_study(study_name=parents.NAME)
        counting = MaxTrialsCallback(4, states=(TrialState.COMPLETE,))
        executor(study, **bench(1)).optimize(lambda trial: float(trial.number), callbacks=[counting])
        assert states_of(study) == ["COMPLETE"] * 4
        assert ending() is RunEnding.DONE


class TestLostProcesses:
    """A process that ends without a word is not its objective's failure, unless it does so every time."""

    @pytest.fixture(autouse=True)
    def no_doubt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rb_core.engine.chainrun.DOUBT_S", 0.1)

    def test_one_that_exits_goes_on_from_its_checkpoint_and_another_is_given_up(self, tmp_path: Path) -> None:
        class Exits(Resumable):
            def __call__(self, trial: Trial) -> float:
                if trial.number == 1:
                    os._exit(0)
                return super().__call__(trial)

        study = optuna.create_study(study_name=parents.NAME, direction="maximize")
        executor(study, max_resource=3, **bench(1)).optimize(Exits(tmp_path), n_trials=3)
        assert states_of(study) == ["PRUNED", "FAIL", "COMPLETE"]
        assert ending() is RunEnding.DONE


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
class TestOthers:
    """Other processes fail trials whose heart does not beat, and sometimes those whose heart does."""

    @pytest.fixture
    def beating(self, tmp_path: Path) -> Iterator[RDBStorage]:
        storage = RDBStorage(f"sqlite:///{tmp_path}/beating", heartbeat_interval=1, grace_period=60)
        yield storage
        storage.remove_session()
        storage.engine.dispose()

    def test_a_suspended_trial_is_kept_alive(self, tmp_path: Path, beating: RDBStorage) -> None:
        """The last trial makes the first one's last beat an old one, and looks at it with another process's eyes."""
        place = f"sqlite:///{tmp_path}/beating"

        class Stops(Resumable):
            def __call__(self, trial: Trial) -> float:
                if trial.number == 2 and not (self.seen / "looked").exists():
                    other = RDBStorage(place, heartbeat_interval=1, grace_period=60)
                    beats = sqlalchemy.text("SELECT count(*) FROM trial_heartbeats WHERE heartbeat > '2001-01-01'")
                    with other.engine.begin() as connection:
                        connection.execute(sqlalchemy.text("UPDATE trial_heartbeats SET heartbeat = '2000-01-01'"))
                    found = 0
                    while found < 3:
                        signal.sigtimedwait([], 0.05)
                        with other.engine.begin() as connection:
                            found = connection.execute(beats).scalar_one()
                    optuna.storages.fail_stale_trials(optuna.load_study(study_name=parents.NAME, storage=other))
                    (self.seen / "looked").touch()
                return super().__call__(trial)

        study = optuna.create_study(study_name=parents.NAME, storage=beating, direction="maximize")
        executor(study, max_resource=3, **bench(1)).optimize(Stops(tmp_path, steps=3), n_trials=3)
        assert (tmp_path / "looked").exists()
        assert states_of(study) == ["PRUNED", "PRUNED", "COMPLETE"]
        assert ending() is RunEnding.DONE

    def test_a_trial_that_runs_is_failed_by_another_process(self, tmp_path: Path) -> None:
        place = f"sqlite:///{tmp_path}/shared"

        def objective(trial: Trial) -> float:
            if trial.number == 8:
                with parents.opened(place) as storage:
                    optuna.load_study(study_name=parents.NAME, storage=storage).tell(8, state=TrialState.FAIL)
            return Plain()(trial)

        with parents.opened(place) as storage:
            study = optuna.create_study(study_name=parents.NAME, storage=storage, direction="maximize")
            executor(study, **bench(1)).optimize(objective, n_trials=9)
            assert states_of(study)[8] == "FAIL"
            assert study.best_trial.number == 7
            assert len(study.trials) == 9
        assert ending() is RunEnding.DONE

    def test_a_trial_of_others_that_is_stale_is_tried_again_by_us(self, tmp_path: Path) -> None:
        place = f"sqlite:///{tmp_path}/stale"
        with parents.opened(place) as plain:
            number = parents.create(plain).trials[STRANGER].number
        retry = getattr(optuna.storages, "RetryHeartbeatStaleTrialCallback", optuna.storages.RetryFailedTrialCallback)
        named = "heartbeat_stale_trial_callback" if "Stale" in retry.__name__ else "failed_trial_callback"
        storage = RDBStorage(place, heartbeat_interval=60, **{named: retry(max_retry=1)})
        study = optuna.load_study(study_name=parents.NAME, storage=storage)
        storage.record_heartbeat(study.trials[number]._trial_id)
        with storage.engine.begin() as connection:
            connection.execute(sqlalchemy.text("UPDATE trial_heartbeats SET heartbeat = '2000-01-01'"))
        executor(study, **bench(1)).optimize(Plain(), n_trials=10)
        assert study.trials[STRANGER].state == TrialState.FAIL
        assert study.trials[-1].system_attrs["failed_trial"] == STRANGER
        assert len(study.trials) == 11
        assert set(states_of(study)[1:]) == {"PRUNED", "COMPLETE"}
        storage.remove_session()
        storage.engine.dispose()


def test_nothing_of_an_inline_study_is_left(tmp_path: Path) -> None:
    study = optuna.create_study(storage=InMemoryStorage())
    executor(study).optimize(Plain(), n_trials=9)
    assert not (tmp_path / "home").exists()


def test_a_connection_that_the_objective_lost_is_its_own_failure_and_no_lost_rank() -> None:
    def objective(trial: Trial) -> float:
        raise ConnectionResetError("the data server hung up")

    study = optuna.create_study()
    with pytest.raises(ConnectionResetError, match="hung up"):
        executor(study, **bench(1)).optimize(objective, n_trials=3)
    assert states_of(study) == ["FAIL"]
