"""Traps of objectives that run in several processes: rank 0 speaks, and every rank sees the same, exactly."""

from __future__ import annotations

import logging
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch.distributed as dist
from bench import Meeting, bench, executor, first_time, note, notes, states_of, steps_of
from optuna.samplers import RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import BaseTrial, TrialState
from rb_optuna import session
from rb_optuna.proxy import ProxyTrial

from rb_core.hardware import Latency
from rb_core.profile import ScalingProfile

TWO = ScalingProfile(iteration_s={2: Latency(mean=0.01)})
"""How an objective scales that can be planned with two slots a trial, and with nothing else."""


def pairs(launcher: str = "process", slots: int = 2, **options: Any) -> dict[str, Any]:
    """Arguments of an executor that gives each trial two slots."""
    return bench(slots, slots=slots, launcher=launcher, profile=TWO, deadline=3600, **options)


class _Errors(logging.Handler):
    """Keeps the error of each failed trial, in words."""

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.words[int(record.getMessage().split()[1])] = repr(record.exc_info[1])


def ranks(trial: optuna.Trial) -> tuple[int, int]:
    run = session(trial)
    return run.rank, run.world_size


class TestInterfaceOfTheProxy:
    """Optuna 4 and 5 have different abstract methods, and a trial that lacks one of either cannot be made."""

    def test_it_has_the_methods_of_every_release(self) -> None:
        assert issubclass(ProxyTrial, BaseTrial)
        assert ProxyTrial.__abstractmethods__ == frozenset()
        both = {"set_system_attr", "system_attrs", "set_constraint", "constraints"}
        assert both <= set(vars(ProxyTrial))

    def test_its_public_face_is_that_of_a_trial(self) -> None:
        face = {name for name in dir(BaseTrial) if not name.startswith("_")} | {"study"}
        assert face <= set(dir(ProxyTrial))


