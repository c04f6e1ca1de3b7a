"""The state of a run, folded from its events by one function: in memory while it runs, from the log afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from rb_core import events
from rb_core.events import Event, RunEnding
from rb_core.ports import Launch


class TrialPhase(StrEnum):
    """Where a trial stands."""

    WAITING = "waiting"
    """Its turn in the current stage has not come."""
    RUNNING = "running"
    """Its processes are there."""
    PAUSED = "paused"
    """It ended its stage and waits for the others."""
    STOPPED = "stopped"
    """Dropped at a barrier."""
    FINISHED = "finished"
    """Ran to the end."""
    FAILED = "failed"
    """Failed for good."""
    LEFT = "left"
    """Ended by itself before its stages were over, or was never begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint that is still there.

    Attributes:
        path: where, as the trial named it.
        iterations: iterations in total that it stands for.
        size_bytes: its size.
        score: what was reported for exactly these iterations; None when nothing was.
    """

    path: str
    iterations: int
    size_bytes: int
    score: float | None


@dataclass(slots=True, kw_only=True)
class TrialState:
    """One trial.

    Attributes:
        trial: its number.
        chain: its chain.
        config: its configuration, in plain JSON values.
        phase: where it stands.
        stage: the stage that it ran last or is to run, within its chain.
        iterations: iterations in total at its last barrier or checkpoint.
        scores: scores by iterations in total, in the order of the reports.
        checkpoints: complete ones that still exist, oldest first.
        cause: why it failed or left, empty otherwise.
    """

    trial: int
    chain: int
    config: Mapping[str, Any]
    phase: TrialPhase = TrialPhase.WAITING
    stage: int = 0
    iterations: int = 0
    scores: dict[int, float] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    cause: str = ""

    @property
    def score(self) -> float | None:
        """The last score, None when it has reported none."""
        return next(reversed(self.scores.values())) if self.scores else None

    @property
    def last_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint."""
        return self.checkpoints[-1] if self.checkpoints else None

    def best_checkpoint(self, mode: str) -> Checkpoint | None:
        """The checkpoint with the best score, the later one of equals; None when none has a score."""
        scored = [(c.score, c) for c in reversed(self.checkpoints) if c.score is not None]
        ranked = [(_goodness(score, mode), c) for score, c in scored if not math.isnan(score)]
        return max(ranked, key=lambda pair: pair[0])[1] if ranked else None


