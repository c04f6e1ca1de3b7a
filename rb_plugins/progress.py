"""A run as it goes, on standard error: one live line on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rb_core.events import Event, Warned
from rb_core.expectation import expected
from rb_core.ledger import cost_usd
from rb_core.plan import AllocationPlan, Problem
from rb_core.ports import Clock
from rb_core.reckoning import Reckoning
from rb_core.report import duration, money
from rb_core.simulate import Estimate
from rb_core.state import TrialPhase
from rb_plugins import show
from rb_plugins.wording import said, words

if TYPE_CHECKING:
    from rich.text import Text


class Progress:
    """Watches one run: call it with every event."""

    def __init__(
        self,
        problem: Problem,
        plan: AllocationPlan,
        estimate: Estimate,
        clock: Clock,
        history: Sequence[Event] = (),
        told: Collection[str] = (),
    ) -> None:
        """A run that begins, or goes on.

        Args:
            problem: what was planned.
            plan: what the run is measured against.
            estimate: samples of the plan.
            clock: the run's clock.
            history: what happened before.
            told: warnings that were shown before the run began.
        """
        self._told = frozenset(told)
        self._cloud = problem.cloud
        self._experiment = problem.experiment
        self._expected = expected(problem, plan)
        self._stages = len(estimate.stages)
        self._reckoning = Reckoning(problem.cloud, estimate=estimate, expected=self._expected)
        for event in history:
            self._reckoning.take(event)
        self._clock = clock
        self._heard_s = clock.now()
        # The live line is drawn by a thread of its own.
        self._lock = threading.Lock()
        self._say: Callable[[str], object] = show.note

    def __call__(self, event: Event) -> None:
        """Take an event in, and say so when it matters to a person."""
        with self._lock:
            self._reckoning.take(event)
            self._heard_s = self._clock.now()
            told = words(event, self._reckoning, self._experiment)
        if told and not (isinstance(event, Warned) and event.text in self._told):
            self._say(said(event, told))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Keep a live line while this lasts, on a terminal."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, markup=False, highlight=False)
        self._say = console.print
        with Live(get_renderable=self._drawn, console=console, transient=True):
            yield
        self._say = show.note

    def text(self) -> str:
        """Where the run stands, in one line."""
        with self._lock:
            state = self._reckoning.state
            t_s = state.t_s + self._clock.now() - self._heard_s
            usd = cost_usd(state, self._cloud, t_s)
            left_s = self._reckoning.left_s(t_s)
            jct_s, all_usd = self._reckoning.expected or self._expected
            phases = [trial.phase for trial in state.trials.values()]
            done = sum(stage.end_s is not None for stage in state.stages)
            best = state.best()
            score = "" if best is None else f" | best {state.metric} {best.score:.4g} (trial {best.trial})"
            return (
                f"stage {min(done + 1, self._stages)} of {self._stages}"
                f" | {duration(t_s)} of {duration(jct_s)}, {duration(left_s)} left"
                f" | {money(usd)} of {money(all_usd)} | {len(state.held)} nodes"
                f" | {phases.count(TrialPhase.RUNNING)} trials run, {phases.count(TrialPhase.WAITING)} wait{score}"
            )

    def _drawn(self) -> Text:
        from rich.text import Text

        return Text(self.text(), no_wrap=True, overflow="ellipsis")
