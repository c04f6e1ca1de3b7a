"""The log of a run of Tune's: in a run directory like every other run's, and held while the run is at work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rb_core.engine.resumption import elapsed_s
from rb_core.errors import UnusableLog
from rb_core.eventlog import EventLog, read_log
from rb_core.events import RunEnded, RunEnding, RunResumed, RunStarted
from rb_core.journal import Journal
from rb_core.lease import Lease, check_free
from rb_core.plainjson import plain
from rb_core.plan import AllocationPlan, Problem
from rb_core.ports import Clock
from rb_core.state import fold
from rb_plugins.config.problem import problem_table
from rb_plugins.requested import environment
from rb_plugins.rundir import HOME_VARIABLE, RunDirectory

_UNFINISHED = "the experiment ended before its stages were over; Tuner.restore goes on with it"


class RunLog:
    """A run's directory, its lock, and its journal.

    Attributes:
        directory: of the run.
        journal: where its events go.
        begun: whether it holds the start of the run.
        earlier: whether it was begun before this object was made.
    """

    def __init__(self, home: Path, run: str, clock: Clock) -> None:
        """Hold the directory of a run; made when it is not there.

        Args:
            home: where runs are kept.
            run: id of the run.
            clock: the time.

        Raises:
            UnusableLog: it cannot be made, read or written, or another process is at work on it.
        """
        self.directory = _directory(home, run)
        self._clock = clock
        check_free(self.directory.lease, clock)
        with ExitStack() as stack:
            log = stack.enter_context(EventLog(self.directory.events))
            stack.enter_context(Lease(self.directory.lease, clock))
            history = read_log(self.directory.events).events
            self._problem: Mapping[str, Any] = {}
            if history:
                self._problem = _problem(history[0], self.directory)
                state, t_s = fold(history), elapsed_s(history, clock)
                self.journal = Journal(log, clock, state=state, t_s=t_s)
            else:
                self.journal = Journal(log, clock)
            self._held = stack.pop_all()
        self.begun = self.earlier = bool(history)

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.directory.run

    def begin(self, problem: Problem, plan: AllocationPlan, *, metric: str, mode: str, seed: int, target: str) -> None:
        """Write the start of the run, once. Raises `UnusableLog`."""
        if self.begun:
            return
        self.directory.write("problem.json", problem_table(problem))
        self.journal.write(
            RunStarted,
            run=self.run,
            problem=dict(plain(problem_table(problem))),
            plan=plan.record(problem.experiment),
            metric=metric,
            mode=mode,
            seed=seed,
            target=target,
            environment=environment(),
            clock=self._clock.origin,
            clock_s=self._clock.now(),
        )
        self.begun = True

    def go_on(self) -> None:
        """Write that another process goes on with it. Raises `UnusableLog`."""
        self.journal.write(
            RunResumed,
            problem=self._problem,
            environment=environment(),
            clock=self._clock.origin,
            clock_s=self._clock.now(),
            run=self.journal.state.run,
            metric=self.journal.state.metric,
        )

    def keep(self, name: str, table: Mapping[str, Any]) -> None:
        """Keep a JSON file beside the log. Raises `UnusableLog`."""
        self.directory.write(name, table)

    def end(self) -> None:
        """Write how the run ended, by what the log says of its stages, and close it."""
        if self.begun:
            stages, count = self.journal.state.stages, sum(self.journal.state.stage_counts)
            over = len(stages) in (0, count) and all(stage.end_s is not None for stage in stages)
            ending, reason = (RunEnding.DONE, "") if over else (RunEnding.INTERRUPTED, _UNFINISHED)
            self.journal.attempt(RunEnded, ending=ending, reason=reason)
        self.close()

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._held.close()


def _directory(home: Path, run: str) -> RunDirectory:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", run).strip("-.") or "run"
    path = home / "runs" / name
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableLog(
            f"run directory {path} cannot be made: {error.strerror}; set {HOME_VARIABLE} to a folder that can be "
            "written to"
        ) from None
    return RunDirectory(path)


def _problem(first: object, directory: RunDirectory) -> Mapping[str, Any]:
    if not isinstance(first, RunStarted):
        raise UnusableLog(f"event log {directory.events} does not begin with the start of a run; move it away")
    return first.problem