class TestSameEverywhere:
    """`TorchDistributedTrial` sends floats as float32 and integers as int32 (optuna-integration#59)."""

    def test_parameters_are_drawn_once_and_equal_to_the_last_bit_on_every_rank(self, tmp_path: Path) -> None:
        class Sampler(RandomSampler):
            def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
                drawn.append((trial.number, name))
                return super().sample_independent(study, trial, name, distribution)

        def objective(trial: optuna.Trial) -> float:
            rank, size = ranks(trial)
            seen = {
                "float": trial.suggest_float("float", 0.1, 0.9),
                "log": trial.suggest_float("log", 1e-300, 1e300, log=True),
                "int": trial.suggest_int("int", 2**52, 2**53 - 1),
                "choice": trial.suggest_categorical("choice", [None, True, 0.1, "a"]),
            }
            note(tmp_path, repr((trial.number, rank, size, seen, trial.params)))
            return seen["float"]

        drawn: list[tuple[int, str]] = []
        study = optuna.create_study(sampler=Sampler(seed=5))
        executor(study, **pairs()).optimize(objective, n_trials=2)
        expected = [
            repr((trial.number, rank, 2, trial.params, trial.params)) for trial in study.trials for rank in (0, 1)
        ]
        assert sorted(notes(tmp_path)) == expected
        assert study.trials[0].value == study.trials[0].params["float"]
        assert sorted(drawn) == [(trial, name) for trial in (0, 1) for name in ("choice", "float", "int", "log")]

    def test_verdicts_are_equal_on_every_rank(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            rank, _ = ranks(trial)
            for step in range(1, 10):
                dist.barrier()
                trial.report(float(trial.number), step)
                pruned = trial.should_prune()
                note(tmp_path, f"{trial.number} {step} {pruned} {rank}")
                if pruned:
                    break
            dist.barrier()
            if pruned:
                raise optuna.TrialPruned
            return float(trial.number)

        study = optuna.create_study(direction="maximize")
        executor(study, **pairs("ddp")).optimize(objective, n_trials=9)
        told = [{line[:-2] for line in notes(tmp_path) if line.endswith(f" {rank}")} for rank in (0, 1)]
        assert told[0] == told[1]
        assert Counter(len(steps) for steps in steps_of(study).values()) == {1: 6, 3: 2, 9: 1}
        assert study.trials[8].user_attrs["rubberband:allocation"][0] == 2


class TestOthersThanRank0:
    """Only rank 0 is heard; the others neither change anything nor are waited for."""

    def test_what_they_report_or_set_or_return_changes_nothing(self, tmp_path: Path) -> None:
        """Not even when they come first: rank 0 waits here until the process of rank 1 has ended."""
        pipe = Meeting(tmp_path).path

        def objective(trial: optuna.Trial) -> float:
            rank, _ = ranks(trial)
            if rank:
                held = os.open(pipe, os.O_WRONLY)
                assert held >= 0
            else:
                pipe.read_bytes()
            trial.set_user_attr("rank", rank)
            trial.set_user_attr(f"of {rank}", True)
            trial.report(100.0 + rank, 1 + rank)
            trial.suggest_float("x", 0, 1)
            assert trial.user_attrs["rank"] == rank
            return float(rank)

        study = optuna.create_study()
        executor(study, **pairs()).optimize(objective, n_trials=1)
        (trial,) = study.trials
        assert trial.value == 0.0
        assert trial.intermediate_values == {1: 100.0}
        assert {key: value for key, value in trial.user_attrs.items() if "rubberband" not in key} == {
            "rank": 0,
            "of 0": True,
        }

    def test_only_rank_0_need_report_and_ask(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            rank, _ = ranks(trial)
            for step in range(1, 10):
                if rank == 0:
                    trial.report(float(trial.number), step)
                    if trial.should_prune():
                        raise optuna.TrialPruned
            return float(trial.number)

        study = optuna.create_study(direction="maximize")
        executor(study, **pairs()).optimize(objective, n_trials=3)
        assert study.best_trial.number == 2
        assert Counter(states_of(study)) == {"PRUNED": 2, "COMPLETE": 1}

    def test_those_that_never_end_are_ended_once_rank_0_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def objective(trial: optuna.Trial) -> float:
            if ranks(trial)[0]:
                signal.pause()
            return 1.0

        monkeypatch.setattr("rb_optuna.holding.GRACE_S", 0.1)
        study = optuna.create_study()
        executor(study, **pairs()).optimize(objective, n_trials=1)
        assert states_of(study) == ["COMPLETE"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[optuna.Study, dict[int, str], Path]:
    """A study of trials whose ranks leave in different ways while the other one waits for them.

    With it what the log names as the error of each trial, and a folder that tells whether a rank was killed.
    """
    folder = tmp_path_factory.mktemp("ended")

    def objective(trial: optuna.Trial) -> float:
        match trial.number, ranks(trial)[0]:
            case 0, 0:
                raise optuna.TrialPruned
            case 1, 0:
                raise KeyError("of rank 0")
            case 2, 1:
                raise KeyError("of rank 1")
            case 3, 1 if first_time(folder, "killed"):
                os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()
        return float(trial.number)

    errors = _Errors()
    logger = logging.getLogger("optuna.study._optimize")
    logger.addHandler(errors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rb_core.engine.chainrun.DOUBT_S", 0.1)
        study = optuna.create_study()
        executor(study, **pairs("ddp")).optimize(objective, n_trials=4, catch=KeyError)
    logger.removeHandler(errors)
    return study, errors.words, folder


class TestRank0LeavesFirst:
    """The others then die of a lost connection, which is not the objective's failure; so with any rank."""

    def test_a_trial_that_rank_0_prunes_is_pruned_whatever_the_others_die_of(self, ended: Any) -> None:
        study, _, _ = ended
        assert study.trials[0].state is TrialState.PRUNED

    def test_an_error_of_rank_0_wins_over_what_the_others_die_of(self, ended: Any) -> None:
        study, errors, _ = ended
        assert study.trials[1].state is TrialState.FAIL
        assert errors[1] == repr(KeyError("of rank 0"))

    def test_an_error_of_another_rank_is_told_in_the_place_of_the_lost_connection_of_rank_0(self, ended: Any) -> None:
        study, errors, _ = ended
        assert study.trials[2].state is TrialState.FAIL
        assert errors[2] == repr(KeyError("of rank 1"))

    def test_a_rank_that_is_killed_is_no_failure_of_the_objective(self, ended: Any) -> None:
        study, errors, folder = ended
        assert (folder / "killed").exists()
        assert study.trials[3].state is TrialState.COMPLETE
        assert study.trials[3].value == 3.0
        assert set(errors) == {1, 2}

    def test_suspended_ranks_leave_together(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            run = session(trial)
            state = run.load() or {"done": 0}
            for step in range(state["done"], 3):
                dist.barrier()
                run.save({"done": step + 1})
                note(tmp_path, f"{trial.number}:{step}:{run.rank}")
                trial.report(float(trial.number), step)
                if trial.should_prune():
                    raise optuna.TrialPruned
            return float(trial.number)

        study = optuna.create_study(direction="maximize")
        executor(study, **pairs("ddp")).optimize(objective, n_trials=3)
        assert Counter(states_of(study)) == {"PRUNED": 2, "COMPLETE": 1}
        assert study.best_trial.number == 2
        assert set(Counter(notes(tmp_path)).values()) == {1}


class TestWhatIntegrationsTouch:
    """Callbacks of Optuna's integrations reach for more of a trial than its public face."""

    def test_inline_objectives_have_a_real_trial(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            assert type(trial) is optuna.Trial
            assert trial.study is study
            assert trial.storage is trial.study._storage
            trial.storage.set_trial_system_attr(trial._trial_id, "integration", 1)
            return 0.0

        study = optuna.create_study(storage=RDBStorage(f"sqlite:///{tmp_path / 'study.db'}"))
        executor(study).optimize(objective, n_trials=1)
        assert study.trials[0].system_attrs["integration"] == 1

    def test_a_proxy_has_what_they_ask_of_the_study(self, tmp_path: Path) -> None:
        def objective(trial: optuna.Trial) -> float:
            study = trial.study
            trial.set_system_attr("of rank 0", 1)  # type: ignore[attr-defined]
            assert trial.system_attrs["of rank 0"] == 1
            note(tmp_path, f"{study.study_name} {study.direction.name} {[d.name for d in study.directions]}")
            with pytest.raises(RuntimeError, match="Nested invocation"):
                study.optimize(lambda trial: 0.0)
            with pytest.raises(AttributeError, match="inline"):
                _ = study.trials
            study.stop()
            return 0.0

        study = optuna.create_study(study_name="named", direction="maximize")
        executor(study, **bench(1)).optimize(objective, n_trials=5)
        assert notes(tmp_path) == ["named MAXIMIZE ['MAXIMIZE']"]
        assert states_of(study) == ["COMPLETE"]
        assert study.trials[0].system_attrs["of rank 0"] == 1
