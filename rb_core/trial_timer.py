"""Starts trials side by side, again from their checkpoints, and times every part of each start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rb_core.errors import TrialFailure
from rb_core.measurement import Measurement
from rb_core.ports import Clock, Depot, Errand, Launcher, Notice, Slot, TrialExit, TrialHandle, TrialNotice, TrialRun
from rb_core.training import checkpoint
from rb_core.trial import ConfigRead, Iterated, Message, Ready, Remark, Reported, Saved

KILL_WAIT_S = 15.0
"""How long to wait for the processes of a killed trial to be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every start is given.

    Attributes:
        folder: for checkpoints and output; all of it may be deleted afterwards.
        seed: seed of the run.
        max_iterations: what the function is told of the experiment's length.
        env: variables for every rank.
        depot: keeps the checkpoints in the place of `folder`; all that is in it may be deleted afterwards.
    """

    folder: Path
    seed: int
    max_iterations: int
    env: Mapping[str, str] | None
    depot: Depot | None = None


@dataclass(slots=True, kw_only=True)
class Findings:
    """What all starts so far had to say beside their times."""

    keys_read: set[str] = field(default_factory=set)
    scores: list[float] = field(default_factory=list)
    remarks: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a start had come when it was cut off.

    Attributes:
        begun: whether its first iteration had begun.
        iterations_s: length of the iterations that it did end.
    """

    begun: bool
    iterations_s: tuple[float, ...]


@dataclass(slots=True, kw_only=True)
class _Start:
    """A start that is under way."""

    config: int
    run: TrialRun
    later: Sequence[int]
    handle: TrialHandle
    began_s: float
    ready_s: float | None = None
    restore_s: float = 0.0
    iterations_s: list[float] = field(default_factory=list)
    ended_s: float = 0.0
    saved: str = ""
    saved_bytes: int = 0
    cut: bool = False

    @property
    def progress(self) -> Progress:
        return Progress(begun=self.ready_s is not None, iterations_s=tuple(self.iterations_s))

    @property
    def remaining(self) -> int:
        return self.run.to_iteration - self.run.from_iteration - len(self.iterations_s)

    def measurement(self, now_s: float) -> Measurement:
        ready_s = self.began_s if self.ready_s is None else self.ready_s
        return Measurement(
            slots=len(self.run.slots),
            config=self.config,
            from_iteration=self.run.from_iteration,
            start_s=ready_s - self.began_s,
            restore_s=self.restore_s,
            iterations_s=tuple(self.iterations_s),
            save_s=now_s - self.ended_s,
            checkpoint_bytes=self.saved_bytes,
        )


@dataclass(slots=True, kw_only=True)
class Timed:
    """What became of one group.

    Attributes:
        measurements: starts that ran to their end.
        failures: the first failure of each configuration that failed.
        unfinished: how far each configuration had come that the deadline cut off.
    """

    measurements: list[Measurement] = field(default_factory=list)
    failures: dict[int, TrialFailure] = field(default_factory=dict)
    unfinished: dict[int, Progress] = field(default_factory=dict)


