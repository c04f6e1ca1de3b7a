"""Commands that leave nothing behind, however they, their guardian or the program above end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rb_core.clock import SystemClock, pause
from rb_core.errors import LaunchFailure
from rb_core.launchers.guarded import GuardedProcess

FAMILY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(f"{os.getpid()}\\n")
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(600)
"""
"""A command with an orphan of its own session, whose pid it writes into a file."""

PROGRAM = """
import sys, time
from rb_core.launchers.guarded import GuardedProcess
process = GuardedProcess([sys.executable, "-c", sys.argv[1], sys.argv[2]], {})
print(process.pid, process.folder, flush=True)
time.sleep(600)
"""


def until(holds) -> None:
    clock = SystemClock()
    limit_s = clock.now() + 30.0
    while not holds():
        assert clock.now() < limit_s
        pause(clock, 0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def written(path: Path) -> int:
    """The pid in a file, once it is there."""
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def python(source: str, *arguments: str, env: dict[str, str] | None = None, ended=None) -> GuardedProcess:
    return GuardedProcess([sys.executable, "-c", source, *arguments], env or {}, ended)


def test_all_that_came_of_it_is_gone_when_it_is_closed(tmp_path):
    process = python(FAMILY, str(tmp_path / "pid"))
    orphan = written(tmp_path / "pid")
    assert process.is_alive()
    process.close()
    process.close()
    assert not process.is_alive()
    assert is_gone(orphan)
    assert not process.folder.exists()


def test_all_that_came_of_it_is_gone_when_the_program_is_killed(tmp_path):
    command = [sys.executable, "-c", PROGRAM, FAMILY, str(tmp_path / "pid")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        guardian, folder = program.stdout.readline().split()
        orphan = written(tmp_path / "pid")
        program.kill()
    until(lambda: is_gone(orphan) and is_gone(int(guardian)))
    until(lambda: not Path(folder).exists())


def test_the_command_ends_with_a_guardian_that_is_killed(tmp_path):
    said = threading.Event()
    process = python(
        "import os, sys, time\nopen(sys.argv[1], 'w').write(f'{os.getpid()}\\n')\ntime.sleep(600)",
        str(tmp_path / "pid"),
        ended=lambda _: said.set(),
    )
    command = written(tmp_path / "pid")
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: is_gone(command))
    assert said.wait(30)
    process.close()
    assert not process.folder.exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("print('one')\nprint()\nprint('two')", "one\ntwo"),
        ("import sys; sys.exit('wrong token')", "wrong token"),
        ("import sys; sys.exit(3)", "it ended with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "it ended with status 137"),
    ],
)
def test_one_that_ends_by_itself_says_its_last_lines(source, words):
    said = []
    over = threading.Event()

    def ended(text):
        said.append(text)
        over.set()

    process = python(source, ended=ended)
    assert over.wait(30)
    process.close()
    assert said == [words]


def test_one_that_is_ended_on_purpose_says_nothing(tmp_path):
    said = []
    process = python(FAMILY, str(tmp_path / "pid"), ended=said.append)
    written(tmp_path / "pid")
    process.close()
    assert said == []


def test_it_has_variables_and_a_folder_of_its_own(tmp_path):
    source = "import os, sys\nopen(sys.argv[1], 'w').write(os.environ['X'] + ' ' + os.environ['TMPDIR'])"
    over = threading.Event()
    process = python(source, str(tmp_path / "said"), env={"X": "1"}, ended=lambda _: over.set())
    assert over.wait(30)
    assert (tmp_path / "said").read_text() == f"1 {process.folder}"
    process.close()


def test_its_variables_are_on_no_command_line():
    process = python("import time; time.sleep(600)", env={"TOKEN": "hush-hush"})
    assert b"hush-hush" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    process.close()


def test_a_command_that_does_not_exist_says_so():
    said = []
    over = threading.Event()

    def ended(text):
        said.append(text)
        over.set()

    process = GuardedProcess(["/nowhere/at-all"], {}, ended)
    assert over.wait(30)
    process.close()
    assert said == ["/nowhere/at-all could not be started: No such file or directory"]


def test_no_process_at_all_is_a_launch_failure(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = set(Path("/tmp").glob("rb-*"))
    with pytest.raises(LaunchFailure, match="could not be started: No such file"):
        GuardedProcess(["true"], {})
    assert set(Path("/tmp").glob("rb-*")) <= before
