from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rb_core.errors import InvalidInput, UnusableLog
from rb_plugins.rundir import RunDirectory, home, write_json

UTC_TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({"RB_HOME": "/a/b"}, Path("/a/b")),
        ({"RB_HOME": "", "XDG_STATE_HOME": "/s"}, Path("/s/rubberband")),
        ({"XDG_STATE_HOME": "relative"}, Path("/h/.local/state/rubberband")),
        ({}, Path("/h/.local/state/rubberband")),
    ],
)
def test_home_is_rb_home_or_the_users_state_directory(monkeypatch, env, wanted):
    for name in ("RB_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/h")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert home() == wanted


def test_a_new_directory_has_a_telling_id_and_is_its_owners_alone(tmp_path):
    directory = RunDirectory.create(tmp_path, "My digits / ü", UTC_TIME)
    assert directory.run.startswith("my-digits-20260102-030405-")
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    assert directory.run != RunDirectory.create(tmp_path, "My digits / ü", UTC_TIME).run
    assert not directory.began


def test_a_directory_that_cannot_be_made_is_an_error_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableLog, match="set RB_HOME"):
        RunDirectory.create(tmp_path / "file", "x", UTC_TIME)


def test_runs_are_found_by_id_by_path_and_by_their_age(tmp_path):
    assert RunDirectory.latest(tmp_path) == []
    first, second = (RunDirectory.create(tmp_path, name, UTC_TIME) for name in ("b", "a"))
    for age, directory in enumerate((second, first)):
        directory.events.write_text("x")
        os.utime(directory.events, (1000 - age, 1000 - age))
    assert RunDirectory.latest(tmp_path) == [second, first]
    assert RunDirectory.find(tmp_path, first.run) == first
    assert RunDirectory.find(tmp_path, str(first.path)) == first
    assert first.began
    with pytest.raises(InvalidInput, match=r"must be the id of a run in .*, got 'c'; `rb-tune status` lists them$"):
        RunDirectory.find(tmp_path, "c")
    RunDirectory.create(tmp_path, "a", UTC_TIME).write("request.json", {})
    with pytest.raises(InvalidInput, match=r"must be the beginning of one run's id, got 'a-2', .*; give more of it$"):
        RunDirectory.find(tmp_path, "a-2")


def test_files_are_written_whole_for_their_owner_and_read_back(tmp_path):
    directory = RunDirectory.create(tmp_path, "x", UTC_TIME)
    directory.write("plan.json", {"a": 1})
    directory.write("plan.json", {"a": 2})
    assert directory.read("plan.json") == {"a": 2}
    assert directory.read("other.json") == {}
    assert stat.S_IMODE((directory.path / "plan.json").stat().st_mode) == 0o600
    with pytest.raises(TypeError):
        write_json(directory.path / "plan.json", {"a": object()})
    assert directory.read("plan.json") == {"a": 2}
    assert sorted(path.name for path in directory.path.iterdir()) == ["logs", "plan.json"]


def test_a_home_that_is_no_directory_is_refused_before_anything_is_made(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UnusableLog, match=r"is not a directory; set RB_HOME"):
        RunDirectory.check_home(tmp_path / "file" / "home")
    RunDirectory.check_home(tmp_path / "new" / "home")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