@dataclass(slots=True, kw_only=True)
class NodeState:
    """One node that was requested; times are None until they have come.

    Attributes:
        node: its name.
        lane: whose node it is: the chain where chains run side by side, else 0.
        instance_type: name of its type.
        slots: slots of it.
        usd_per_hour: price of it.
        market: how it is bought.
        instance: the provider's own name of it; empty before it runs, and where it has none.
        zone: where it stands; empty before it runs, and where that is not known.
        reclaimed: whether its provider took it back.
        requested_s: when it was asked for.
        running_s: when it began to run, and to be billed.
        running_in: index in `RunState.stages` of the stage in which it did.
        ready_s: when it could hold trials.
        released_s: when it was given back, or lost.
        released_in: index in `RunState.stages` of the stage at whose end, or in which, it was released.
        lost: why it was lost, empty otherwise.
        leaving: whether its provider has said that it will take it away.
        trained_s: node-seconds of training on it (duration times the share of its slots) that are over.
    """

    node: str
    lane: int
    instance_type: str
    slots: int
    usd_per_hour: float
    requested_s: float
    market: str = "on_demand"
    instance: str = ""
    zone: str = ""
    reclaimed: bool = False
    running_s: float | None = None
    running_in: int | None = None
    ready_s: float | None = None
    released_s: float | None = None
    released_in: int | None = None
    lost: str = ""
    leaving: bool = False
    trained_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class StageState:
    """One stage that began.

    Attributes:
        chain: its chain.
        stage: which stage of it.
        lane: see `NodeState`.
        trials: its trials, in the order in which they start.
        instance_type: type of its nodes.
        nodes: how many it holds.
        slots_per_trial: slots of each trial.
        start_s: barrier at which it began.
        end_s: barrier at which it ended, None before.
        survivors: who goes on, best first.
        stopped: who was dropped, best first.
        trained_slot_s: slot-seconds of training in it that are over.
        begun: whether anything has been requested or started in it.
    """

    chain: int
    stage: int
    lane: int
    trials: tuple[int, ...]
    instance_type: str
    nodes: int
    slots_per_trial: int
    start_s: float
    end_s: float | None = None
    survivors: tuple[int, ...] = ()
    stopped: tuple[int, ...] = ()
    trained_slot_s: float = 0.0
    begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A trial's processes that are there now.

    Attributes:
        start_s: since when.
        stage: index in `RunState.stages`.
        nodes: names of the nodes that it is on.
        slots: slots that it holds, on equal parts of these nodes.
    """

    start_s: float
    stage: int
    nodes: tuple[str, ...]
    slots: int


@dataclass(slots=True, kw_only=True)
class RunState:
    """All of a run. Changed by `apply` alone.

    Attributes:
        run: its id, empty before it started.
        metric: name of the score.
        mode: ``max`` or ``min``.
        parallel: whether chains run side by side.
        stage_counts: stages of each chain.
        t_s: time of the last event.
        trials: by number.
        nodes: by name, in the order of their requests, given back ones included.
        held: names of the nodes that are held or requested, in the order of their requests.
        launches: the provider's renting calls by their tokens, in order; none of a provider that keeps no record.
        stages: in the order in which they began.
        current: index in `stages` of each lane's current or last stage.
        training: what trains now, by trial.
        replans: changes of the plan.
        resumed: how often the run was resumed.
        heard_s: time of the last event before it was resumed for the last time: until then its process lived.
        warnings: all warnings.
        ending: how the run ended, None before.
        reason: why, where it did not end well.
    """

    run: str = ""
    metric: str = ""
    mode: str = "max"
    parallel: bool = False
    stage_counts: tuple[int, ...] = ()
    t_s: float = 0.0
    trials: dict[int, TrialState] = field(default_factory=dict)
    nodes: dict[str, NodeState] = field(default_factory=dict)
    held: dict[str, None] = field(default_factory=dict)
    launches: dict[str, Launch] = field(default_factory=dict)
    stages: list[StageState] = field(default_factory=list)
    current: dict[int, int] = field(default_factory=dict)
    training: dict[int, Training] = field(default_factory=dict)
    replans: list[events.Replanned] = field(default_factory=list)
    resumed: int = 0
    heard_s: float = 0.0
    warnings: list[str] = field(default_factory=list)
    ending: RunEnding | None = None
    reason: str = ""

    @property
    def began_s(self) -> float:
        """When the first node was requested; 0 before one was."""
        return next(iter(self.nodes.values())).requested_s if self.nodes else 0.0

    @property
    def jct_s(self) -> float:
        """From the first node request to the end of the last stage that ended; 0 before one has."""
        ends = [stage.end_s for stage in self.stages if stage.end_s is not None]
        return max(ends) - self.began_s if ends and self.nodes else 0.0

    def best(self) -> TrialState | None:
        """The finished trial with the best last score, of equals the lower number.

        While nothing has finished, all trials with a score compete. NaN is no score. None when there is none.
        """
        scored = [(trial.score, trial) for trial in self.trials.values() if trial.score is not None]
        ranked = [(_goodness(score, self.mode), t) for score, t in scored if not math.isnan(score)]
        finished = [pair for pair in ranked if pair[1].phase is TrialPhase.FINISHED]
        contest = finished or ranked
        return max(contest, key=lambda pair: (pair[0], -pair[1].trial))[1] if contest else None


def fold(history: Iterable[Event]) -> RunState:
    """The state after these events."""
    state = RunState()
    for event in history:
        apply(state, event)
    return state


def apply(state: RunState, event: Event) -> RunState:
    """Take one event into the state, in place, and return it.

    Raises:
        KeyError: the event speaks of a trial or node that no earlier event introduced.
    """
    before_s = state.t_s
    state.t_s = max(state.t_s, event.t_s)
    match event:
        case events.TrialReported():
            _reported(state.trials[event.trial], event)
        case events.TrialReady():
            pass
        case events.TrialSaved():
            _saved(state.trials[event.trial], event)
        case events.CheckpointDeleted() | events.CheckpointLost():
            trial = state.trials[event.trial]
            trial.checkpoints = [c for c in trial.checkpoints if c.path != event.checkpoint]
        case events.TrialStarted():
            _started(state, event)
        case events.TrialPaused():
            _stop_training(state, event.trial, event.t_s)
            trial = state.trials[event.trial]
            trial.phase, trial.iterations = TrialPhase.PAUSED, event.iterations
        case events.TrialInterrupted():
            _stop_training(state, event.trial, event.t_s)
            state.trials[event.trial].phase = TrialPhase.WAITING
        case events.TrialFailed():
            _stop_training(state, event.trial, event.t_s)
            trial = state.trials[event.trial]
            trial.phase, trial.cause = TrialPhase.FAILED, event.cause
        case events.TrialLeft():
            _stop_training(state, event.trial, event.t_s)
            trial = state.trials[event.trial]
            trial.phase, trial.cause = TrialPhase.LEFT, event.cause
        case events.NodeRequested():
            _requested(state, event)
        case events.NodeRunning():
            node = state.nodes[event.node]
            node.running_s, node.running_in = event.since_s, state.current.get(node.lane)
            node.instance, node.zone = event.instance, event.zone
            if event.usd_per_hour is not None:
                node.usd_per_hour = event.usd_per_hour
        case events.LaunchAttempted():
            state.launches[event.attempt] = Launch(
                attempt=event.attempt, nodes=event.nodes, request=event.request, t_s=event.t_s
            )
        case events.LaunchGranted():
            state.launches[event.attempt] = replace(state.launches[event.attempt], instances=event.instances)
        case events.LaunchRefused():
            state.launches[event.attempt] = replace(state.launches[event.attempt], refused=event.reason)
        case events.NodeReady():
            state.nodes[event.node].ready_s = event.t_s
        case events.NodeLeaving():
            state.nodes[event.node].leaving = True
        case events.NodeReleased():
            # An interrupt may come before the request is written, and the release is written in any case.
            if event.node in state.nodes:
                _released(state, state.nodes[event.node], event.t_s)
        case events.NodeLost():
            _lost(state, event)
        case events.StageStarted():
            _stage_started(state, event)
        case events.StageEnded():
            _stage_ended(state, event)
        case events.TrialCreated():
            state.trials[event.trial] = TrialState(trial=event.trial, chain=event.chain, config=event.config)
        case events.Warned():
            state.warnings.append(event.text)
        case events.Replanned():
            _replanned(state, event)
        case events.RunResumed():
            _resumed(state, before_s)
        case events.RunStarted():
            state.run, state.metric, state.mode = event.run, event.metric, event.mode
            state.parallel = event.plan.get("order") == "parallel"
            chains = event.plan.get("chains", [event.plan])
            state.stage_counts = tuple(len(chain["stages"]) for chain in chains)
        case events.RunEnded():
            _end_training(state, event.t_s)
            state.ending, state.reason = event.ending, event.reason
    return state


def _goodness(score: float, mode: str) -> float:
    return score if mode == "max" else -score


def _reported(trial: TrialState, event: events.TrialReported) -> None:
    trial.scores[event.iterations] = event.score
    last = trial.last_checkpoint
    if last is not None and last.iterations == event.iterations:
        trial.checkpoints[-1] = replace(last, score=event.score)


def _saved(trial: TrialState, event: events.TrialSaved) -> None:
    kept = [c for c in trial.checkpoints if c.path != event.checkpoint]
    new = Checkpoint(
        path=event.checkpoint,
        iterations=event.iterations,
        size_bytes=event.size_bytes,
        score=trial.scores.get(event.iterations),
    )
    trial.checkpoints = [*kept, new]
    trial.iterations = event.iterations


def _started(state: RunState, event: events.TrialStarted) -> None:
    trial = state.trials[event.trial]
    trial.phase, trial.stage = TrialPhase.RUNNING, event.stage
    # What an earlier start reported beyond its last checkpoint is done again.
    for iterations in [i for i in reversed(trial.scores) if i > event.from_iteration]:
        del trial.scores[iterations]
    index = state.current[_lane(state, event.chain)]
    state.stages[index].begun = True
    state.training[event.trial] = Training(start_s=event.t_s, stage=index, nodes=event.nodes, slots=event.slots)


def _stop_training(state: RunState, trial: int, t_s: float) -> None:
    training = state.training.pop(trial, None)
    if training is None:
        return
    slot_s = max(0.0, t_s - training.start_s) * training.slots
    state.stages[training.stage].trained_slot_s += slot_s
    for name in training.nodes:
        node = state.nodes[name]
        node.trained_s += slot_s / len(training.nodes) / node.slots


def _end_training(state: RunState, t_s: float) -> None:
    """The processes of all trials are gone."""
    for number in list(state.training):
        _stop_training(state, number, t_s)
        state.trials[number].phase = TrialPhase.WAITING


def _requested(state: RunState, event: events.NodeRequested) -> None:
    lane = _lane(state, event.chain)
    if lane in state.current:
        state.stages[state.current[lane]].begun = True
    state.held[event.node] = None
    state.nodes[event.node] = NodeState(
        node=event.node,
        lane=lane,
        instance_type=event.instance_type,
        slots=event.slots,
        usd_per_hour=event.usd_per_hour,
        market=event.market,
        requested_s=event.t_s,
    )


def _released(state: RunState, node: NodeState, t_s: float) -> None:
    if node.node not in state.held:
        # Given back once more: it had not been after all, as a resumed run found.
        if node.released_s is not None and not node.lost:
            node.released_s = max(node.released_s, t_s)
        return
    del state.held[node.node]
    node.released_s = t_s
    index = state.current.get(node.lane)
    if index is None:
        return
    # A barrier releases before it requests or starts anything: such a node belongs to the stage that ended.
    before = [i for i in range(index) if state.stages[i].lane == node.lane]
    node.released_in = before[-1] if before and not state.stages[index].begun else index


def _lost(state: RunState, event: events.NodeLost) -> None:
    node = state.nodes[event.node]
    node.lost, node.reclaimed = event.reason or "lost", event.reclaimed
    for number in [n for n, training in state.training.items() if event.node in training.nodes]:
        _stop_training(state, number, event.until_s)
        state.trials[number].phase = TrialPhase.WAITING
    _released(state, node, event.until_s)


def _stage_started(state: RunState, event: events.StageStarted) -> None:
    if state.stage_counts and event.stage >= state.stage_counts[event.chain]:
        raise KeyError(f"stage {event.stage} of chain {event.chain}")
    lane = _lane(state, event.chain)
    state.current[lane] = len(state.stages)
    state.stages.append(
        StageState(
            chain=event.chain,
            stage=event.stage,
            lane=lane,
            trials=event.trials,
            instance_type=event.instance_type,
            nodes=event.nodes,
            slots_per_trial=event.slots_per_trial,
            start_s=event.t_s,
        )
    )
    for trial in event.trials:
        state.trials[trial].phase, state.trials[trial].stage = TrialPhase.WAITING, event.stage


def _stage_ended(state: RunState, event: events.StageEnded) -> None:
    stage = state.stages[state.current[_lane(state, event.chain)]]
    stage.end_s, stage.survivors, stage.stopped = event.t_s, event.survivors, event.stopped
    for trial in event.stopped:
        state.trials[trial].phase = TrialPhase.STOPPED
    if event.stage + 1 == state.stage_counts[event.chain]:
        for trial in event.survivors:
            state.trials[trial].phase = TrialPhase.FINISHED


def _replanned(state: RunState, event: events.Replanned) -> None:
    state.replans.append(event)
    index = state.current.get(_lane(state, event.chain))
    stage = None if index is None else state.stages[index]
    if stage is not None and (stage.chain, stage.stage, stage.end_s) == (event.chain, event.stage, None):
        first = event.plan.get("chains", [event.plan])[0]["stages"][0]
        stage.instance_type, stage.nodes = first["instance_type"], first["nodes"]
        stage.slots_per_trial = first["slots_per_trial"]


def _resumed(state: RunState, before_s: float) -> None:
    """What trained had ended with its process, at some time after the last event."""
    _end_training(state, before_s)
    state.resumed, state.heard_s = state.resumed + 1, before_s
    state.ending, state.reason = None, ""


def _lane(state: RunState, chain: int) -> int:
    return chain if state.parallel else 0
