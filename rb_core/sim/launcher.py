"""The simulated launcher: trials that take their time, score by their curves, and fail as fate has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate

from rb_core.errors import DamagedCheckpoint, FailureKind, LaunchFailure, TrialFailure
from rb_core.plan import Problem
from rb_core.ports import Clock, Inbox, Notice, Timer, TrialExit, TrialNotice, TrialRun
from rb_core.sim.cloud import SimCloud
from rb_core.sim.curves import Curves
from rb_core.sim.durations import Durations, EvenPace, Pace, UnevenPace
from rb_core.sim.fates import Fates, TrialFate, lasting_s
from rb_core.sim.faults import Faults
from rb_core.sim.starts import Start, StartEnding
from rb_core.sim.store import SimStore
from rb_core.trial import Iterated, Message, Ready, Reported, Saved, Stop

TELLING_EVERY_S = 30.0
"""Where iterations are shorter, a trial tells of them about so often."""


class Training:
    """What trains, whichever process started it: fates, curves, checkpoints, and books of every start.

    Attributes:
        starts: every start, in order.
        scores: the score that each trial told at the end of each stage, by (trial, stage).
    """

    def __init__(
        self,
        problem: Problem,
        faults: Faults,
        fates: Fates,
        curves: Curves,
        cloud: SimCloud,
        store: SimStore,
        durations: Durations | None = None,
    ) -> None:
        """Trainings of which none has begun.

        Args:
            problem: the profile and the stages.
            faults: for how far reality is from the profile.
            fates: how each trial fares.
            curves: what it scores.
            cloud: where its nodes are.
            store: where its checkpoints go.
            durations: how long its iterations take; as the profile has them by default.
        """
        self.starts: list[Start] = []
        self.scores: dict[tuple[int, int], float] = {}
        self.store = store
        self.curves = curves
        self.profile = problem.profile
        self._factor = faults.true_iteration_factor
        self._fates = fates
        self._cloud = cloud
        self._durations = durations
        chains = problem.experiment.chains
        self._chain_of = [chain for chain, own in enumerate(chains) for _ in range(own[0].trials)]
        self._ends = [list(accumulate((stage.iterations for stage in own), initial=0)) for own in chains]
        self._known: dict[tuple[int, int], TrialFate] = {}
        self._hung: set[tuple[int, int]] = set()

    def fate(self, run: TrialRun) -> tuple[TrialFate, float, float]:
        """Fate of a start: the trial's in that stage, and this start's own start latency and noise."""
        chain, key = self._chain_of[run.trial], (run.trial, run.stage)
        if key not in self._known:
            self._known[key] = fate = self._fates.trial(chain, run.stage, run.trial)
            if run.from_iteration == self._ends[chain][run.stage]:
                return fate, fate.start_s, fate.noise
        return self._known[key], *self._fates.restart()

    def pace(self, run: TrialRun, fate: TrialFate, noise: float) -> Pace:
        """How the iterations of a start go on."""
        nodes = {slot.node for slot in run.slots}
        speed = self._cloud.books[run.slots[0].node].instance_type.speed
        slow = self.profile.slowdown(spans=len(nodes) > 1, speed=speed) * fate.speed * self._factor
        begin, end, slots = run.from_iteration, run.to_iteration, len(run.slots)
        if self._durations is not None:
            return UnevenPace([slow * own_s for own_s in self._durations.iterations_s(run.trial, begin, end, slots)])
        return EvenPace(end - begin, slow * lasting_s(self.profile.iteration_s[slots], end - begin, noise))

    def point(self, run: TrialRun, share: float | None) -> int | None:
        """After how many iterations of a start a share of its stage is done; None where that is behind it."""
        if share is None:
            return None
        begin, end = self._ends[self._chain_of[run.trial]][run.stage : run.stage + 2]
        return begin + int(share * (end - begin)) - run.from_iteration

    def hangs(self, run: TrialRun) -> bool:
        """Whether the trial has not hung in this stage yet; from now on it has."""
        key = (run.trial, run.stage)
        fresh = key not in self._hung
        self._hung.add(key)
        return fresh

    def failed(self, node: str) -> bool:
        """Whether a node is gone."""
        return self._cloud.books[node].failed_s is not None


class SimLauncher:
    """Starts trials on nodes of the simulated cloud. What it started ends with it.

    Attributes:
        live: trials whose processes are there.
    """

    name = "sim"

    def __init__(self, clock: Clock, training: Training, cloud: SimCloud) -> None:
        """A launcher of one process.

        Args:
            clock: the time.
            training: what trains.
            cloud: what tells it of nodes that fail.
        """
        self.live: dict[int, SimHandle] = {}
        self._clock = clock
        self._training = training
        cloud.bury(self._node_failed)

    def __enter__(self) -> SimLauncher:
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in tuple(self.live.values()):
            handle.kill()

    def start(self, run: TrialRun, inbox: Inbox) -> SimHandle:
        """Arrange the first thing that the trial will say.

        Raises:
            LaunchFailure: the trial runs already.
        """
        if run.trial in self.live:
            raise LaunchFailure(f"trial {run.trial} runs already")
        handle = SimHandle(run, self._clock, inbox, self._training, self.live)
        self.live[run.trial] = handle
        if any(self._training.failed(node) for node in handle.start.nodes):
            # The node is gone, and nobody has noticed yet.
            handle.die()
        return handle

    def vanish(self) -> None:
        """End everything without a word, as when the launcher's process is killed."""
        for handle in tuple(self.live.values()):
            handle.vanish()

    def _node_failed(self, node: str) -> None:
        for handle in tuple(self.live.values()):
            if node in handle.start.nodes:
                handle.die()


