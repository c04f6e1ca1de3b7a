"""Fakes of a provider and a launcher that live on a clock: product code, so that third parties can test with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Concatenate, ParamSpec, TypeVar

from rb_core.errors import FailureKind, LaunchFailure, NoAnswer, TrialFailure
from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Clock, Inbox, NodeNews, NodeNotice, Slot, Timer, TrialExit, TrialNotice, TrialRun
from rb_core.trial import ConfigRead, Iterated, Message, Ready, Reported, Saved, Stop

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(slots=True, kw_only=True)
class FakeNode:
    """What the fake provider's own books say of one node; times on its clock, None until they have come."""

    name: str
    instance_type: InstanceType
    run: str
    requested_s: float
    running_s: float | None = None
    ready_s: float | None = None
    released_s: float | None = None
    timers: list[Timer] = field(default_factory=list)


def _perhaps_unanswered(
    call: Callable[Concatenate[FakeProvider, _P], _R],
) -> Callable[Concatenate[FakeProvider, _P], _R]:
    """Let the provider lose some of these calls, or its answers to them."""
    name = call.__name__

    @wraps(call)
    def made(self: FakeProvider, /, *args: _P.args, **named: _P.kwargs) -> _R:
        if self.unheard[name] > 0:
            self.unheard[name] -= 1
            raise NoAnswer(f"{name}: no connection")
        answer = call(self, *args, **named)
        if self.unanswered[name] > 0:
            self.unanswered[name] -= 1
            raise NoAnswer(f"{name}: connection lost")
        return answer

    return made


