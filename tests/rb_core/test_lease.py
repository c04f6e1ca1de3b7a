from __future__ import annotations

import dataclasses
import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from rb_core import lease
from rb_core.clock import ManualClock, SystemClock
from rb_core.errors import UnusableLog
from rb_core.lease import Holder, Lease, check_free, living_holder, process_began, read_holder

NOW = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "lease.json"


@pytest.fixture
def write(path):
    path.parent.mkdir()

    def write(holder: Holder) -> None:
        path.write_text(json.dumps({"schema": 1, **dataclasses.asdict(holder)}))

    return write


@pytest.fixture
def child():
    """Another process of this machine, and its holder."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = process_began(process.pid)
    yield process, dataclasses.replace(Holder.here(NOW), pid=process.pid, began=began)
    process.kill()
    process.communicate()


def test_a_lease_is_there_while_it_is_held_for_its_owner_alone(path):
    path.parent.mkdir()
    with Lease(path, ManualClock()):
        holder = read_holder(path)
        assert holder.same_process(Holder.here(NOW))
        assert holder.is_here
        assert holder.is_alive(NOW + timedelta(days=1))
        assert (holder.pid, holder.renewed) == (os.getpid(), NOW.isoformat())
        assert holder.came_after((NOW - timedelta(seconds=1)).isoformat())
        assert not any(holder.came_after(utc) for utc in (NOW.isoformat(), "", "soon", "1999-01-01T00:00:00"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert str(holder).startswith(f"process {os.getpid()} on ")
    assert list(path.parent.iterdir()) == []


def test_a_lease_is_renewed(path, monkeypatch):
    path.parent.mkdir()
    monkeypatch.setattr(lease, "TTL_S", 0.01)
    clock = SystemClock()
    with Lease(path, clock):
        first = read_holder(path).renewed
        while read_holder(path).renewed == first:
            pass


def test_a_living_process_of_this_machine_keeps_its_lease_however_old(write, path, child):
    process, holder = child
    write(holder)
    clock = ManualClock(epoch=NOW + timedelta(days=9))
    assert living_holder(path, clock) == holder
    with pytest.raises(UnusableLog, match=rf"is alive: process {process.pid} on .* is at work on it; wait .* stop it$"):
        Lease(path, clock).__enter__()
    assert read_holder(path) == holder


def test_the_lease_of_a_process_that_is_gone_is_taken_over(write, path, child):
    process, holder = child
    write(holder)
    process.kill()
    process.wait()
    assert living_holder(path, ManualClock()) is None
    with Lease(path, ManualClock()):
        assert read_holder(path).pid == os.getpid()


def test_a_killed_process_that_its_parent_has_not_collected_is_gone(write, path, child):
    process, holder = child
    write(holder)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert living_holder(path, ManualClock()) is None


def test_a_pid_that_was_given_again_is_another_process(write, path, child):
    _, holder = child
    write(dataclasses.replace(holder, began=holder.began - 1))
    assert living_holder(path, ManualClock()) is None
    write(dataclasses.replace(holder, boot="earlier", renewed=(NOW - timedelta(seconds=60)).isoformat()))
    assert living_holder(path, ManualClock()) is None


@pytest.mark.parametrize(("age_s", "alive"), [(0, True), (59, True), (60, False), (3600, False), (-5, True)])
def test_on_another_machine_the_last_sign_of_life_decides(write, path, age_s, alive):
    there = dataclasses.replace(
        Holder.here(NOW), host="elsewhere", renewed=(NOW - timedelta(seconds=age_s)).isoformat()
    )
    write(there)
    assert not there.is_here
    clock = ManualClock(epoch=NOW)
    if alive:
        with pytest.raises(
            UnusableLog, match=r"process \d+ on elsewhere .* stop it there; .* over at \d\d:\d\d:\d\d UTC"
        ):
            check_free(path, clock)
    else:
        with Lease(path, clock):
            assert read_holder(path).is_here


def test_a_lease_that_another_process_took_is_left_to_it(path, child):
    path.parent.mkdir()
    _, holder = child
    with Lease(path, ManualClock()):
        path.write_text(json.dumps({"schema": 1, **dataclasses.asdict(holder)}))
    assert read_holder(path) == holder


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema": 1, "host": "x"}', '{"schema": 1, "pid": []}', "\x00"]
)
def test_a_file_that_says_nothing_holds_nothing(path, text):
    path.parent.mkdir()
    path.write_text(text)
    assert read_holder(path) is None
    check_free(path, ManualClock())


def test_a_lease_that_cannot_be_written_is_an_error_with_the_remedy(path):
    with pytest.raises(UnusableLog, match=r"cannot be written: No such file or directory; choose a folder"):
        Lease(path, ManualClock()).__enter__()
