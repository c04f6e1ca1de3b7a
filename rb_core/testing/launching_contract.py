"""What every launcher of real processes keeps, as a test suite for third parties; see `rb_core.testing`."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeVar

from rb_core.clock import SystemClock
from rb_core.errors import FailureKind, TrialFailure
from rb_core.ports import Launcher, Slot, TrialExit, TrialHandle, TrialNotice, TrialRun
from rb_core.target import Target
from rb_core.testing.depots import FolderDepot
from rb_core.trial import ConfigRead, Iterated, Message, Ready, Remark, Reported, Saved, Trial

M = TypeVar("M", bound=Message)

PATIENCE_S = 120.0
"""After this long without an expected notice a test gives up."""


class LauncherContract(ABC):
    """Subclass it, answer `make`, and let pytest collect the subclass. The functions it trains need no framework."""

    @abstractmethod
    def make(self, target: Target) -> Launcher:
        """A launcher of this training function, not yet entered."""

    def test_a_stage_tells_its_story_in_order(self, tmp_path: Path) -> None:
        """Ready, then for each iteration a score and its end, a checkpoint at the end, the keys read, the exit."""
        with self.make(_target("counts")) as launcher:
            story = Story(launcher, a_run(tmp_path, to_iteration=2)).to_end()
        assert story.failure is None
        assert [type(message) for message in story.told_by(0)] == [
            Ready, Reported, Iterated, Reported, Saved, Iterated, ConfigRead,
        ]  # fmt: skip
        assert [m.iterations for m in story.all(Iterated)] == [1, 2]
        assert [m.score for m in story.all(Reported)] == [1.0, 2.0]
        assert story.all(ConfigRead) == [ConfigRead(keys=("step",))]

    def test_a_trial_goes_on_where_it_was_saved_at_another_world_size(self, tmp_path: Path) -> None:
        """Each stage is a start of its own."""
        with self.make(_target("counts")) as launcher:
            first = Story(launcher, a_run(tmp_path, to_iteration=2)).to_end()
            (saved,) = first.all(Saved)
            run = a_run(tmp_path, ranks=2, stage=1, from_iteration=2, to_iteration=3)
            second = Story(launcher, dataclasses.replace(run, checkpoint=Path(saved.checkpoint))).to_end()
        assert second.failure is None
        assert [m.score for m in second.all(Reported)] == [3.0]

    def test_checkpoints_go_into_a_depot_and_come_back(self, tmp_path: Path) -> None:
        """Where the nodes share no folder: at any world size, and with nothing left on the node."""
        depot = FolderDepot(tmp_path / "depot")
        with self.make(_target("counts")) as launcher:
            run = a_run(tmp_path, ranks=2, to_iteration=2)
            first = Story(launcher, dataclasses.replace(run, depot=depot)).to_end()
            (saved,) = first.all(Saved)
            run = a_run(tmp_path, ranks=2, stage=1, from_iteration=2, to_iteration=3)
            run = dataclasses.replace(run, depot=depot, deposited=saved.checkpoint)
            second = Story(launcher, run).to_end()
        assert (first.failure, second.failure) == (None, None)
        assert [m.score for m in second.all(Reported)] == [3.0]
        assert sorted(depot.references()) == sorted([saved.checkpoint, second.all(Saved)[0].checkpoint])
        assert not run.storage.exists() or not any(run.storage.iterdir())

    def test_a_checkpoint_that_is_damaged_in_the_depot_is_named_by_its_reference(self, tmp_path: Path) -> None:
        """It is the checkpoint that is at fault, neither the function nor the depot."""
        depot = FolderDepot(tmp_path / "depot")
        with self.make(_target("counts")) as launcher:
            first = Story(launcher, dataclasses.replace(a_run(tmp_path), depot=depot)).to_end()
            (saved,) = first.all(Saved)
            os.truncate(Path(saved.checkpoint.removeprefix("file://")) / "count", 0)
            run = a_run(tmp_path, stage=1, from_iteration=1, to_iteration=2)
            run = dataclasses.replace(run, depot=depot, deposited=saved.checkpoint)
            failure = Story(launcher, run).to_end().failure
        assert failure is not None
        assert failure.kind is FailureKind.CHECKPOINT
        assert f"checkpoint {saved.checkpoint} is damaged: count has 0 bytes, not 1" in failure.cause

    def test_a_depot_that_fails_is_told_from_a_failing_function(self, tmp_path: Path) -> None:
        """Nothing was saved then, and nothing is said to have been."""
        (tmp_path / "depot").write_text("no folder")
        with self.make(_target("counts")) as launcher:
            run = dataclasses.replace(a_run(tmp_path), depot=FolderDepot(tmp_path / "depot"))
            story = Story(launcher, run).to_end()
        assert story.failure is not None
        assert story.failure.kind is FailureKind.STORE
        assert story.failure.cause.endswith("cannot be written: Not a directory")
        assert story.all(Saved) == []

    def test_trials_run_beside_each_other(self, tmp_path: Path) -> None:
        """Several starts at a time, each with an exit of its own."""
        with self.make(_target("counts")) as launcher:
            stories = [Story(launcher, a_run(tmp_path, trial=n, to_iteration=1)) for n in range(3)]
            assert all(story.to_end().failure is None for story in stories)

    def test_every_rank_gets_the_variables_of_the_run(self, tmp_path: Path) -> None:
        """The environment is the run's, not that of the launcher's start."""
        with self.make(_target("tells_variable")) as launcher:
            run = dataclasses.replace(a_run(tmp_path, ranks=2), env={"CONTRACT_VARIABLE": "yes"})
            story = Story(launcher, run).to_end()
        assert story.failure is None
        assert [story.told_by(rank)[0] for rank in (0, 1)] == [Remark(text="yes"), Remark(text="yes")]

    def test_the_rank_that_raises_is_named_with_its_traceback_and_output(self, tmp_path: Path) -> None:
        """Not the ones that lose it as a peer."""
        with self.make(_target("raises")) as launcher:
            failure = Story(launcher, a_run(tmp_path, ranks=2, config={"rank": 1})).to_end().failure
        assert failure is not None
        assert (failure.rank, failure.cause) == (1, "ValueError: boom")
        assert failure.kind is FailureKind.RAISED
        assert 'raise ValueError("boom")' in failure.traceback
        assert failure.output_tail == ("about to raise",)

    def test_a_rank_that_was_killed_has_died(self, tmp_path: Path) -> None:
        """It had no say in it, so the trial may do better the next time; not so one that raises."""
        with self.make(_target("is_killed")) as launcher:
            failure = Story(launcher, a_run(tmp_path, ranks=2, config={"rank": 1})).to_end().failure
        assert failure is not None
        assert (failure.rank, failure.kind) == (1, FailureKind.DIED)

    def test_a_checkpoint_that_was_cut_short_is_told_from_a_failing_function(self, tmp_path: Path) -> None:
        """Nor does the function get to see what is left of it."""
        with self.make(_target("counts")) as launcher:
            first = Story(launcher, a_run(tmp_path, to_iteration=1)).to_end()
            saved = Path(first.all(Saved)[0].checkpoint)
            os.truncate(saved / "count", 0)
            run = a_run(tmp_path, stage=1, from_iteration=1, to_iteration=2)
            failure = Story(launcher, dataclasses.replace(run, checkpoint=saved)).to_end().failure
        assert failure is not None
        assert failure.kind is FailureKind.CHECKPOINT
        assert str(saved) in failure.cause

    def test_a_failed_start_is_followed_by_a_good_one(self, tmp_path: Path) -> None:
        """A failure is the trial's, not the launcher's."""
        with self.make(_target("raises")) as launcher:
            assert Story(launcher, a_run(tmp_path, config={"rank": 0})).to_end().failure is not None
            assert Story(launcher, a_run(tmp_path, config={"rank": -1})).to_end().failure is None

    def test_stopping_lets_the_iteration_end_and_saves(self, tmp_path: Path) -> None:
        """A stopped trial is no failure, and loses nothing."""
        with self.make(_target("counts")) as launcher:
            story = Story(launcher, a_run(tmp_path, to_iteration=1_000_000))
            story.until(Iterated)
            story.handle.stop(PATIENCE_S)
            story.handle.stop(PATIENCE_S)
            story.to_end()
        assert story.failure is None
        assert story.all(Saved)[-1].iterations == story.all(Iterated)[-1].iterations

    def test_stopping_a_trial_that_hangs_is_forced_after_the_grace(self, tmp_path: Path) -> None:
        """The grace is an upper limit."""
        with self.make(_target("hangs")) as launcher:
            story = Story(launcher, a_run(tmp_path, ranks=2))
            story.until(Remark)
            story.handle.stop(0.1)
            failure = story.to_end().failure
        assert failure is not None
        assert "asked to stop" in failure.cause
        assert failure.kind is FailureKind.DIED

    def test_killing_ends_a_trial_and_what_it_started(self, tmp_path: Path) -> None:
        """Processes that a rank started, also in a session of their own, are gone at the exit."""
        with self.make(_target("abandons_a_process")) as launcher:
            story = Story(launcher, a_run(tmp_path))
            abandoned = int(story.until(Remark).text)
            assert is_running(abandoned)
            story.handle.kill()
            story.handle.kill()
            failure = story.to_end().failure
        assert failure is not None
        assert failure.kind is FailureKind.DIED
        assert not is_running(abandoned)

    def test_leaving_ends_every_process(self, tmp_path: Path) -> None:
        """Also those of trials that still run; their exits come all the same."""
        with self.make(_target("abandons_a_process")) as launcher:
            story = Story(launcher, a_run(tmp_path))
            abandoned = int(story.until(Remark).text)
        assert story.to_end().failure is not None
        assert not is_running(abandoned)

    def test_what_is_sent_to_a_rank_answers_its_question(self, tmp_path: Path) -> None:
        """The channel goes both ways, and messages of an adapter pass through as they are."""
        with self.make(_target("asks")) as launcher:
            story = Story(launcher, a_run(tmp_path))
            assert story.until(Remark) == Remark(text="may I?")
            story.handle.send(0, Remark(text="you may"))
            story.to_end()
        assert story.failure is None
        assert Remark(text="you may") in story.told_by(0)


class Story:
    """One start, followed through its notices.

    Attributes:
        handle: the started trial.
        failure: of the exit, once `to_end` has returned.
    """

    def __init__(self, launcher: Launcher, run: TrialRun) -> None:
        self._clock = SystemClock()
        self._inbox = self._clock.inbox()
        self._notices: list[TrialNotice] = []
        self._over = False
        self.failure: TrialFailure | None = None
        self.handle: TrialHandle = launcher.start(run, self._inbox)

    def until(self, kind: type[M]) -> M:
        """Wait for the first message of a kind."""
        while not self._over:
            self._next()
            if self._notices and isinstance(message := self._notices[-1].message, kind):
                return message
        raise AssertionError(f"the trial ended without a {kind.__name__}: {self.failure}")

    def to_end(self) -> Story:
        """Wait for the exit."""
        while not self._over:
            self._next()
        return self

    def all(self, kind: type[M]) -> list[M]:
        """Every message of a kind so far, of any rank."""
        return [notice.message for notice in self._notices if isinstance(notice.message, kind)]

    def told_by(self, rank: int) -> list[Message]:
        """Every message of one rank so far."""
        return [notice.message for notice in self._notices if notice.rank == rank]

    def _next(self) -> None:
        notice = self._inbox.get(until_s=self._clock.now() + PATIENCE_S)
        if isinstance(notice, TrialExit):
            self._over, self.failure = True, notice.failure
        elif isinstance(notice, TrialNotice):
            self._notices.append(notice)
        else:
            raise AssertionError(f"expected a notice of the trial within {PATIENCE_S:g} s, got {notice!r}")


def a_run(
    folder: Path,
    *,
    ranks: int = 1,
    trial: int = 0,
    stage: int = 0,
    from_iteration: int = 0,
    to_iteration: int = 1,
    config: dict[str, Any] | None = None,
) -> TrialRun:
    """A start of a trial on slots without GPUs, with storage and logs below `folder`."""
    return TrialRun(
        trial=trial,
        stage=stage,
        config={"step": 1} if config is None else config,
        slots=tuple(Slot(node="n0", index=index) for index in range(ranks)),
        from_iteration=from_iteration,
        to_iteration=to_iteration,
        max_iterations=to_iteration,
        checkpoint=None,
        storage=folder / "checkpoints",
        logs=folder / "logs" / f"trial-{trial}",
    )


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended; one that waits for its parent to notice has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def counts(config: dict[str, Any], trial: Trial) -> None:
    """Train by counting; the count is kept in a folder."""
    folder = trial.load()
    count = int((folder / "count").read_text()) if folder else 0
    for _ in trial.iterations():
        count += config["step"]
        trial.report(count)
        if trial.save_due:
            with trial.save() as folder:
                (folder / "count").write_text(str(count))


def tells_variable(config: dict[str, Any], trial: Trial) -> None:
    """Send an environment variable."""
    trial.channel.send(Remark(text=os.environ["CONTRACT_VARIABLE"]))
    counts(config, trial)


def raises(config: dict[str, Any], trial: Trial) -> None:
    """Raise on the configuration's rank while the others wait for it."""
    if trial.rank == config["rank"]:
        print("about to raise")
        raise ValueError("boom")
    counts({"step": 1}, trial)


def is_killed(config: dict[str, Any], trial: Trial) -> None:
    """Be killed on the configuration's rank while the others wait for it."""
    if trial.rank == config["rank"]:
        os.kill(os.getpid(), signal.SIGKILL)
    counts({"step": 1}, trial)


def hangs(config: dict[str, Any], trial: Trial) -> None:
    """Never come back."""
    for _ in trial.iterations():
        trial.channel.send(Remark(text="hanging"))
        threading.Event().wait()


def abandons_a_process(config: dict[str, Any], trial: Trial) -> None:
    """Start a process in a session of its own and never come back."""
    command = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    child = subprocess.Popen(command, start_new_session=True)
    trial.channel.send(Remark(text=str(child.pid)))
    threading.Event().wait()


def asks(config: dict[str, Any], trial: Trial) -> None:
    """Ask the engine and repeat its answer."""
    trial.channel.send(trial.channel.ask(Remark(text="may I?")))
    counts(config | {"step": 1}, trial)


def _target(function: str) -> Target:
    return Target(name=f"{__name__}:{function}", module=__name__, function=function)
