"""The PostgreSQL server that the other tests here rely on: it is a real one, and nothing is left of it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import optuna
import postgres
import psutil
import pytest
from optuna.storages import RDBStorage


def test_a_study_is_read_back_over_another_connection(postgres_storage: Callable[..., RDBStorage]) -> None:
    study = optuna.create_study(study_name="kept", storage=postgres_storage())
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=2)
    again = optuna.load_study(study_name="kept", storage=postgres_storage())
    assert again.trials == study.trials
    assert len(again.trials) == 2


def test_each_test_has_a_database_of_its_own(postgres_storage: Callable[..., RDBStorage]) -> None:
    assert optuna.get_all_study_names(postgres_storage()) == []


def test_no_process_file_or_port_is_left() -> None:
    with postgres.running() as server:
        main = psutil.Process(int((server.folder / "data" / "postmaster.pid").read_text().splitlines()[0]))
        processes = [main, *main.children(recursive=True)]
        assert len(processes) > 1
        socket.create_connection(("127.0.0.1", server.port)).close()
    assert not any(process.is_running() for process in processes)
    assert not server.folder.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_missing_server_is_a_failure_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(postgres.ServerError, match="apt-get install postgresql"), postgres.running(tmp_path):
        pass


def test_the_newest_of_several_versions_is_taken(tmp_path: Path) -> None:
    for version in ("9.6", "17", "15"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "postgres").touch()
    assert postgres.find(tmp_path) == tmp_path / "17" / "bin"


def test_a_server_that_does_not_start_shows_what_it_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "SETTINGS", "no_such_setting = on\n")
    with pytest.raises(postgres.ServerError, match=r"no_such_setting"), postgres.running():
        pass
