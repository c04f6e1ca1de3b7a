"""One rehearsal: the real engine on a manual clock, killed and resumed as chance has it, until the run has ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rb_core.clock import ManualClock
from rb_core.engine import Engine, RunRequest
from rb_core.errors import UnusableLog
from rb_core.events import Event, NodeRequested, RunEnded, RunStarted
from rb_core.plan import AllocationPlan, Problem
from rb_core.sim.cloud import SimCloud
from rb_core.sim.curves import Curves
from rb_core.sim.driver import DrivenClock, DrivenLauncher, DrivenProvider, Driver, DriverKilled
from rb_core.sim.durations import Durations
from rb_core.sim.evidence import Evidence
from rb_core.sim.fates import Fates, NodeFate
from rb_core.sim.faults import Faults
from rb_core.sim.launcher import SimLauncher, Training
from rb_core.sim.provider import SimProvider
from rb_core.sim.simlog import SimLog
from rb_core.sim.store import SimStore
from rb_core.state import RunState, apply

RUN = "rehearsal"
"""Id of every rehearsed run."""

PATIENCE = 20.0
"""The engine's patience with silent trials, unless told otherwise."""

MEAN_ABSENCE_S = 60.0
"""Mean time between the death of a process and the next one's resumption."""

_STEPS_EVERY = 50
"""The wall clock jumps about once in so many events."""


class World:
    """Everything that the engine meets in one rehearsal."""

    def __init__(
        self,
        problem: Problem,
        plan: AllocationPlan,
        *,
        seed: int,
        faults: Faults,
        curves: Curves,
        durations: Durations | None = None,
        truth: Problem | None = None,
        **options: Any,
    ) -> None:
        """A world in which nothing has happened.

        Args:
            problem: what is run.
            plan: the allocations to begin with.
            seed: of all that is left to chance.
            faults: what can go wrong.
            curves: scores of the trials.
            durations: of their iterations, with the speed of each; as the profile has them by default.
            truth: the same experiment as it really is, where `problem` is what is believed of it; its profile and
                latencies are what happens. `problem` itself by default.
            options: other attributes of `RunRequest`.
        """
        values: dict[str, Any] = {"sync_s": problem.profile.sync_s, "patience": PATIENCE, "seed": seed, **options}
        self.request = RunRequest(
            run=RUN,
            problem=problem,
            plan=plan,
            configs=({},) * problem.experiment.trials,
            storage=Path("checkpoints"),
            logs=Path("logs"),
            **values,
        )
        self.clock = ManualClock()
        real = truth or problem
        self.fates = Fates(real if durations is None else _of_one_speed(real), faults, seed)
        self.store = SimStore(torn=faults.checkpoint_torn, rng=self.fates.saves)
        self.cloud = SimCloud(self.clock, faults, self._fate, self.fates.losses, self.fates.droughts)
        self.training = Training(real, faults, self.fates, curves, self.cloud, self.store, durations)
        self._faults = faults
        self._stage_of: dict[str, tuple[int, int]] = {}
        usual = _usual_events(problem, plan)
        rng = self.fates.kills
        kills = sorted(int(at) for at in rng.integers(usual, size=rng.poisson(faults.driver_kill_per_run)))
        most = 100 * (usual + _usual_saves(self.request, faults)) + 1000
        self.log = SimLog(kills, most=most, rng=rng, on_event=self._on_event)

    def run(self) -> Evidence:
        """Run to the end, however many processes that takes."""
        killed_s: list[float] = []
        while True:
            driver = Driver()
            error = self._live(driver)
            if not driver.alive:
                killed_s.append(self.clock.now())
            if driver.alive or (self.log.events and isinstance(self.log.events[-1], RunEnded)):
                break
            absent_until_s = self.clock.now() + float(self.fates.kills.exponential(MEAN_ABSENCE_S))
            while self.clock.advance(absent_until_s):
                pass
        state, broken = _folded(self.log.events)
        return Evidence(
            request=self.request,
            events=tuple(self.log.events),
            began_s=_began_s(self.log.events),
            state=state,
            nodes=self.cloud.books,
            owned=self.cloud.owned(RUN),
            starts=tuple(self.training.starts),
            scores=self.training.scores,
            store=self.store,
            killed_s=tuple(killed_s),
            faults=self._faults,
            endless=self.log.full,
            error=error or broken,
        )

    def engine(self, driver: Driver) -> Engine:
        """The engine of one process."""
        clock = DrivenClock(self.clock, driver)
        inbox = clock.inbox()
        provider = SimProvider(self.cloud, inbox, answer_lost=self._faults.answer_lost, rng=self.fates.calls)
        launcher = SimLauncher(self.clock, self.training, self.cloud)
        return Engine(
            provider=DrivenProvider(provider, driver),
            launcher=DrivenLauncher(launcher, driver),
            clock=clock,
            inbox=inbox,
            log=self.log,
            remove=self.store.remove,
        )

    def _live(self, driver: Driver) -> Exception | None:
        """One process, from its start to its end or death."""
        self.log.driver = driver
        engine, history = self.engine(driver), self.log.history()
        try:
            if history:
                engine.resume(self.request, history)
            else:
                engine.run(self.request)
        except Exception as error:
            # A dead engine may raise anything while it unwinds.
            return error if driver.alive else None
        except DriverKilled:
            pass
        return None

    def _fate(self, name: str) -> NodeFate:
        return self.fates.node(*self._stage_of.get(name, (0, 0)))

    def _on_event(self, event: Event) -> None:
        if type(event) is NodeRequested:
            self._stage_of[event.node] = (event.chain, event.stage)
        if self._faults.clock_step_s and self.fates.steps.random() < 1 / _STEPS_EVERY:
            self.clock.step(self._faults.clock_step_s * float(self.fates.steps.choice((-1.0, 1.0))))


def _of_one_speed(problem: Problem) -> Problem:
    """The same with configurations of one speed, and no other than the profile has."""
    return replace(problem, profile=replace(problem.profile, trial_cv=0.0, run_cv=0.0))


def _folded(history: Sequence[Event]) -> tuple[RunState, Exception | None]:
    """The state after these events, or as far as they fit each other, and why not further."""
    state = RunState()
    try:
        for event in history:
            apply(state, event)
    except KeyError as missing:
        return state, UnusableLog(f"the log speaks of {missing}, which it never introduced")
    return state, None


def _began_s(history: Sequence[Event]) -> float:
    first = history[0] if history else None
    return first.clock_s if isinstance(first, RunStarted) else 0.0


def _usual_events(problem: Problem, plan: AllocationPlan) -> int:
    """About how many events a run without faults writes."""
    nodes = sum(allocation.nodes for chain in plan.chains for allocation in chain)
    experiment = problem.experiment
    stages = sum(len(chain) for chain in experiment.chains)
    return 2 + experiment.trials + 2 * stages + 2 * nodes + 6 * experiment.trial_stages


def _usual_saves(request: RunRequest, faults: Faults) -> int:
    """About how many checkpoints within their stages all trials write, at most."""
    problem = request.problem
    slowest_s = max(latency.mean for latency in problem.profile.iteration_s.values()) * faults.true_iteration_factor
    iterations = problem.experiment.trial_iterations
    return min(iterations, math.ceil(iterations * slowest_s / request.checkpoint_every_s))
