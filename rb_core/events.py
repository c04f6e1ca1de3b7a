"""The events of a run: what the log holds, what a run's state is rebuilt from, what observers are told.

Every event is a frozen value with two times: `t_s`, seconds on the run's own clock since it started (never
goes backwards, also over a resumption), and `utc`, the wall clock in ISO 8601, which is for people alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SCHEMA = 1
"""Version of all files that this package writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events.

    Attributes:
        t_s: seconds since the run started.
        utc: wall clock, ISO 8601.
    """

    t_s: float
    utc: str


class RunEnding(StrEnum):
    """How a run ended."""

    DONE = "done"
    """All stages ran."""
    FAILED = "failed"
    """An error ended it; the reason is in the event."""
    INTERRUPTED = "interrupted"
    """Its user stopped it; it can be resumed."""
    DEADLINE = "deadline"
    """Its time was up, and it had been told to stop then; it can be resumed with more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The first event of every log.

    Attributes:
        run: the run's id, also the tag of everything it owns.
        problem: the canonical problem as in the problem file's JSON.
        plan: the plan as in the plan file's JSON (`stages` or `chains`).
        metric: name of the score.
        mode: ``max`` or ``min``.
        seed: seed of the sampling and of the training.
        target: what is trained, in words.
        environment: versions and machine, for repeating it.
        clock: what the run's clock counts from, see `Clock.origin`.
        clock_s: what it read when the run started.
    """

    run: str
    problem: Mapping[str, Any]
    plan: Mapping[str, Any]
    metric: str
    mode: str
    seed: int
    target: str
    environment: Mapping[str, str]
    clock: str = ""
    clock_s: float = 0.0
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(Event):
    """Another process goes on with a run whose process was killed, or which ended before its work was done.

    Attributes:
        problem: as in `RunStarted`; its objective may be another one.
        environment: as in `RunStarted`.
        clock: as in `RunStarted`.
        clock_s: what it read at this event.
        run: as in `RunStarted`, for observers that saw nothing of what came before.
        metric: as in `RunStarted`.
    """

    problem: Mapping[str, Any]
    environment: Mapping[str, str]
    clock: str
    clock_s: float
    run: str = ""
    metric: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned(Event):
    """The rest of a lane's work is allocated anew.

    Attributes:
        chain: the lane's current chain.
        stage: its current stage, or the one about to begin: the first that the new allocations are for.
        plan: all allocations from there on, as `AllocationPlan.record` of the stages that are left.
        reason: why, in words.
        jct_s: end that is expected of it now, in seconds since the run's first request.
        cost_usd: bill that is expected of it now, what it has cost so far included.
        before_jct_s: what is expected without the change.
        before_cost_usd: what is expected without the change.
    """

    chain: int
    stage: int
    plan: Mapping[str, Any]
    reason: str
    jct_s: float
    cost_usd: float
    before_jct_s: float
    before_cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCreated(Event):
    """A configuration was given a number. Trials are numbered through all chains."""

    trial: int
    chain: int
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted(Event):
    """A barrier opened: the stage's nodes are asked for, then its trials start."""

    chain: int
    stage: int
    trials: tuple[int, ...]
    instance_type: str
    nodes: int
    slots_per_trial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequested(Event):
    """Written before the provider is asked: the intent to hold one node more, first of all for that stage."""

    node: str
    chain: int
    stage: int
    instance_type: str
    slots: int
    usd_per_hour: float
    market: str = "on_demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAttempted(Event):
    """Written before a provider makes a call that rents nodes: all by which what may come of it is found again.

    Attributes:
        attempt: its token, which no other attempt has or had; the provider knows it as the call's own.
        nodes: names of the nodes that it is for, in order.
        request: what is asked for and where, in the provider's own plain values.
    """

    attempt: str
    nodes: tuple[str, ...]
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchGranted(Event):
    """A renting call was answered.

    Attributes:
        attempt: which.
        instances: the provider's own names of what it granted, in the order of the attempt's nodes; perhaps fewer.
    """

    attempt: str
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRefused(Event):
    """A renting call was refused, or it is certain that nothing came of it: nothing is rented by it."""

    attempt: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRunning(Event):
    """The node runs, and is billed since `since_s` of the run.

    Attributes:
        node: its name.
        since_s: since when.
        instance: the provider's own name of it; empty where it has none.
        zone: where it stands; empty where that is not known.
        usd_per_hour: what it costs there, where that is not what was planned with; None otherwise.
    """

    node: str
    since_s: float
    instance: str = ""
    zone: str = ""
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReady(Event):
    """The node has joined and can hold trials."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReleased(Event):
    """The node is given back on purpose (written before the provider is asked)."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLeaving(Event):
    """The provider will take the node away in `in_s`; its trials save and go elsewhere."""

    node: str
    reason: str
    in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    """The node, or the request for it, failed by itself; it was billed until `until_s` of the run.

    Attributes:
        node: its name.
        reason: why.
        until_s: until when.
        reclaimed: whether its provider took it back, as it may on spot.
    """

    node: str
    reason: str
    until_s: float
    reclaimed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted(Event):
    """A trial's processes are started for one stage."""

    trial: int
    chain: int
    stage: int
    nodes: tuple[str, ...]
    slots: int
    from_iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReady(Event):
    """The trial begins its first iteration of the stage: start and restore are over."""

    trial: int
    restore_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReported(Event):
    """The trial reported a score after `iterations` iterations in total. `score` may be NaN."""

    trial: int
    iterations: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSaved(Event):
    """A checkpoint is complete on the storage."""

    trial: int
    iterations: int
    checkpoint: str
    size_bytes: int
    save_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaused(Event):
    """The trial ended its stage: its processes are gone and its slots are free.

    Attributes:
        iteration_s: mean time of the iterations of its last start, None where it told of none.
    """

    trial: int
    stage: int
    iterations: int
    iteration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialInterrupted(Event):
    """The trial's processes are gone before the stage's end; it goes on from its last checkpoint.

    Attributes:
        iteration_s: as in `TrialPaused`.
    """

    trial: int
    stage: int
    cause: str
    iteration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFailed(Event):
    """The trial failed for good and leaves the bracket."""

    trial: int
    stage: int
    rank: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLeft(Event):
    """The trial has nothing more to run though its stages are not over, and did not fail; it leaves the bracket."""

    trial: int
    stage: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnded(Event):
    """The barrier: who goes on and who is stopped; in the last stage the finishers are `survivors`."""

    chain: int
    stage: int
    survivors: tuple[int, ...]
    stopped: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLost(Event):
    """A checkpoint cannot be read: the trial goes on from an earlier one, or from the start."""

    trial: int
    checkpoint: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDeleted(Event):
    """A checkpoint that is no longer needed is removed (written before it is)."""

    trial: int
    checkpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """Something a person should know that stops nothing."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """The last event of every log that was closed; every node has been given back before."""

    ending: RunEnding
    reason: str = ""


EVENTS: tuple[type[Event], ...] = (
    RunStarted, RunResumed, TrialCreated, StageStarted, Replanned, NodeRequested, LaunchAttempted,
    LaunchGranted, LaunchRefused, NodeRunning, NodeReady,
    NodeLeaving, NodeReleased, NodeLost, TrialStarted, TrialReady, TrialReported, TrialSaved, TrialPaused,
    TrialInterrupted, TrialFailed, TrialLeft, StageEnded, CheckpointLost, CheckpointDeleted, Warned, RunEnded,
)  # fmt: skip
"""Every kind of event, in the order in which they appear in a life."""
