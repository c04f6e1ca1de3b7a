from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rb_core.clock import SystemClock
from rb_core.errors import InvalidInput, UnstoppedRun
from rb_core.lease import Holder, process_began
from rb_plugins.cli import main
from rb_plugins.rundir import RunDirectory
from rb_plugins.stopping import stop

CLOCK = SystemClock()

PROGRAM = """
import pathlib, signal, sys
lease, stubborn = pathlib.Path(sys.argv[1]), sys.argv[2] == "stubborn"
if stubborn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    print("ready", flush=True)
    signal.pause()
except KeyboardInterrupt:
    lease.unlink()
    signal.pause()
"""


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "runs" / "r"
    path.mkdir(parents=True)
    (path / "request.json").write_text("{}")
    return RunDirectory(path)


@pytest.fixture
def at_work(directory):
    """A process with a lease on the run, which gives it back on SIGINT, or is stubborn."""
    processes = []

    def at_work(how: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(directory.lease), how], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        write(directory, pid=process.pid, began=process_began(process.pid))
        return process

    yield at_work
    for process in processes:
        process.kill()
        process.communicate()


def write(directory: RunDirectory, **attributes: object) -> Holder:
    holder = dataclasses.replace(Holder.here(CLOCK.utc()), **attributes)
    directory.lease.write_text(json.dumps({"schema": 1, **dataclasses.asdict(holder)}))
    return holder


def test_it_interrupts_and_waits_until_the_lease_is_given_back(directory, at_work):
    process = at_work()
    holder = stop(directory, CLOCK, timeout_s=60.0)
    assert holder.pid == process.pid
    assert not directory.lease.exists()
    assert process.poll() is None


def test_a_process_that_ends_without_giving_its_lease_back_has_ended_too(directory, at_work):
    process = at_work("stubborn")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert stop(directory, CLOCK, timeout_s=60.0) is None


def test_one_that_does_not_end_in_time_is_said_to_be_at_it_still(directory, at_work):
    process = at_work("stubborn")
    with pytest.raises(UnstoppedRun, match=r"^run r was told to end and has not within 0\.0 s; process .*--timeout"):
        stop(directory, CLOCK, timeout_s=0.0)
    assert process.poll() is None


def test_a_run_that_nobody_is_at_work_on_is_left_as_it_is(directory):
    assert stop(directory, CLOCK, timeout_s=0.0) is None


def test_a_process_of_another_machine_gets_no_signal(directory, at_work):
    process = at_work()
    write(directory, host="elsewhere", pid=process.pid)
    with pytest.raises(InvalidInput, match=r"^RUN: run r is at work on another machine, as process \d+ on elsewhere;"):
        stop(directory, CLOCK, timeout_s=0.0)
    assert directory.lease.exists()


def test_another_process_with_the_pid_gets_no_signal(directory, at_work):
    process = at_work()
    write(directory, pid=process.pid, began=process_began(process.pid) - 1)
    assert stop(directory, CLOCK, timeout_s=0.0) is None
    assert directory.lease.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stop"], "RUN: there is no run in"),
        (["stop", "nothing"], "RUN: must be the id of a run in"),
        (["stop", "--timeout", "soon"], "--timeout: must be seconds or a duration"),
        (["stop", "--timeout", "-1"], "--timeout: must be a finite number of at least 0"),
        (["run"], "EXPERIMENT: is required, or --resume RUN in its place; not both"),
        (["run", "x.toml", "--resume", "r"], "EXPERIMENT: is required, or --resume RUN in its place; not both"),
        (["run", "--resume", "r", "--planner", "exact"], "--planner: must be left out with --resume"),
        (["run", "--resume", "r"], "RUN: must be the id of a run in"),
        (["run", "--resume", "r", "--deadline", "1.5x"], "--deadline: must be a time since the run began, such as 2h"),
        (["run", "--resume", "r", "--deadline", "soon"], "--deadline: must be seconds or a duration"),
        (["run", "--resume", "r", "--deadline", "-1"], "--deadline: must be a finite number above 0"),
        (["run", "--resume", "r", "--deadline", "1h", "--budget", "1"], "--deadline: must be left out where a budget"),
    ],
)
def test_bad_usage_ends_with_2_and_one_line(tmp_path: Path, arguments, message):
    result = CliRunner().invoke(main, arguments, env={"RB_HOME": str(tmp_path / "home")})
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
