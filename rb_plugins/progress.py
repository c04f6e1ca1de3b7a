"""A run as it goes, on standard error: one live line on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from rb_core.events import (
    Event,
    NodeLeaving,
    NodeLost,
    NodeReleased,
    Replanned,
    RunEnded,
    RunResumed,
    StageEnded,
    StageStarted,
    Warned,
)
from rb_core.expectation import expected
from rb_core.ledger import cost_usd
from rb_core.plan import AllocationPlan, Problem
from rb_core.ports import Clock
from rb_core.report import duration, money
from rb_core.simulate import Estimate
from rb_core.state import TrialPhase, apply, fold
from rb_plugins import show

if TYPE_CHECKING:
    from rich.text import Text


class Progress:
    """Watches one run: call it with every event."""

    def __init__(
        self, problem: Problem, plan: AllocationPlan, estimate: Estimate, clock: Clock, history: Sequence[Event] = ()
    ) -> None:
        """A run that begins, or goes on.

        Args:
            problem: what was planned.
            plan: what the run is measured against.
            estimate: samples of the plan.
            clock: the run's clock.
            history: what happened before.
        """
        self._cloud = problem.cloud
        self._experiment = problem.experiment
        self._parallel = plan.order == "parallel"
        self._jct_s, self._cost_usd = expected(problem, plan)
        self._stage_s = {
            (part.chain, part.stage): float(np.mean(part.end_s - part.start_s)) for part in estimate.stages
        }
        self._clock = clock
        self._state = fold(history)
        self._heard_s = clock.now()
        # The live line is drawn by a thread of its own.
        self._lock = threading.Lock()
        self._say: Callable[[str], object] = show.note

    def __call__(self, event: Event) -> None:
        """Take an event in, and say so when it matters to a person."""
        with self._lock:
            apply(self._state, event)
            if isinstance(event, Replanned) and not self._parallel:
                # Side by side each lane tells of itself alone.
                self._jct_s, self._cost_usd = event.jct_s, event.cost_usd
            self._heard_s = self._clock.now()
            words = self._words(event)
        if words:
            self._say(f"[{duration(event.t_s):>10}] {words}")

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
            state = self._state
            t_s = state.t_s + self._clock.now() - self._heard_s
            usd = cost_usd(state, self._cloud, t_s)
            phases = [trial.phase for trial in state.trials.values()]
            done = sum(stage.end_s is not None for stage in state.stages)
            best = state.best()
            score = "" if best is None else f" | best {state.metric} {best.score:.4g} (trial {best.trial})"
            return (
                f"stage {min(done + 1, len(self._stage_s))} of {len(self._stage_s)}"
                f" | {duration(t_s)} of {duration(self._jct_s)}, {duration(self._left_s(t_s))} left"
                f" | {money(usd)} of {money(self._cost_usd)} | {len(state.held)} nodes"
                f" | {phases.count(TrialPhase.RUNNING)} trials run, {phases.count(TrialPhase.WAITING)} wait{score}"
            )

    def _drawn(self) -> Text:
        from rich.text import Text

        return Text(self.text(), no_wrap=True, overflow="ellipsis")

    def _left_s(self, t_s: float) -> float:
        """Expected time to the end: what the stages ahead take, and what is left of the running one."""
        left: dict[int, float] = {}
        ended = {(stage.chain, stage.stage) for stage in self._state.stages if stage.end_s is not None}
        began_s = {(stage.chain, stage.stage): stage.start_s for stage in self._state.stages}
        for key, expected_s in self._stage_s.items():
            if key not in ended:
                gone_s = t_s - began_s[key] if key in began_s else 0.0
                left[key[0]] = left.get(key[0], 0.0) + max(0.0, expected_s - gone_s)
        return max(left.values(), default=0.0) if self._parallel else sum(left.values())

    def _words(self, event: Event) -> str:
        state = self._state
        match event:
            case StageStarted():
                stage = self._experiment.chains[event.chain][event.stage]
                return (
                    f"{self._stage(event.chain, event.stage)}: {len(event.trials)} trials x {stage.iterations} "
                    f"iterations on {event.nodes} {event.instance_type}, {event.slots_per_trial} slots each"
                )
            case StageEnded():
                best = state.best()
                score = "" if best is None else f"; best {state.metric} {best.score:.4g} (trial {best.trial})"
                going = f"{len(event.survivors)} go on" if event.stopped else f"{len(event.survivors)} are through"
                return f"{self._stage(event.chain, event.stage)} ended: {going}{score}"
            case NodeReleased():
                usd = cost_usd(state, self._cloud)
                return (
                    f"{self._node(event.node)} given back ({event.reason}), {len(state.held)} held; "
                    f"{money(usd)} so far, {money(self._cost_usd)} expected in all"
                )
            case NodeLeaving():
                return f"{self._node(event.node)} will be taken away in {duration(event.in_s)}: {event.reason}"
            case Replanned():
                stages = [stage for part in event.plan.get("chains", [event.plan]) for stage in part["stages"]]
                rest = " > ".join(f"{s['nodes']} {s['instance_type']}/{s['slots_per_trial']}" for s in stages)
                return (
                    f"planned anew ({event.reason}): {duration(event.jct_s)} and {money(event.cost_usd)} expected in "
                    f"all, instead of {duration(event.before_jct_s)} and {money(event.before_cost_usd)}; from "
                    f"{self._stage(event.chain, event.stage)} on {rest} (nodes/slots per trial)"
                )
            case RunResumed():
                ended = sum(stage.end_s is not None for stage in state.stages)
                return f"run {state.run} goes on: {ended} of {len(self._stage_s)} stages are done"
            case NodeLost():
                return f"{self._node(event.node)} lost: {event.reason}"
            case Warned():
                return f"warning: {event.text}"
            case RunEnded():
                return f"run {event.ending.value}" + (f": {event.reason.splitlines()[0]}" if event.reason else "")
        return ""

    def _stage(self, chain: int, stage: int) -> str:
        return f"stage {stage}" if len(self._experiment.chains) == 1 else f"chain {chain}, stage {stage}"

    def _node(self, name: str) -> str:
        return f"node {name.removeprefix(self._state.run + '-')}"