class FakeProvider:
    """Any number of nodes on a clock, with constant latencies and books of its own.

    Attributes:
        launch_s: from the request to running, of the nodes requested from now on.
        init_s: from running to ready, of the nodes that begin to run from now on.
        books: every node that was ever requested, by name.
        most_held: the largest number held at one time.
        refuse: when not empty, the next `refusals` launches fail with this text.
        refusals: how many launches fail yet, counted down.
        unheard: calls that end with `NoAnswer` and are not obeyed, by their name, counted down.
        unanswered: calls that are obeyed and end with `NoAnswer` all the same, by their name, counted down.
        deaf: releases to ignore, counted down; for leaks.
        on_release: called with the names before each release, to let a test break it.
        inbox: where notices go. A resumed run brings another one, which hears of the nodes that it adopts or launches.
    """

    name = "fake"

    def __init__(self, clock: Clock, inbox: Inbox, *, launch_s: float = 0.0, init_s: float = 0.0) -> None:
        self.books: dict[str, FakeNode] = {}
        self.most_held = 0
        self.refuse = ""
        self.refusals = 1
        self.unheard: Counter[str] = Counter()
        self.unanswered: Counter[str] = Counter()
        self.deaf = 0
        self.on_release: Callable[[Sequence[str]], None] | None = None
        self._held: set[str] = set()
        self._clock = clock
        self._known: set[str] = set()
        self._inbox = inbox
        self.launch_s = launch_s
        self.init_s = init_s

    @property
    def inbox(self) -> Inbox:
        """Where notices go."""
        return self._inbox

    @inbox.setter
    def inbox(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._known.clear()

    def check(self, cloud: Cloud) -> None:
        """Serves every cloud."""

    @_perhaps_unanswered
    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Request nodes; refuses new ones when it was told to."""
        new = [name for name in dict.fromkeys(names) if name not in self.books]
        if new and self.refuse and self.refusals > 0:
            self.refusals -= 1
            raise LaunchFailure(self.refuse)
        now_s = self._clock.now()
        self._known.update(names)
        for name in new:
            node = FakeNode(name=name, instance_type=instance_type, run=run, requested_s=now_s)
            self.books[name] = node
            self._held.add(name)
            running_s = now_s + self.launch_s
            node.timers.append(self._clock.call_at(running_s, partial(self._runs, node)))
        self.most_held = max(self.most_held, len(self._held))

    @_perhaps_unanswered
    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """Say what the books say of these nodes."""
        now_s = self._clock.now()
        self._known.update(nodes)
        for name in nodes:
            node = self.books.get(name)
            if node is None:
                self._say(name, NodeNews.LOST, reason="never requested", ago_s=math.inf)
                continue
            ready_s = node.ready_s if name in self._held else None
            for kind, at_s in (
                (NodeNews.RUNNING, node.running_s),
                (NodeNews.READY, ready_s),
                (NodeNews.LOST, node.released_s),
            ):
                if at_s is not None:
                    reason = "gone" if kind is NodeNews.LOST else ""
                    self._say(name, kind, reason=reason, ago_s=now_s - at_s)

    @_perhaps_unanswered
    def slots(self, name: str) -> Sequence[Slot]:
        """The slots of a ready node."""
        node = self.books[name]
        if name not in self._held or node.ready_s is None:
            raise KeyError(name)
        return tuple(Slot(node=name, index=index) for index in range(node.instance_type.slots))

    @_perhaps_unanswered
    def release(self, names: Sequence[str]) -> None:
        """Give nodes back."""
        if self.on_release is not None:
            self.on_release(names)
        if self.deaf > 0:
            self.deaf -= 1
            return
        for name in names:
            if name in self._held:
                self._end(self.books[name])

    @_perhaps_unanswered
    def owned(self, run: str) -> Sequence[str]:
        """Names of all held nodes of the run."""
        return tuple(name for name, node in self.books.items() if name in self._held and node.run == run)

    def close(self) -> None:
        """Nothing to let go of."""

    def lose(self, name: str, reason: str = "reclaimed") -> None:
        """Take a held node away, now."""
        if name in self._held:
            self._end(self.books[name])
            self._say(name, NodeNews.LOST, reason=reason)

    def warn(self, name: str, in_s: float, reason: str = "reclaimed") -> None:
        """Say that a held node will be taken away."""
        self._say(name, NodeNews.LEAVING, reason=reason, in_s=in_s)

    def _say(self, name: str, kind: NodeNews, *, reason: str = "", ago_s: float = 0.0, in_s: float = 0.0) -> None:
        if name in self._known:
            self._inbox.put(NodeNotice(node=name, kind=kind, reason=reason, ago_s=ago_s, in_s=in_s))

    def _runs(self, node: FakeNode) -> None:
        node.running_s = self._clock.now()
        self._say(node.name, NodeNews.RUNNING)
        node.timers.append(self._clock.call_at(node.running_s + self.init_s, partial(self._joins, node)))

    def _joins(self, node: FakeNode) -> None:
        node.ready_s = self._clock.now()
        self._say(node.name, NodeNews.READY)

    def _end(self, node: FakeNode) -> None:
        for timer in node.timers:
            timer.cancel()
        node.released_s = self._clock.now()
        self._held.discard(node.name)


def _one_second(run: TrialRun) -> float:
    return 1.0


def _by_number(trial: int, iterations: int) -> float:
    return float(trial)


def _sound(run: TrialRun) -> str:
    return ""


def _talks(run: TrialRun) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeTraining:
    """How trials behave under the fake launcher.

    Attributes:
        start_s: from the launch to the first iteration.
        iteration_s: seconds of one iteration of a start.
        save_s: from the last iteration to the exit.
        score: score of a trial after so many iterations; None reports nothing.
        failure: cause with which a start fails after its start-up; empty for a sound one.
        failure_kind: in which way it fails then.
        leaves: why a start leaves the run after its start-up, though it does not fail; empty for one that stays.
        hangs: whether a start says nothing and never ends.
        every_iteration: report and tell of every iteration; else of the last one of each start alone.
        save_every: iterations between two checkpoints within a stage, where it tells of every one; 0 for none.
    """

    start_s: float = 0.0
    iteration_s: Callable[[TrialRun], float] = _one_second
    save_s: float = 0.0
    score: Callable[[int, int], float | None] = _by_number
    failure: Callable[[TrialRun], str] = _sound
    failure_kind: FailureKind = FailureKind.RAISED
    leaves: Callable[[TrialRun], str] = _sound
    hangs: Callable[[TrialRun], bool] = _talks
    every_iteration: bool = False
    save_every: int = 0


class FakeLauncher:
    """Trials that take the time they are told to, without any process.

    Attributes:
        starts: every start, in order.
        live: trials whose processes are there.
        entered: whether its ``with`` block is entered now.
        refuse: trials that cannot be started, with the reason.
        sent: messages that were sent to ranks: (trial, rank, message).
    """

    name = "fake"

    def __init__(self, clock: Clock, training: FakeTraining | None = None) -> None:
        self.starts: list[TrialRun] = []
        self.live: dict[int, FakeHandle] = {}
        self.entered = False
        self.refuse: dict[int, str] = {}
        self.sent: list[tuple[int, int, Message]] = []
        self._clock = clock
        self._training = training or FakeTraining()

    def __enter__(self) -> FakeLauncher:
        self.entered = True
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in tuple(self.live.values()):
            handle.kill()
        self.entered = False

    def start(self, run: TrialRun, inbox: Inbox) -> FakeHandle:
        """Arrange everything that the trial will say."""
        if run.trial in self.refuse:
            raise LaunchFailure(self.refuse[run.trial])
        if run.trial in self.live:
            raise LaunchFailure(f"trial {run.trial} runs already")
        self.starts.append(run)
        handle = FakeHandle(run, self._clock, inbox, self._training, self)
        self.live[run.trial] = handle
        handle.begin()
        return handle


class FakeHandle:
    """A trial of the fake launcher."""

    def __init__(
        self, run: TrialRun, clock: Clock, inbox: Inbox, training: FakeTraining, launcher: FakeLauncher
    ) -> None:
        self.trial = run.trial
        self._run = run
        self._clock = clock
        self._inbox = inbox
        self._training = training
        self._launcher = launcher
        self._began_s = clock.now()
        self._saved = run.from_iteration
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Arrange the end of the start-up."""
        if not self._training.hangs(self._run):
            self._at(self._training.start_s, self._ready)

    def send(self, rank: int, message: Message) -> None:
        """Keep the message; a stop is obeyed at once."""
        self._launcher.sent.append((self.trial, rank, message))
        if isinstance(message, Stop):
            self.stop()

    def stop(self, grace_s: float = 10.0) -> None:
        """Save what is complete and end; one that hangs is ended after the grace time."""
        if self._launcher.live.get(self.trial) is not self:
            return
        if self._training.hangs(self._run):
            self._at(self._clock.now() - self._began_s + grace_s, self.kill)
            return
        done = self._iterations_done()
        if done > self._saved:
            self._save(done)
        self._exit(None)

    def kill(self) -> None:
        """End now."""
        if self._launcher.live.get(self.trial) is self:
            self._exit(TrialFailure(trial=self.trial, rank=0, cause="killed by SIGKILL", kind=FailureKind.DIED))

    def _ready(self) -> None:
        self._tell(Ready(restore_s=0.0))
        cause = self._training.failure(self._run)
        if cause:
            self._exit(TrialFailure(trial=self.trial, rank=0, cause=cause, kind=self._training.failure_kind))
        elif self._training.leaves(self._run):
            self._exit(None, left=self._training.leaves(self._run))
        elif self._training.every_iteration:
            self._after(self._run.from_iteration + 1)
        else:
            self._after(self._run.to_iteration)

    def _after(self, iterations: int) -> None:
        """Arrange what is said after so many iterations."""
        seconds = self._training.iteration_s(self._run)
        offset_s = self._training.start_s + (iterations - self._run.from_iteration) * seconds
        self._at(offset_s, lambda: self._iterated(iterations, seconds))

    def _iterated(self, iterations: int, seconds: float) -> None:
        score = self._training.score(self.trial, iterations)
        if score is not None:
            self._tell(Reported(iterations=iterations, score=score))
        self._tell(Iterated(iterations=iterations, seconds=seconds))
        if iterations < self._run.to_iteration:
            if self._training.save_every and iterations % self._training.save_every == 0:
                self._save(iterations)
            self._after(iterations + 1)
        else:
            self._at(self._clock.now() - self._began_s + self._training.save_s, self._complete)

    def _complete(self) -> None:
        if self._run.to_iteration > self._saved:
            self._save(self._run.to_iteration)
        self._tell(ConfigRead(keys=tuple(self._run.config)))
        self._exit(None)

    def _save(self, iterations: int) -> None:
        self._saved = iterations
        folder, depot = f"trial-{self.trial}", self._run.depot
        path = self._run.storage / folder / f"{iterations}"
        saved = str(path) if depot is None else depot.push(path, folder)
        self._tell(Saved(iterations=iterations, checkpoint=saved, size_bytes=1, save_s=self._training.save_s))

    def _iterations_done(self) -> int:
        trained_s = self._clock.now() - self._began_s - self._training.start_s
        done = self._run.from_iteration + int(max(0.0, trained_s) / self._training.iteration_s(self._run))
        return min(done, self._run.to_iteration)

    def _exit(self, failure: TrialFailure | None, *, left: str = "") -> None:
        if self._timer is not None:
            self._timer.cancel()
        del self._launcher.live[self.trial]
        self._inbox.put(TrialExit(trial=self.trial, failure=failure, left=left))

    def _tell(self, message: Message) -> None:
        self._inbox.put(TrialNotice(trial=self.trial, rank=0, message=message))

    def _at(self, offset_s: float, action: Callable[[], None]) -> None:
        self._timer = self._clock.call_at(self._began_s + offset_s, action)
