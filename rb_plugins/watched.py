"""A run as anybody may see it from outside: read from its log and its lease, of which nothing is locked or changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from rb_core.condition import Condition, condition
from rb_core.engine.resumption import elapsed_s
from rb_core.errors import InvalidInput, UnusableLog
from rb_core.events import Event, RunResumed, RunStarted
from rb_core.expectation import expected
from rb_core.hardware import Cloud
from rb_core.lease import Holder, living_holder
from rb_core.ledger import Ledger
from rb_core.logtail import LogTail
from rb_core.plan import AllocationPlan, Problem
from rb_core.ports import Clock
from rb_core.reckoning import Reckoning
from rb_core.report import Figures
from rb_core.simulate import Estimate, simulate
from rb_core.state import RunState, TrialPhase
from rb_core.survey import PROFILING
from rb_plugins.config.cloud import read_cloud
from rb_plugins.forecast import DEFAULT_SAMPLES
from rb_plugins.logged import Logged, logged, no_books, no_run
from rb_plugins.rundir import RunDirectory
from rb_plugins.wording import TOLD, said, words

RECENT = 8
"""So many of the latest events are told of."""

ALIVE = (TrialPhase.WAITING, TrialPhase.RUNNING, TrialPhase.PAUSED)
"""Phases of trials that are still in the contest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One run at one moment.

    Attributes:
        directory: where everything about it is.
        condition: where it stands.
        holder: the process that is at work on it; None when none is.
        reason: why it ended or cannot be read; empty otherwise.
        started: the first event of its log; None where there is none that could be read.
        problem: what holds now; None of a profiling, and where nothing could be read.
        estimate: what was promised; None where that was not looked for.
        state: after the last event that was read.
        bill: what it has cost so far.
        t_s: seconds since it started: now while somebody is at work on it, else of its last event.
        last_utc: wall clock of its last event, ISO 8601; empty where there is none.
        expected: time in seconds and cost in usd of its plan, as it was changed last.
        forecast: the same as it is reckoned with now; None unless it runs.
        counts: how many events of each kind its log holds.
        events: those that came since it was looked at before.
        said: words on these for people.
        recent: words on the latest ones.
    """

    directory: RunDirectory
    condition: Condition
    holder: Holder | None
    reason: str
    started: RunStarted | None
    problem: Problem | None = field(repr=False)
    estimate: Estimate | None = field(repr=False)
    state: RunState = field(repr=False)
    bill: Ledger = field(repr=False)
    t_s: float
    last_utc: str
    expected: Figures | None
    forecast: Figures | None
    counts: Mapping[str, int] = field(repr=False)
    events: Sequence[Event] = field(repr=False)
    said: tuple[str, ...] = field(repr=False)
    recent: tuple[str, ...] = field(repr=False)

    @property
    def profiles(self) -> bool:
        """Whether it is a profiling."""
        return self.started is not None and PROFILING in self.started.problem

    @property
    def name(self) -> str:
        """The beginning of its id that is for people."""
        return self.directory.run.rsplit("-", 3)[0]

    @property
    def elapsed_s(self) -> float:
        """Seconds since its first node request: to the end of its last stage where it is done, else so far."""
        if self.condition is Condition.DONE and self.state.jct_s:
            return self.state.jct_s
        return max(0.0, self.t_s - self.state.began_s)

    @property
    def alive(self) -> int:
        """How many trials are still in the contest."""
        return sum(trial.phase in ALIVE for trial in self.state.trials.values())

    @property
    def stages_ended(self) -> int:
        """How many stages have ended."""
        return sum(stage.end_s is not None for stage in self.state.stages)

    @property
    def wanted(self) -> int:
        """How many nodes its current stages are to have."""
        if self.condition is not Condition.RUNNING:
            return 0
        return sum(stage.nodes for stage in self.state.stages if stage.end_s is None)

    @property
    def ready(self) -> int:
        """How many of the nodes that it holds can hold trials."""
        return sum(self.state.nodes[name].ready_s is not None for name in self.state.held)

    @property
    def requested(self) -> int:
        """How many of the nodes that it holds have been asked for and are not ready."""
        return len(self.state.held) - self.ready

    @property
    def deadline_s(self) -> float | None:
        """Its deadline, in seconds since the first node request."""
        objective = None if self.problem is None else self.problem.objective
        return None if objective is None else objective.deadline_s

    @property
    def budget_usd(self) -> float | None:
        """Its budget."""
        objective = None if self.problem is None else self.problem.objective
        return None if objective is None else objective.budget_usd

    @property
    def deadline_kept(self) -> bool | None:
        """Whether the deadline was kept, or is expected to be; None without one, and where nobody can say."""
        if self.condition is Condition.DEADLINE:
            return False
        return self._kept(self.deadline_s, self.elapsed_s, None if self.forecast is None else self.forecast[0])

    @property
    def budget_kept(self) -> bool | None:
        """The same of the budget."""
        return self._kept(self.budget_usd, self.bill.cost_usd, None if self.forecast is None else self.forecast[1])

    @property
    def resumable(self) -> bool:
        """Whether `rb-tune` can go on with it."""
        left = self.condition not in (Condition.DONE, Condition.UNREADABLE)
        return left and not self.condition.lives and not self.profiles and self.directory.request.exists()

    def _kept(self, limit: float | None, so_far: float, at_the_end: float | None) -> bool | None:
        if limit is None:
            return None
        if so_far > limit:
            return False
        if self.condition is Condition.DONE:
            return True
        return None if at_the_end is None else at_the_end <= limit


class Watch:
    """One run that is looked at, once or again and again."""

    def __init__(self, directory: RunDirectory, clock: Clock, *, whole: bool = True) -> None:
        """Nothing has been looked at.

        Args:
            directory: of the run.
            clock: the time.
            whole: whether what was promised is wanted also of a run that nobody is at work on.
        """
        self._directory = directory
        self._clock = clock
        self._whole = whole
        self._tail = LogTail(directory.events)
        self._problem = ""
        self._forget()

    def look(self) -> Watched:
        """The run now. What cannot be read is told as `Condition.UNREADABLE`, and nothing is raised."""
        # Who is at work is looked at first: what that process writes before it goes is then in the log.
        holder = living_holder(self._directory.lease, self._clock)
        if not self._problem:
            try:
                self._read(holder)
            except UnusableLog as error:
                self._problem = str(error)
            except (KeyError, IndexError) as error:
                self._problem = (
                    f"event log {self._directory.events} speaks of what it never introduced ({error}): it was edited, "
                    "or lines of it are missing; restore the file as rb-tune wrote it"
                )
        return self._seen(holder)

    def _forget(self) -> None:
        self._reckoning: Reckoning | None = None
        self._told: Logged | None = None
        self._estimate: Estimate | None = None
        self._started: RunStarted | None = None
        self._began: Event | None = None
        self._last: Event | None = None
        self._new: Sequence[Event] = ()
        self._said: tuple[str, ...] = ()
        self._recent: deque[str] = deque(maxlen=RECENT)

    def _read(self, holder: Holder | None) -> None:
        self._new = self._said = ()
        reading = self._tail.read()
        if reading.anew:
            self._forget()
        if not reading.events:
            return
        first = self._reckoning is None
        reckoning = self._begin(reading.events, holder) if self._reckoning is None else self._reckoning
        matter = [number for number, event in enumerate(reading.events) if isinstance(event, TOLD)]
        worded = set(islice(reversed(matter), RECENT)) if first else set(matter)
        told: list[str] = []
        for number, event in enumerate(reading.events):
            reckoning.take(event)
            if isinstance(event, RunStarted | RunResumed):
                self._began = event
                if not first and self._told is not None and self._started is not None:
                    self._told = logged((self._started, event), self._directory)
            if number in worded:
                experiment = None if self._told is None else self._told.first.experiment
                told.append(said(event, words(event, reckoning, experiment)))
        self._last = reading.events[-1]
        self._new, self._said = reading.events, tuple(told)
        self._recent.extend(told)

    def _begin(self, events: Sequence[Event], holder: Holder | None) -> Reckoning:
        started = events[0]
        if not isinstance(started, RunStarted):
            raise no_run(self._directory)
        self._started = started
        if PROFILING in started.problem:
            self._reckoning = Reckoning(_cloud(started, self._directory))
            return self._reckoning
        told = self._told = logged(events, self._directory)
        if self._whole or holder is not None:
            rng = np.random.default_rng(started.seed)
            self._estimate = simulate(told.first, told.plan, samples=DEFAULT_SAMPLES, rng=rng)
        self._reckoning = Reckoning(
            told.problem.cloud, estimate=self._estimate, expected=_expected(self._directory, told.first, told.plan)
        )
        return self._reckoning

    def _seen(self, holder: Holder | None) -> Watched:
        where = self._condition(holder)
        if where in (Condition.KILLED, Condition.UNBEGUN):
            # It may have begun, or been resumed, since its holder was looked for.
            holder = living_holder(self._directory.lease, self._clock)
            where = self._condition(holder)
        reckoning = self._reckoning
        state = RunState() if reckoning is None else reckoning.state
        t_s = self._now_s() if where is Condition.RUNNING else state.t_s
        reckoned = where is Condition.RUNNING and self._estimate is not None
        return Watched(
            directory=self._directory,
            condition=where,
            holder=holder,
            reason=self._problem or state.reason,
            started=self._started,
            problem=None if self._told is None else self._told.problem,
            estimate=self._estimate,
            state=state,
            bill=Ledger(cost_usd=0.0, stages=()) if reckoning is None else reckoning.bill(t_s),
            t_s=t_s,
            last_utc="" if self._last is None else self._last.utc,
            expected=None if reckoning is None else reckoning.expected,
            forecast=reckoning.forecast(t_s) if reckoning is not None and reckoned else None,
            counts={} if reckoning is None else dict(reckoning.counts),
            events=self._new,
            said=self._said,
            recent=tuple(self._recent),
        )

    def _now_s(self) -> float:
        """Seconds since the run started, at whose work a process is."""
        if self._began is None or self._last is None:
            return 0.0
        try:
            return elapsed_s([self._began, self._last], self._clock)
        except UnusableLog:
            return self._last.t_s

    def _condition(self, holder: Holder | None) -> Condition:
        if self._problem:
            return Condition.UNREADABLE
        ending = None if self._reckoning is None else self._reckoning.state.ending
        last = self._last
        silent = holder is not None and last is not None and holder.came_after(last.utc)
        return condition(began=last is not None, ending=ending, lives=holder is not None, silent=silent)


def _cloud(started: RunStarted, directory: RunDirectory) -> Cloud:
    try:
        return read_cloud(started.problem.get("cloud"), folder=directory.path, price_books=no_books)
    except InvalidInput as error:
        raise UnusableLog(f"event log {directory.events}: the cloud that was profiled is not whole: {error}") from None


def _expected(directory: RunDirectory, problem: Problem, plan: AllocationPlan) -> Figures:
    """As it was told when the plan was made, where that is kept."""
    figures = directory.read("plan.json").get("expected", {})
    try:
        return float(figures["jct_s"]), float(figures["cost_usd"])
    except (KeyError, TypeError, ValueError):
        return expected(problem, plan)