class SimHandle:
    """One start of a trial. It tells of its iterations, saves as often as it must, and ends as fate has it."""

    def __init__(
        self, run: TrialRun, clock: Clock, inbox: Inbox, training: Training, live: dict[int, SimHandle]
    ) -> None:
        self.trial = run.trial
        self.start = Start.of(run, clock.now())
        self._run = run
        self._clock = clock
        self._inbox = inbox
        self._training = training
        self._live = live
        self._fate, start_s, noise = training.fate(run)
        self._total = run.to_iteration - run.from_iteration
        self._pace = training.pace(run, self._fate, noise)
        step_s = self._pace.total_s / self._total
        self._stride = _stride(TELLING_EVERY_S, step_s, self._total, math.floor)
        self._saves = _stride(run.checkpoint_every_s, step_s, self._total, math.ceil)
        self._raises = training.point(run, self._fate.raises_at)
        self._hangs = training.point(run, self._fate.hangs_at)
        self._points = [point for point in (self._raises, self._hangs) if point is not None]
        self._done = self._ahead = 0
        self._is_ready = self._is_hung = self._is_stopping = False
        self._grace: Timer | None = None
        self._ready_s = self.start.began_s + start_s
        training.starts.append(self.start)
        self._timer: Timer = clock.call_at(self._ready_s, self._ready)

    def send(self, rank: int, message: Message) -> None:
        """A stop is obeyed; nothing else is understood."""
        if isinstance(message, Stop):
            self.stop()

    def stop(self, grace_s: float = 10.0) -> None:
        """Save after the current iteration and end; one that hangs is ended when `grace_s` is over."""
        if self._is_stopping or self._live.get(self.trial) is not self:
            return
        self._is_stopping = True
        if not self._is_ready:
            self._end(StartEnding.STOPPED)
            return
        self._grace = self._clock.call_at(self._clock.now() + grace_s, self.kill)
        if self._is_hung or self._done == self._total:
            return
        self._timer.cancel()
        passed = self._pace.done_at(self._clock.now() - self._ready_s)
        self._reach(min(max(self._done, passed) + 1, self._ahead))

    def kill(self) -> None:
        """End now."""
        if self._live.get(self.trial) is self:
            lost = any(self._training.failed(node) for node in self.start.nodes)
            self._end(StartEnding.LOST if lost else StartEnding.KILLED, self._died("killed by SIGKILL"))

    def die(self) -> None:
        """End because a node is gone."""
        self._end(StartEnding.LOST, self._died("killed by SIGKILL"))

    def vanish(self) -> None:
        """End without a word."""
        self._leave(StartEnding.VANISHED)

    def _ready(self) -> None:
        if self.start.checkpoint and not self._restore(self.start.checkpoint):
            return
        self._is_ready = True
        self._tell(Ready(restore_s=0.0))
        self._go_on()

    def _restore(self, path: str) -> bool:
        store = self._training.store
        try:
            self.start.restored = store.read(path).iterations
        except DamagedCheckpoint as error:
            ending = StartEnding.TORN if path in store.kept else StartEnding.MISSING
            self._end(ending, self._failure(str(error), FailureKind.CHECKPOINT))
            return False
        return True

    def _go_on(self) -> None:
        """Arrange what comes after the iterations that are done."""
        done = self._done
        if done == self._raises:
            self._end(StartEnding.RAISED, self._failure("RuntimeError: as fate had it", FailureKind.RAISED))
            return
        if done == self._hangs and self._training.hangs(self._run):
            self._is_hung = True
            return
        ahead = min(done + self._stride, done - done % self._saves + self._saves, self._total)
        for point in self._points:
            if done < point < ahead:
                ahead = point
        self._reach(ahead)

    def _reach(self, ahead: int) -> None:
        self._ahead = ahead
        self._timer = self._clock.call_at(self._ready_s + self._pace.end_s(ahead), self._reached)

    def _reached(self) -> None:
        self._done = done = self._ahead
        iterations = self._run.from_iteration + done
        ends, saves = done == self._total, done % self._saves == 0
        if ends or saves or self._is_stopping:
            self._report(iterations, ends)
        self._tell(Iterated(iterations=iterations, seconds=self._pace.took_s(done)))
        if ends or self._is_stopping:
            self._timer = self._clock.call_at(self._clock.now() + self._fate.save_s, self._complete)
            return
        if saves:
            self._save(iterations)
        self._go_on()

    def _report(self, iterations: int, ends: bool) -> None:
        score = self._training.curves.score(self.trial, iterations)
        if ends:
            score = math.nan if self._fate.nan else score
            self._training.scores[self.trial, self._run.stage] = score
        self._tell(Reported(iterations=iterations, score=score))

    def _complete(self) -> None:
        self._save(self._run.from_iteration + self._done)
        self._end(StartEnding.COMPLETED if self._done == self._total else StartEnding.STOPPED)

    def _save(self, iterations: int) -> None:
        path = f"{self._run.storage}/trial-{self.trial:04d}/iteration-{iterations:08d}"
        self._training.store.save(path, self.trial, iterations)
        self._tell(Saved(iterations=iterations, checkpoint=path, size_bytes=1, save_s=self._fate.save_s))

    def _end(self, ending: StartEnding, failure: TrialFailure | None = None) -> None:
        self._leave(ending)
        self._say(TrialExit(trial=self.trial, failure=failure))

    def _leave(self, ending: StartEnding) -> None:
        self._timer.cancel()
        if self._grace is not None:
            self._grace.cancel()
        del self._live[self.trial]
        self.start.ended_s, self.start.ending = self._clock.now(), ending

    def _died(self, cause: str) -> TrialFailure:
        return self._failure(cause, FailureKind.DIED)

    def _failure(self, cause: str, kind: FailureKind) -> TrialFailure:
        return TrialFailure(trial=self.trial, rank=0, cause=cause, kind=kind)

    def _tell(self, message: Message) -> None:
        self._say(TrialNotice(trial=self.trial, rank=0, message=message))

    def _say(self, notice: Notice) -> None:
        self._inbox.put(notice)


def _stride(every_s: float, step_s: float, most: int, rounded: Callable[[float], int]) -> int:
    """Iterations that go into `every_s`, at least one and at most `most`."""
    if step_s * most <= every_s:
        return most
    return max(1, min(most, rounded(every_s / step_s)))
