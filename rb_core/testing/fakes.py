"""Fakes of a provider and a launcher that live on a clock: product code, so that third parties can test with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from rb_core.errors import LaunchFailure, TrialFailure
from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Clock, Inbox, NodeNotice, Slot, Timer, TrialExit, TrialNotice, TrialRun
from rb_core.trial import ConfigRead, Iterated, Message, Ready, Reported, Saved, Stop


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


class FakeProvider:
    """Any number of nodes on a clock, with constant latencies and books of its own.

    Attributes:
        launch_s: from the request to running, of the nodes requested from now on.
        init_s: from running to ready, of the nodes that begin to run from now on.
        books: every node that was ever requested, by name.
        most_held: the largest number held at one time.
        refuse: when not empty, the next launch fails with this text.
        deaf: releases to ignore, counted down; for leaks.
        on_release: called with the names before each release, to let a test break it.
    """

    name = "fake"

    def __init__(self, clock: Clock, inbox: Inbox, *, launch_s: float = 0.0, init_s: float = 0.0) -> None:
        self.books: dict[str, FakeNode] = {}
        self.most_held = 0
        self.refuse = ""
        self.deaf = 0
        self.on_release: Callable[[Sequence[str]], None] | None = None
        self._held: set[str] = set()
        self._clock = clock
        self._inbox = inbox
        self.launch_s = launch_s
        self.init_s = init_s

    def check(self, cloud: Cloud) -> None:
        """Serves every cloud."""

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Request nodes; refuses when it was told to."""
        if self.refuse:
            text, self.refuse = self.refuse, ""
            raise LaunchFailure(text)
        now_s = self._clock.now()
        for name in names:
            if name in self.books:
                continue
            node = FakeNode(name=name, instance_type=instance_type, run=run, requested_s=now_s)
            self.books[name] = node
            self._held.add(name)
            running_s = now_s + self.launch_s
            node.timers.append(self._clock.call_at(running_s, partial(self._runs, node)))
        self.most_held = max(self.most_held, len(self._held))

    def slots(self, name: str) -> Sequence[Slot]:
        """The slots of a ready node."""
        node = self.books[name]
        if name not in self._held or node.ready_s is None:
            raise KeyError(name)
        return tuple(Slot(node=name, index=index) for index in range(node.instance_type.slots))

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

    def owned(self, run: str) -> Sequence[str]:
        """Names of all held nodes of the run."""
        return tuple(name for name, node in self.books.items() if name in self._held and node.run == run)

    def close(self) -> None:
        """Nothing to let go of."""

    def lose(self, name: str, reason: str = "reclaimed") -> None:
        """Take a held node away, now."""
        if name in self._held:
            self._end(self.books[name])
            self._inbox.put(NodeNotice(node=name, kind="lost", reason=reason))

    def _runs(self, node: FakeNode) -> None:
        node.running_s = self._clock.now()
        self._inbox.put(NodeNotice(node=node.name, kind="running"))
        node.timers.append(self._clock.call_at(node.running_s + self.init_s, partial(self._joins, node)))

    def _joins(self, node: FakeNode) -> None:
        node.ready_s = self._clock.now()
        self._inbox.put(NodeNotice(node=node.name, kind="ready"))

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
        hangs: whether a start says nothing and never ends.
        every_iteration: report and tell of every iteration; else of the last one of each start alone.
    """

    start_s: float = 0.0
    iteration_s: Callable[[TrialRun], float] = _one_second
    save_s: float = 0.0
    score: Callable[[int, int], float | None] = _by_number
    failure: Callable[[TrialRun], str] = _sound
    hangs: Callable[[TrialRun], bool] = _talks
    every_iteration: bool = False


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
        if done > self._run.from_iteration:
            self._save(done)
        self._exit(None)

    def kill(self) -> None:
        """End now."""
        if self._launcher.live.get(self.trial) is self:
            self._exit(TrialFailure(trial=self.trial, rank=0, cause="killed by SIGKILL"))

    def _ready(self) -> None:
        self._tell(Ready(restore_s=0.0))
        cause = self._training.failure(self._run)
        if cause:
            self._exit(TrialFailure(trial=self.trial, rank=0, cause=cause))
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
            self._after(iterations + 1)
        else:
            self._at(self._clock.now() - self._began_s + self._training.save_s, self._complete)

    def _complete(self) -> None:
        self._save(self._run.to_iteration)
        self._tell(ConfigRead(keys=tuple(self._run.config)))
        self._exit(None)

    def _save(self, iterations: int) -> None:
        path = self._run.storage / f"trial-{self.trial}" / f"{iterations}"
        self._tell(Saved(iterations=iterations, checkpoint=str(path), size_bytes=1, save_s=self._training.save_s))

    def _iterations_done(self) -> int:
        trained_s = self._clock.now() - self._began_s - self._training.start_s
        done = self._run.from_iteration + int(max(0.0, trained_s) / self._training.iteration_s(self._run))
        return min(done, self._run.to_iteration)

    def _exit(self, failure: TrialFailure | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        del self._launcher.live[self.trial]
        self._inbox.put(TrialExit(trial=self.trial, failure=failure))

    def _tell(self, message: Message) -> None:
        self._inbox.put(TrialNotice(trial=self.trial, rank=0, message=message))

    def _at(self, offset_s: float, action: Callable[[], None]) -> None:
        self._timer = self._clock.call_at(self._began_s + offset_s, action)
