"""What nodes and trials did when: spans of time, folded from the events of a log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rb_core import events
from rb_core.events import Event
from rb_core.state import NodeState, RunState, TrialPhase, TrialState
from rb_plugins.page.story import Curve, Doing, End, Row, Span, StageSpan

_ENDS = {
    TrialPhase.FINISHED: End.FINISHED,
    TrialPhase.STOPPED: End.STOPPED,
    TrialPhase.FAILED: End.FAILED,
    TrialPhase.LEFT: End.LEFT,
}
_BUSY = (Doing.TRAINING, Doing.SAVING, Doing.STARTING)


@dataclass(slots=True, kw_only=True)
class _Visit:
    """A trial on its nodes, from the start of its processes to their end."""

    trial: int
    nodes: tuple[str, ...]
    slots: int
    start_s: float
    ready_s: float | None = None
    told_s: float | None = None
    saves: list[tuple[float, float]] = field(default_factory=list)
    end_s: float | None = None

    def spans(self, now_s: float) -> list[Span]:
        """Starting, training and saving, by turns."""
        end_s = now_s if self.end_s is None else self.end_s
        ready_s = min(end_s, end_s if self.ready_s is None else self.ready_s)
        found = [Span(doing=Doing.STARTING, start_s=self.start_s, end_s=ready_s)]
        at_s = ready_s
        for begins_s, ends_s in self.saves:
            begins_s, ends_s = max(at_s, begins_s), min(end_s, ends_s)
            found.append(Span(doing=Doing.TRAINING, start_s=at_s, end_s=begins_s))
            found.append(Span(doing=Doing.SAVING, start_s=begins_s, end_s=ends_s))
            at_s = max(at_s, ends_s)
        found.append(Span(doing=Doing.TRAINING, start_s=at_s, end_s=end_s))
        return [span for span in found if span.end_s - span.start_s > 1e-9]


class Timeline:
    """Everything that a log tells about time; times count from the first node request."""

    def __init__(self, history: Sequence[Event], state: RunState) -> None:
        """The timeline of a run.

        Args:
            history: its log.
            state: the run after it.
        """
        self._state = state
        self._began_s = state.began_s
        self._visits: dict[int, list[_Visit]] = defaultdict(list)
        self._since_s: dict[int, float] = {}
        self._over: dict[int, float] = {}
        heard_s = 0.0
        for event in history:
            self._take(event, heard_s)
            heard_s = event.t_s
        self.end_s = max(0.0, state.t_s - self._began_s)

    def nodes(self) -> tuple[Row, ...]:
        """A row for each node, in the order of their requests."""
        on: dict[str, list[tuple[Span, float]]] = defaultdict(list)
        for visits in self._visits.values():
            for visit in visits:
                for span in visit.spans(self._state.t_s):
                    for name in visit.nodes:
                        slots = self._state.nodes[name].slots
                        on[name].append((span, visit.slots / len(visit.nodes) / slots))
        return tuple(self._node(node, on[node.node]) for node in self._state.nodes.values())

    def trials(self) -> tuple[Row, ...]:
        """A row for each trial: those that ran the most iterations first, and the best of equals."""
        return tuple(self._trial(trial) for trial in self._ranked())

    def curves(self) -> tuple[Curve, ...]:
        """The scores of each trial that has any, in the order of `trials`."""
        return tuple(
            Curve(
                trial=trial.trial,
                points=tuple(point for point in sorted(trial.scores.items()) if abs(point[1]) < float("inf")),
                end=_ENDS.get(trial.phase, End.OPEN),
            )
            for trial in self._ranked()
        )

    def stages(self) -> tuple[StageSpan, ...]:
        """Every stage between its barriers."""
        several = len(self._state.stage_counts) > 1
        return tuple(
            StageSpan(
                name=f"{stage.chain}.{stage.stage}" if several else str(stage.stage),
                chain=stage.chain,
                lane=stage.lane,
                detail=(
                    f"{len(stage.trials)} trials on {stage.nodes} x {stage.instance_type}, "
                    f"{stage.slots_per_trial} slots each"
                ),
                start_s=self._since(stage.start_s),
                end_s=self.end_s if stage.end_s is None else self._since(stage.end_s),
            )
            for stage in self._state.stages
        )

    def _since(self, t_s: float) -> float:
        return max(0.0, t_s - self._began_s)

    def _take(self, event: Event, heard_s: float) -> None:
        match event:
            case events.StageStarted():
                for trial in event.trials:
                    self._since_s.setdefault(trial, event.t_s)
            case events.TrialStarted():
                self._visits[event.trial].append(
                    _Visit(trial=event.trial, nodes=event.nodes, slots=event.slots, start_s=event.t_s)
                )
            case events.TrialReady() if visit := self._open(event.trial):
                visit.ready_s = event.t_s
            case events.TrialReported() if visit := self._open(event.trial):
                visit.told_s = event.t_s
            case events.TrialSaved() if visit := self._open(event.trial):
                visit.saves.append((event.t_s - event.save_s, event.t_s))
            case events.TrialPaused() | events.TrialInterrupted():
                self._close(event.trial, event.t_s)
            case events.TrialFailed() | events.TrialLeft():
                self._close(event.trial, event.t_s)
                self._over[event.trial] = event.t_s
            case events.StageEnded():
                for trial in (*event.stopped, *event.survivors):
                    self._over[trial] = event.t_s
            case events.RunResumed():
                for trial in self._visits:
                    self._close(trial, heard_s)
            case events.RunEnded():
                for trial in self._visits:
                    self._close(trial, event.t_s)

    def _open(self, trial: int) -> _Visit | None:
        visits = self._visits[trial]
        return visits[-1] if visits and visits[-1].end_s is None else None

    def _close(self, trial: int, t_s: float) -> None:
        visit = self._open(trial)
        if visit is not None:
            visit.end_s = t_s

    def _ranked(self) -> list[TrialState]:
        sign = -1.0 if self._state.mode == "max" else 1.0

        def rank(trial: TrialState) -> tuple[bool, int, float, int]:
            score = trial.score
            usable = score is not None and abs(score) < float("inf")
            goodness = sign * score if score is not None and usable else float("inf")
            return trial.phase is not TrialPhase.FINISHED, -trial.iterations, goodness, trial.trial

        return sorted(self._state.trials.values(), key=rank)

    def _trial(self, trial: TrialState) -> Row:
        end = _ENDS.get(trial.phase, End.OPEN)
        visits = self._visits[trial.trial]
        over_s = self._over.get(trial.trial, self._state.t_s) if end is not End.OPEN else self._state.t_s
        spans: list[Span] = []
        at_s = self._since_s.get(trial.trial)
        for visit in visits:
            if at_s is not None and visit.start_s > at_s:
                spans.append(Span(doing=Doing.IDLE, start_s=at_s, end_s=visit.start_s))
            spans += visit.spans(self._state.t_s)
            at_s = self._state.t_s if visit.end_s is None else visit.end_s
        if at_s is not None and over_s > at_s:
            spans.append(Span(doing=Doing.IDLE, start_s=at_s, end_s=over_s))
        chain = f"of chain {trial.chain}, " if len(self._state.stage_counts) > 1 else ""
        score = "no score" if trial.score is None else f"{self._state.metric or 'score'} {trial.score:.5g}"
        return Row(
            name=f"trial {trial.trial}",
            detail=f"{chain}{trial.phase.value} after {trial.iterations} iterations, {score}",
            spans=tuple(self._shifted(span) for span in spans),
            end=end,
            end_s=self._since(over_s),
            reason=trial.cause,
            lane=trial.chain if self._state.parallel else 0,
        )

    def _node(self, node: NodeState, busy: list[tuple[Span, float]]) -> Row:
        now_s = self._state.t_s
        until_s = now_s if node.released_s is None else node.released_s
        running_s = until_s if node.running_s is None else min(node.running_s, until_s)
        ready_s = until_s if node.ready_s is None else min(max(node.ready_s, running_s), until_s)
        spans = [
            Span(doing=Doing.LAUNCHING, start_s=node.requested_s, end_s=running_s),
            Span(doing=Doing.STARTING, start_s=running_s, end_s=ready_s),
            *_shares(busy, ready_s, until_s),
        ]
        end = End.OPEN if node.released_s is None else End.LOST if node.lost else End.RELEASED
        place = ", ".join(word for word in (node.market.replace("_", " "), node.zone, node.instance) if word)
        return Row(
            name=node.node,
            detail=f"{node.instance_type} ({node.slots} slots, {place})",
            spans=tuple(self._shifted(span) for span in spans if span.end_s > span.start_s),
            end=end,
            end_s=self._since(until_s),
            reason=node.lost,
            lane=node.lane,
        )

    def _shifted(self, span: Span) -> Span:
        return Span(
            doing=span.doing, start_s=self._since(span.start_s), end_s=self._since(span.end_s), share=span.share
        )


def _shares(busy: list[tuple[Span, float]], first_s: float, last_s: float) -> list[Span]:
    """What the slots of a node do between two times: for each change, a span for each thing with its share."""
    changes: dict[float, dict[Doing, float]] = defaultdict(lambda: defaultdict(float))
    changes.update({first_s: defaultdict(float), last_s: defaultdict(float)})
    for span, share in busy:
        start_s, end_s = max(first_s, span.start_s), min(last_s, span.end_s)
        if end_s > start_s:
            changes[start_s][span.doing] += share
            changes[end_s][span.doing] -= share
    spans: list[Span] = []
    level: dict[Doing, float] = defaultdict(float)
    times = sorted(changes)
    for at_s, next_s in pairwise(times):
        for doing, change in changes[at_s].items():
            level[doing] += change
        shares = {doing: level[doing] for doing in _BUSY if level[doing] > 1e-9}
        shares[Doing.IDLE] = 1.0 - sum(shares.values())
        spans += [
            Span(doing=doing, start_s=at_s, end_s=next_s, share=min(1.0, share))
            for doing, share in shares.items()
            if share > 1e-9
        ]
    return spans