class TrialTimer:
    """Times groups of trials, one group after another, and never beyond a deadline."""

    def __init__(self, launcher: Launcher, clock: Clock, surroundings: Surroundings, *, deadline_s: float) -> None:
        """Make a timer.

        Args:
            launcher: entered already, so that no start pays for its warming up.
            clock: the clock that times and that `deadline_s` is read on.
            surroundings: what every start is given.
            deadline_s: when to cut off whatever still runs.
        """
        self.findings = Findings()
        self._launcher = launcher
        self._clock = clock
        self._around = surroundings
        self._deadline_s = deadline_s
        self._inbox = clock.inbox()
        self._trials = 0

    def time(
        self,
        group: Sequence[tuple[int, Mapping[str, Any]]],
        places: Sequence[tuple[Slot, ...]],
        starts: Sequence[int],
    ) -> Timed:
        """Run configurations side by side; each is started once for every number in `starts`.

        A start goes on from the checkpoint of the one before, on the same slots. One that cannot end before the
        deadline, at the pace of its iterations so far, is cut off at once. Nothing is left running.

        Args:
            group: numbers and configurations, one for each place; the same one may stand there twice.
            places: the slots of each.
            starts: iterations of each start.
        """
        timed = Timed()
        running: dict[int, _Start] = {}
        try:
            for (number, config), slots in zip(group, places, strict=True):
                self._trials += 1
                run = TrialRun(
                    trial=self._trials,
                    stage=0,
                    config=config,
                    slots=slots,
                    from_iteration=0,
                    to_iteration=starts[0],
                    max_iterations=max(self._around.max_iterations, sum(starts)),
                    checkpoint=None,
                    storage=self._around.folder,
                    logs=self._around.folder / "logs" / f"trial-{self._trials}",
                    seed=self._around.seed,
                    checkpoint_every_s=float("inf"),
                    env=self._around.env,
                    depot=self._around.depot,
                )
                running[run.trial] = self._start(number, run, starts[1:])
            while running and (notice := self._inbox.get(self._deadline_s)) is not None:
                self._take(notice, running, timed)
        finally:
            self._end(running, timed)
        return timed

    def _start(self, config: int, run: TrialRun, later: Sequence[int]) -> _Start:
        began_s = self._clock.now()
        handle = self._launcher.start(run, self._inbox)
        return _Start(config=config, run=run, later=later, handle=handle, began_s=began_s)

    def _take(self, notice: Notice, running: dict[int, _Start], timed: Timed) -> None:
        if isinstance(notice, Errand):
            notice.action()
        elif isinstance(notice, TrialExit) and notice.trial in running:
            following = self._exited(running.pop(notice.trial), notice, timed)
            if following is not None:
                running[notice.trial] = following
        elif isinstance(notice, TrialNotice) and notice.trial in running:
            self._heard(running[notice.trial], notice.rank, notice.message)

    def _heard(self, start: _Start, rank: int, message: Message) -> None:
        now_s = self._clock.now()
        match message:
            case Ready(restore_s=restore_s) if rank == 0:
                start.ready_s = start.ended_s = now_s
                start.restore_s = restore_s
            case Iterated(seconds=seconds) if rank == 0:
                start.iterations_s.append(seconds)
                start.ended_s = now_s
                if start.remaining and now_s + start.remaining * seconds > self._deadline_s:
                    start.cut = True
                    start.handle.kill()
            case Saved(checkpoint=path, size_bytes=size):
                start.saved, start.saved_bytes = path, size
            case Reported(score=score):
                self.findings.scores.append(score)
            case ConfigRead(keys=keys):
                self.findings.keys_read.update(keys)
            case Remark(text=text):
                self.findings.remarks[text] = None
            case _:
                pass

    def _exited(self, start: _Start, exit: TrialExit, timed: Timed) -> _Start | None:
        """Book a start that is over; the following one, if there is to be one."""
        if start.cut:
            timed.unfinished[start.config] = start.progress
        elif exit.failure is not None:
            timed.failures.setdefault(start.config, exit.failure)
        elif start.remaining:
            cause = f"the function ended {start.remaining} iteration(s) early"
            timed.failures[start.config] = TrialFailure(trial=start.run.trial, rank=0, cause=cause)
        else:
            timed.measurements.append(start.measurement(self._clock.now()))
            if start.later:
                done = start.run.to_iteration
                run = replace(
                    start.run,
                    stage=start.run.stage + 1,
                    from_iteration=done,
                    to_iteration=done + start.later[0],
                    checkpoint=Path(start.saved) if start.saved and start.run.depot is None else None,
                    deposited="" if start.run.depot is None else start.saved,
                )
                return self._start(start.config, run, start.later[1:])
        checkpoint.delete(checkpoint.trial_folder(self._around.folder, start.run.trial))
        return None

    def _end(self, running: dict[int, _Start], timed: Timed) -> None:
        """Kill what still runs and wait until it is gone."""
        for start in running.values():
            timed.unfinished[start.config] = start.progress
            start.handle.kill()
        limit_s = self._clock.now() + KILL_WAIT_S
        while running and (notice := self._inbox.get(limit_s)) is not None:
            if isinstance(notice, Errand):
                notice.action()
            elif isinstance(notice, TrialExit):
                running.pop(notice.trial, None)
