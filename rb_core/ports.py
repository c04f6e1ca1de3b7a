"""The ports: what the engine asks of clocks, providers, launchers and planners, as Protocols.

Providers and launchers never call the engine. They put *notices* into the inbox that the engine gave them,
from any thread; the engine takes them out one by one, in its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rb_core.errors import TrialFailure
from rb_core.events import Event
from rb_core.hardware import Cloud, InstanceType
from rb_core.plan import AllocationPlan, Problem
from rb_core.trial import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Base of everything that an inbox carries."""


class NodeNews(StrEnum):
    """What can happen to a requested node."""

    RUNNING = "running"
    """It runs, and is billed from now on."""
    READY = "ready"
    """It has joined and can hold trials."""
    LEAVING = "leaving"
    """It will be taken away soon; what is on it can still save."""
    LOST = "lost"
    """It, or the request for it, is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNotice(Notice):
    """What a provider has to say of one node.

    Attributes:
        node: the name that the engine gave it.
        kind: what happened.
        reason: why it leaves or is lost.
        ago_s: how long ago it happened, where the provider could not say so at once; `inf` where it cannot tell.
        in_s: of a leaving node, how long it stays.
        instance: of a running node, the provider's own name of it.
        zone: of a running node, where it stands.
        usd_per_hour: of a running node, what it costs there, where that is not what it was requested at.
        reclaimed: of a lost node, whether the provider took it back, as it may on spot.
    """

    node: str
    kind: NodeNews
    reason: str = ""
    ago_s: float = 0.0
    in_s: float = 0.0
    instance: str = ""
    zone: str = ""
    usd_per_hour: float | None = None
    reclaimed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialNotice(Notice):
    """A message that one rank of a running trial sent.

    Attributes:
        trial: number of the trial.
        rank: who sent it.
        message: what it says.
    """

    trial: int
    rank: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialExit(Notice):
    """All processes of a trial are gone; nothing more comes from this start of it.

    Attributes:
        trial: number of the trial.
        failure: None when every rank completed; otherwise the first rank that did not, with its cause.
        left: why it has nothing more to run though its stages are not over, and did not fail; empty otherwise.
    """

    trial: int
    failure: TrialFailure | None = None
    left: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand(Notice):
    """A call to make in the engine's own thread, in the order of all notices; what it raises ends the run.

    For adapters, whose hosts want all calls to come from one thread.
    """

    action: Callable[[], None]


class Timer(Protocol):
    """A call that was arranged with a clock."""

    def cancel(self) -> None:
        """Forget it; of no effect when it has run. Never blocks."""


class Inbox(Protocol):
    """A queue of notices between threads, bound to the clock that made it."""

    def put(self, notice: Notice) -> None:
        """Append, from any thread. Never blocks."""

    def get(self, until_s: float | None = None) -> Notice | None:
        """Take the oldest notice; while there is none, let the clock's time pass and run its due timers.

        Args:
            until_s: give up when the clock reads this; None waits as long as something may still come.

        Returns:
            The notice, or None when `until_s` was reached (or, on a manual clock, nothing is arranged).
        """


class Clock(Protocol):
    """The one source of time. Timers run in the thread that waits on an inbox, never elsewhere."""

    @property
    def origin(self) -> str:
        """Names what `now` counts from: readings under equal names compare, also between processes."""

    def now(self) -> float:
        """Seconds since an arbitrary origin; never goes backwards."""

    def utc(self) -> datetime:
        """The wall clock, for people; may step."""

    def call_at(self, when_s: float, action: Callable[[], None]) -> Timer:
        """Arrange `action` at `when_s` on this clock; equal times run in the order of their arrangement."""

    def inbox(self) -> Inbox:
        """A new, empty inbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One place for one training process.

    Attributes:
        node: name of the node.
        index: position on the node, from 0.
        device: what CUDA_VISIBLE_DEVICES is set to for it, empty on a node without GPUs.
    """

    node: str
    index: int
    device: str = ""


@runtime_checkable
class Provider(Protocol):
    """Rents and returns nodes. The engine chooses the names, so that every call can be repeated.

    Notices go into the inbox that the provider was made with, which is the engine's: a launched node becomes
    ``running``, then ``ready``; ``lost`` at any time, perhaps ``leaving`` before. Each is said once; nothing is said
    of released nodes. A call may raise `NoAnswer` when it is not known whether it was obeyed; it can be repeated.
    """

    name: str

    def check(self, cloud: Cloud) -> None:
        """Raise `InvalidInput` when this cloud cannot be served. Changes nothing, costs nothing."""

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Request one node for each name. Idempotent by name; returns before the nodes run.

        Args:
            names: names that no other node of the run has or had.
            instance_type: what to rent.
            run: id of the run, the tag by which its nodes are found again.

        Raises:
            LaunchFailure: nothing was requested.
        """

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """Take over nodes that an earlier process of the run requested, by name and type.

        Notices follow that say how each one stands, with how long ago that was: ``running`` and ``ready`` as after a
        launch, or ``lost``, after ``running`` where it is known that it ran. Idempotent; returns at once.
        """

    def slots(self, name: str) -> Sequence[Slot]:
        """The slots of a ready node, in order. Raises KeyError for a name that is not held."""

    def release(self, names: Sequence[str]) -> None:
        """Give nodes back. Idempotent: unknown and released names are passed over. Blocks only briefly."""

    def owned(self, run: str) -> Sequence[str]:
        """Names of all nodes that the run still holds or has requested."""

    def close(self) -> None:
        """Let go of threads and connections; releases nothing. Idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One renting call of a provider, as the log tells of it.

    Attributes:
        attempt: its token.
        nodes: names of the nodes that it was for.
        request: what was asked for and where, in the provider's own plain values.
        t_s: when, in seconds of the run.
        instances: what was granted, in the provider's own names and in the order of `nodes`; None while there was no
            answer.
        refused: why nothing is rented by it; empty otherwise.
    """

    attempt: str
    nodes: tuple[str, ...]
    request: Mapping[str, Any]
    t_s: float
    instances: tuple[str, ...] | None = None
    refused: str = ""


