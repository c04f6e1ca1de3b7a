"""What goes wrong in ranks of one torch process group, and who is blamed."""

import dataclasses
import os
import select
import signal
from pathlib import Path

import pytest

from rb_core.errors import FailureKind
from rb_core.launchers.ddp import DdpLauncher
from rb_core.target import Target
from rb_core.testing.launching_contract import Story, a_run, is_running
from rb_core.trial import Iterated, Remark, Reported, Saved

FUNCTIONS = Path(__file__).with_name("trained.py")


@pytest.fixture(scope="module")
def launcher():
    with DdpLauncher(Target.parse(f"{FUNCTIONS}:act"), timeout_s=60) as launcher:
        yield launcher


def play(launcher, folder, act, *, ranks=2, to_iteration=2, every_s=600.0, **config):
    run = a_run(folder, ranks=ranks, to_iteration=to_iteration, config={"act": act} | config)
    return Story(launcher, dataclasses.replace(run, checkpoint_every_s=every_s))


def gone(pid, patience_s=30.0):
    """Wait for the end of a process that is not ours."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], patience_s)[0])
    finally:
        os.close(pidfd)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("how", "cause", "kind"),
    [
        ("raise", "ValueError: boom", FailureKind.RAISED),
        ("exit", "ended with exit status 5 before its function returned", FailureKind.DIED),
        ("exit well", "ended with exit status 0 before its function returned", FailureKind.DIED),
        ("sys.exit", "SystemExit: enough", FailureKind.RAISED),
        ("kill", "killed by SIGKILL (Linux does this when memory runs out)", FailureKind.DIED),
        ("crash", "killed by SIGSEGV", FailureKind.DIED),
        ("interrupt", "KeyboardInterrupt", FailureKind.DIED),
    ],
)
def test_the_rank_that_ended_is_blamed_and_not_the_one_that_lost_it(launcher, tmp_path, rank, how, cause, kind):
    failure = play(launcher, tmp_path, "meets", rank=rank, how=how).to_end().failure
    assert (failure.rank, failure.cause, failure.kind) == (rank, cause, kind)


def test_the_failure_shows_the_functions_own_lines_and_the_last_output(launcher, tmp_path):
    failure = play(launcher, tmp_path, "meets", rank=1, how="raise").to_end().failure
    assert failure.output_tail == ("first line", "last line")
    assert "trained.py" in failure.traceback
    assert os.path.join("rb_core", "launchers", "rank.py") not in failure.traceback
    assert "Traceback" in (tmp_path / "logs" / "trial-0" / "stage-0-rank-1.log").read_text()


def test_a_crash_leaves_its_python_stack_in_the_output(launcher, tmp_path):
    failure = play(launcher, tmp_path, "meets", rank=0, how="crash").to_end().failure
    assert any("Segmentation fault" in line for line in failure.output_tail)


def test_a_frozen_rank_does_not_outlive_the_grace(launcher, tmp_path):
    story = play(launcher, tmp_path, "meets", to_iteration=1_000, rank=1, how="freeze")
    story.handle.stop(0.2)
    failure = story.to_end().failure
    assert "asked to stop" in failure.cause
    assert failure.kind is FailureKind.DIED


def test_what_a_completed_trial_left_running_is_ended(launcher, tmp_path):
    story = play(launcher, tmp_path, "abandons", ranks=1)
    left = int(story.until(Remark).text)
    assert story.to_end().failure is None
    assert not is_running(left)


def test_a_restart_of_a_stage_keeps_the_earlier_output(launcher, tmp_path):
    for _ in range(3):
        play(launcher, tmp_path, "meets", ranks=1).to_end()
    names = sorted(path.name for path in (tmp_path / "logs" / "trial-0").iterdir())
    assert names == ["stage-0-rank-0.2.log", "stage-0-rank-0.3.log", "stage-0-rank-0.log"]


def test_logs_are_private_to_their_owner(launcher, tmp_path):
    play(launcher, tmp_path, "meets", ranks=1).to_end()
    (log,) = (tmp_path / "logs" / "trial-0").iterdir()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_value_that_cannot_be_saved_is_named_and_the_earlier_checkpoint_stays(launcher, tmp_path):
    story = play(launcher, tmp_path, "keeps_a_function", ranks=1, every_s=0.0).to_end()
    assert "thing.inner[1].deep is a builtins.function" in story.failure.cause
    assert story.failure.kind is FailureKind.RAISED
    assert story.failure.traceback == ""
    (saved,) = story.all(Saved)
    assert list(Path(saved.checkpoint).parent.iterdir()) == [Path(saved.checkpoint)]


def test_a_full_disk_is_said_and_the_earlier_checkpoint_stays(launcher, tmp_path):
    story = play(launcher, tmp_path, "fills_the_disk", ranks=1, every_s=0.0).to_end()
    assert "could not be written: File too large; free some space" in story.failure.cause
    (saved,) = story.all(Saved)
    assert list(Path(saved.checkpoint).parent.iterdir()) == [Path(saved.checkpoint)]


def test_threads_follow_the_environment_of_the_run(launcher, tmp_path):
    run = a_run(tmp_path, config={"act": "tells_threads"})
    first = Story(launcher, dataclasses.replace(run, env={"OMP_NUM_THREADS": "3"}))
    assert first.until(Remark).text == "3 3"
    assert first.to_end().failure is None


def test_layers_that_depend_on_the_world_size_are_remarked_on_by_rank_0(launcher, tmp_path):
    story = play(launcher, tmp_path, "normalises").to_end()
    assert story.failure is None
    texts = [message.text for message in story.told_by(0) if isinstance(message, Remark)]
    assert ["BatchNorm" in text for text in texts] == [True, False]
    assert not any(isinstance(message, Remark) for message in story.told_by(1))
    alone = play(launcher, tmp_path, "normalises", ranks=1).to_end()
    assert alone.all(Remark) == []


def test_ranks_that_go_different_ways_are_told_so(launcher, tmp_path):
    failure = play(launcher, tmp_path, "diverges").to_end().failure
    assert "went different ways" in failure.cause


def test_a_killed_fork_server_ends_its_trials_and_is_replaced(tmp_path):
    with DdpLauncher(Target.parse(f"{FUNCTIONS}:act")) as launcher:
        story = play(launcher, tmp_path, "waits")
        rank = int(story.until(Remark).text)
        os.kill(launcher.server_pid, signal.SIGKILL)
        assert story.to_end().failure.kind is FailureKind.DIED
        assert gone(rank)
        assert play(launcher, tmp_path, "meets").to_end().failure is None


def test_a_killed_warden_ends_its_ranks_and_what_they_started(launcher, tmp_path):
    story = play(launcher, tmp_path, "abandons", ranks=1, to_iteration=1_000_000)
    left = int(story.until(Remark).text)
    story.until(Iterated)
    rank = int(Path(f"/proc/{left}/stat").read_text().rpartition(")")[2].split()[1])
    warden = int(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(warden, signal.SIGKILL)
    failure = story.to_end().failure
    assert "guarded" in failure.cause
    assert failure.kind is FailureKind.DIED
    assert gone(rank)
    assert gone(left)
    assert play(launcher, tmp_path, "meets").to_end().all(Reported)