class Record(Protocol):
    """A run's log as a provider sees it; used in the engine's own thread alone."""

    @property
    def t_s(self) -> float:
        """Seconds since the run started; goes on over a resumption."""

    @property
    def launches(self) -> Mapping[str, Launch]:
        """All renting calls of the run, those of earlier processes included, by their tokens, in order."""

    def write(self, kind: type[Event], **values: Any) -> None:
        """Write one event, before this returns. Raises `UnusableLog`; nothing may be done then."""

    def warn(self, text: str) -> None:
        """Write a warning, equal texts once."""


@runtime_checkable
class Recording(Protocol):
    """What a provider offers besides, that has each renting call written down before it makes it."""

    def record(self, record: Record) -> None:
        """Write into this log from now on, and know what it tells. Called before any launch or adoption; idempotent."""


@runtime_checkable
class Zoned(Protocol):
    """What a provider offers besides, whose nodes stand in zones: between these, traffic is slower and costs money."""

    def together(self, wanted: bool) -> None:
        """Whether all nodes that are held at one time are to stand in one zone. Called before any launch; idempotent.

        A zone is chosen when nothing is held. While it has no room the rest cannot be had.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """What a node runs, once it is up, to join whatever starts trials on it; runs as long as the node is held.

    Attributes:
        argv: program and arguments. The program is this process's Python; a provider of other machines puts theirs in
            its place.
        env: variables in addition to the node's own. They may hold a secret: they are shown nowhere, and a provider
            passes them in no way that others can read.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@runtime_checkable
class Machines(Protocol):
    """What a provider offers besides, whose nodes are machines that can run a command.

    The other calls of such a provider may come from several threads.
    """

    def reach(self) -> str:
        """The numeric address of this machine under which nodes reach it; empty where they are parts of it.

        Asked before anything of this program listens for them; may block for some seconds.

        Raises:
            InvalidInput: nodes do not reach this machine.
        """

    def boot(self, command: Callable[[str, InstanceType], Bootstrap]) -> None:
        """Have each node that is launched from now on run a command when it is up.

        A node is ``ready`` as without; whoever arranges the command knows what it leads to. A node whose command ends
        is ``lost``, with the last lines that it said as the reason.

        Args:
            command: asked once for each node, by its name and type, from any thread.
        """


@runtime_checkable
class Gatherer(Protocol):
    """What a launcher offers besides, whose nodes have to join it before it can start anything on them."""

    def gather(self, make: Callable[[Inbox], Provider], inbox: Inbox) -> Provider:
        """A provider whose nodes are ``ready`` only once they have joined. Starts and contacts nothing.

        Args:
            make: makes the provider of the nodes themselves, which puts its notices into the inbox that it is given.
            inbox: where the notices of the provider that is returned go.

        Raises:
            InvalidInput: these nodes cannot join.
        """


class Depot(Protocol):
    """Keeps checkpoints where every node reaches them without a shared folder. A value: ranks get a pickled copy.

    Every call blocks, for a bounded time where nothing is heard, and raises `StoreFailure` when the store refuses or
    gives no answer. A checkpoint is known by the reference that `push` gave it.
    """

    @property
    def uri(self) -> str:
        """What it keeps lies below this address, and nothing else does."""

    def check(self) -> None:
        """Write, read, list and delete something small. Raises `InvalidInput` when it cannot be used, and why."""

    def push(self, checkpoint: Path, folder: str) -> str:
        """Keep a copy of a checkpoint, file or folder.

        Args:
            checkpoint: complete, on this node.
            folder: where below `uri`.

        Returns:
            Its reference, which nothing else has or had. Whatever a push that did not return has left behind is
            among the `references`, and is of no use.

        Raises:
            UnusableCheckpoint: it holds something that this store cannot keep.
        """

    def fetch(self, reference: str, path: Path) -> None:
        """Put a checkpoint's copy at a path that does not exist yet, in a folder that does. Not looked at for damage.

        Raises:
            DamagedCheckpoint: it is gone.
            UnusableCheckpoint: the node's disk is full or refuses.
        """

    def delete(self, reference: str) -> None:
        """Remove a checkpoint. Idempotent."""

    def references(self) -> Sequence[str]:
        """What lies in it, complete or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRun:
    """One start of one trial: everything its processes need to know.

    Attributes:
        trial: number of the trial.
        stage: stage within its chain.
        config: the configuration under trial.
        slots: one slot for each rank, so the world size is their number.
        from_iteration: iterations done so far.
        to_iteration: where this stage ends; exclusive.
        max_iterations: where the experiment's last stage of the chain ends.
        checkpoint: what to restore from; None on the first start.
        storage: folder that the trial's checkpoints go into; made by the launcher when missing. Where there is a
            depot, a folder of the node takes its place.
        logs: folder for each rank's output; made by the launcher when missing.
        seed: seed of the run.
        checkpoint_every_s: longest time between two checkpoints within a stage.
        env: variables for every rank.
        depot: what keeps the checkpoints; None where that is `storage` itself.
        deposited: the depot's reference of what to restore from, in the place of `checkpoint`; empty on the first
            start, and where there is no depot.
    """

    trial: int
    stage: int
    config: Mapping[str, Any]
    slots: tuple[Slot, ...]
    from_iteration: int
    to_iteration: int
    max_iterations: int
    checkpoint: Path | None
    storage: Path
    logs: Path
    seed: int = 0
    checkpoint_every_s: float = 600.0
    env: Mapping[str, str] | None = None
    depot: Depot | None = None
    deposited: str = ""

    @property
    def restores(self) -> str:
        """What the log calls the checkpoint to restore from; empty on the first start."""
        return self.deposited or str(self.checkpoint or "")


class TrialHandle(Protocol):
    """A started trial."""

    trial: int

    def send(self, rank: int, message: Message) -> None:
        """Answer or tell one rank; of no effect when it is gone. Never blocks."""

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask the trial to save and end after its current iteration; force it when `grace_s` is over.

        Returns at once; a `TrialExit` follows in either case. Idempotent.
        """

    def kill(self) -> None:
        """End all its processes now, the ones they started included. A `TrialExit` follows. Idempotent."""


@runtime_checkable
class Launcher(Protocol):
    """Starts one trial's stage on given slots, as one process for each slot.

    Used as a context manager: entering warms it up (idempotent, may take seconds), leaving ends every process
    that it started, whatever happened.

    Notices: `TrialNotice` for every message of every rank, then exactly one `TrialExit` for each start.
    """

    name: str

    def __enter__(self) -> Launcher:
        """Warm up."""

    def __exit__(self, *exc: object) -> None:
        """End every process."""

    def start(self, run: TrialRun, inbox: Inbox) -> TrialHandle:
        """Start the ranks and return at once.

        Raises:
            LaunchFailure: no process could be started; nothing is left behind.
        """


class Planner(Protocol):
    """Chooses an allocation for every stage. Pure: the same problem and generator give the same plan."""

    name: str

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The best plan that this planner knows for the problem's objective.

        Raises:
            NoFeasiblePlan: none meets the objective; the error names the fastest (or cheapest) one.
            InvalidInput: the problem has no objective.
        """
