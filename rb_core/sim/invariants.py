"""What holds after every run, whatever went wrong in it: the engine's log against the world's own books.

Each invariant is told the evidence and says what it finds amiss. None of them uses the engine's own reckoning where
the world has books, nor its choice where `best_first` can choose.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from rb_core import events
from rb_core.cluster import MOST_DOUBLINGS, READY_PATIENCE
from rb_core.errors import BudgetExceeded, LaunchFailure, LeakedNodes, NoAnswer, RubberBandError, TrialFailure
from rb_core.events import RunEnding
from rb_core.ledger import cost_usd
from rb_core.sim.evidence import Evidence
from rb_core.sim.reference import best_first
from rb_core.sim.starts import Start, StartEnding
from rb_core.sim.truth import longest_unheard_s, true_cost_usd, unsure_releases_s

MONEY_SLACK_USD = 1e-6
TIME_SLACK_S = 1e-6


class BrokenInvariant(RubberBandError):
    """A rehearsed run was not as every run must be: a fault of the engine, or of the rehearsal itself.

    Attributes:
        seed: what the run can be repeated with.
        problems: what was amiss.
    """

    def __init__(self, seed: int, problems: Sequence[str]) -> None:
        super().__init__(f"the rehearsal with seed {seed} broke {len(problems)} invariant(s): {'; '.join(problems)}")
        self.seed = seed
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[BrokenInvariant], tuple[int, tuple[str, ...]]]:
        return BrokenInvariant, (self.seed, self.problems)  # by its arguments, so that other processes can raise it


def violations(evidence: Evidence) -> list[str]:
    """Everything that is amiss, each under the name of its invariant."""
    return [f"{name}: {problem}" for name, check in INVARIANTS.items() for problem in check(evidence)]


def ended(evidence: Evidence) -> Iterator[str]:
    """The log goes from the run's start to its end, and what ended the run is something that faults explain."""
    kinds = [type(event) for event in evidence.events]
    if evidence.endless:
        yield f"the run had not ended after {len(kinds)} events"
    if kinds[:1] != [events.RunStarted] or kinds.count(events.RunStarted) != 1:
        yield "the log does not begin with the start of the run"
    if kinds[-1:] != [events.RunEnded]:
        yield "the log does not end with the end of the run"
    ending, error = evidence.state.ending, evidence.error
    if error is None and not evidence.killed_s and ending not in (RunEnding.DONE, RunEnding.DEADLINE):
        yield f"the engine returned, and the log says that the run {ending}"
    if error is not None and "never comes" in str(error):
        yield f"the engine waited in vain: {error}"
    elif error is not None and not any(isinstance(error, kind) and may(evidence) for kind, may in _EXPLAINED.items()):
        yield f"no fault explains {type(error).__name__}: {error}"


def _trials_fail(evidence: Evidence) -> bool:
    faults, patience = evidence.faults, evidence.request.patience
    too_slow = patience is not None and faults.true_iteration_factor > patience
    return bool(
        faults.trial_failure
        or faults.trial_hang
        or faults.straggler.probability
        or any(math.isnan(score) for score in evidence.scores.values())
        or too_slow
    )


def _nodes_fail(evidence: Evidence) -> bool:
    faults = evidence.faults
    slowest = faults.true_init_factor * (faults.slow_init.factor if faults.slow_init.probability else 1.0)
    too_slow = slowest > READY_PATIENCE * 2.0**MOST_DOUBLINGS
    return bool(
        faults.launch_failure
        or faults.never_ready
        or faults.node_loss_per_hour
        or faults.answer_lost
        or faults.spot.droughts_per_hour
        or evidence.request.problem.cloud.interruptible
        or too_slow
    )


_EXPLAINED: dict[type[Exception], Callable[[Evidence], bool]] = {
    TrialFailure: _trials_fail,
    LaunchFailure: _nodes_fail,
    BudgetExceeded: lambda evidence: evidence.request.max_usd is not None,
    NoAnswer: lambda evidence: evidence.faults.answer_lost > 0,
    LeakedNodes: lambda evidence: evidence.faults.answer_lost > 0 and not evidence.owned,
}
"""How a run may end before its last stage, and when."""


def time_passes(evidence: Evidence) -> Iterator[str]:
    """Time never runs backwards along the log."""
    for before, after in pairwise(evidence.events):
        if after.t_s < before.t_s:
            yield f"{type(after).__name__} at {after.t_s} s comes after {type(before).__name__} at {before.t_s} s"


def nothing_held(evidence: Evidence) -> Iterator[str]:
    """At the end no node is held and no trial runs."""
    if evidence.owned:
        yield f"still held: {', '.join(evidence.owned)}"
    for start in evidence.starts:
        if start.ended_s is None:
            yield f"trial {start.trial} still runs"


def nodes_accounted_for(evidence: Evidence) -> Iterator[str]:
    """Each node of the cloud's books stands in the log with the same times, and no process let it go twice."""
    requested = Counter(event.node for event in _of(evidence, events.NodeRequested))
    let_go: Counter[str] = Counter()
    by_this_process: set[str] = set()
    for event in evidence.events:
        match event:
            case events.RunResumed():
                by_this_process.clear()
            case events.NodeReleased() | events.NodeLost():
                if event.node in by_this_process:
                    yield f"node {event.node} was given back or lost twice"
                by_this_process.add(event.node)
                let_go[event.node] += 1
    nodes, late_s, unsure = evidence.state.nodes, longest_unheard_s(evidence), unsure_releases_s(evidence)
    for name, node in evidence.nodes.items():
        if requested[name] != 1 or not let_go[name]:
            yield f"node {name} was requested {requested[name]} times and given back or lost {let_go[name]} times"
        elif node.running_s is not None:
            told = nodes[name]
            # Of a node that went away in the moment in which it began to run nobody may have heard that it did.
            heard = told.running_s is not None or node.released_s != node.running_s
            since_s, until_s = node.running_s - evidence.began_s, (node.released_s or math.inf) - evidence.began_s
            alike = _alike(told.running_s, since_s, late_s) and _alike(told.released_s, until_s, late_s)
            if heard and not alike and name not in unsure:
                yield (
                    f"node {name} ran from {since_s} s to {until_s} s, by the log from {told.running_s} s to "
                    f"{told.released_s} s"
                )
    for name, count in requested.items():
        if name not in evidence.nodes and (count != 1 or nodes[name].running_s is not None):
            yield f"node {name} ran by the log, and the cloud knows nothing of it"


def nodes_limited(evidence: Evidence) -> Iterator[str]:
    """At no time more nodes are held than `max_nodes`."""
    limit = evidence.request.problem.cloud.max_nodes
    changes = [(node.requested_s, 1) for node in evidence.nodes.values()]
    changes += [(node.released_s, -1) for node in evidence.nodes.values() if node.released_s is not None]
    held = max(accumulate(change for _, change in sorted(changes)), default=0)
    if held > limit:
        yield f"{held} nodes were held at one time, and max_nodes is {limit}"


def money_adds_up(evidence: Evidence) -> Iterator[str]:
    """The ledger's bill is that of the cloud's own books."""
    told = cost_usd(evidence.state, evidence.request.problem.cloud)
    least, most = true_cost_usd(evidence)
    slack = MONEY_SLACK_USD * max(1.0, most)
    if not least - slack <= told <= most + slack:
        yield f"the ledger says {told} usd, the cloud's books {most} usd"


def budget_kept(evidence: Evidence) -> Iterator[str]:
    """The bill is within `max_usd`, unless nobody was there to see to it or an answer was waited for."""
    limit = evidence.request.max_usd
    watched = not evidence.killed_s and evidence.faults.answer_lost == 0
    most = true_cost_usd(evidence)[1]
    if limit is not None and watched and most > limit + MONEY_SLACK_USD:
        yield f"the bill is {most} usd, and max_usd is {limit} usd"


def trials_move_forward(evidence: Evidence) -> Iterator[str]:
    """Each trial ends its stages in their order, once each, and starts from the newest checkpoint that is known."""
    chains = evidence.request.problem.experiment.chains
    ends = [list(accumulate(stage.iterations for stage in chain)) for chain in chains]
    chain_of: dict[int, int] = {}
    ended_stages: dict[int, int] = defaultdict(int)
    known: dict[int, dict[str, int]] = defaultdict(dict)
    for event in evidence.events:
        match event:
            case events.TrialCreated():
                chain_of[event.trial] = event.chain
            case events.TrialSaved():
                known[event.trial].pop(event.checkpoint, None)
                known[event.trial][event.checkpoint] = event.iterations
            case events.CheckpointDeleted() | events.CheckpointLost():
                known[event.trial].pop(event.checkpoint, None)
            case events.TrialStarted():
                newest = next(reversed(known[event.trial].values()), 0)
                if event.stage != ended_stages[event.trial]:
                    yield f"trial {event.trial} began stage {event.stage} after {ended_stages[event.trial]} ended ones"
                if event.from_iteration != newest:
                    yield f"trial {event.trial} began at iteration {event.from_iteration}, its checkpoint is {newest}"
            case events.TrialPaused():
                end = ends[chain_of[event.trial]][event.stage]
                if event.stage != ended_stages[event.trial] or event.iterations != end:
                    yield f"trial {event.trial} ended stage {event.stage} after {event.iterations} of {end} iterations"
                ended_stages[event.trial] += 1
    for start in evidence.starts:
        if start.ending is StartEnding.MISSING:
            yield f"trial {start.trial} was to go on from {start.checkpoint}, which does not exist"
        elif start.restored is not None and start.restored != start.from_iteration:
            yield f"trial {start.trial} began at iteration {start.from_iteration} with the state of {start.restored}"


def one_place_each(evidence: Evidence) -> Iterator[str]:
    """No trial runs in two places, no slot holds two trials, and none is on a node that is not there."""
    spans: dict[object, list[tuple[float, float]]] = defaultdict(list)
    for start in evidence.starts:
        ended_s = math.inf if start.ended_s is None else start.ended_s
        spans[f"trial {start.trial}"].append((start.began_s, ended_s))
        for slot in start.slots:
            spans[f"slot {slot.index} of node {slot.node}"].append((start.began_s, ended_s))
        for name in start.nodes:
            node = evidence.nodes[name]
            gone_s = math.inf if node.released_s is None else max(node.released_s, start.began_s)
            if node.ready_s is None or start.began_s < node.ready_s or ended_s > gone_s + TIME_SLACK_S:
                yield f"trial {start.trial} ran from {start.began_s} s to {ended_s} s without its node {name}"
    for what, own in spans.items():
        own.sort()
        if any(after[0] < before[1] for before, after in pairwise(own)):
            yield f"{what} was taken twice at one time"


def survivors_are_the_best(evidence: Evidence) -> Iterator[str]:
    """Those who go on are the best by what they told, failed ones left out, and they alone make up the next stage."""
    request = evidence.request
    begun: dict[int, tuple[int, ...]] = {}
    failed: set[int] = set()
    expected: dict[tuple[int, int], set[int]] = {}
    for event in evidence.events:
        if type(event) is events.StageStarted:
            wanted = expected.get((event.chain, event.stage))
            if wanted is not None and set(event.trials) != wanted:
                yield f"stage {event.stage} of chain {event.chain} began with {event.trials}, not with its survivors"
            begun[event.chain] = event.trials
        elif isinstance(event, events.TrialFailed | events.TrialLeft):
            failed.add(event.trial)
        elif type(event) is events.StageEnded:
            chain = request.problem.experiment.chains[event.chain]
            live = [trial for trial in begun[event.chain] if trial not in failed]
            scores = {trial: evidence.scores.get((trial, event.stage), math.nan) for trial in live}
            ranked = best_first(scores, request.mode)
            last = event.stage + 1 == len(chain)
            count = len(ranked) if last else min(len(ranked), chain[event.stage + 1].trials)
            if event.survivors != ranked[:count] or event.stopped != ranked[count:]:
                yield (
                    f"stage {event.stage} of chain {event.chain} let {event.survivors} go on and stopped "
                    f"{event.stopped}; the best are {ranked[:count]}, then {ranked[count:]}"
                )
            expected[event.chain, event.stage + 1] = set(ranked[:count])


def failures_are_their_own(evidence: Evidence) -> Iterator[str]:
    """A trial fails for good by its own fault alone: it raised, or was killed more often than it may be retried."""
    starts = _by_trial(evidence.starts)
    for event in _of(evidence, events.TrialFailed):
        endings = Counter(start.ending for start in starts[event.trial] if start.stage == event.stage)
        if not endings[StartEnding.RAISED] and endings[StartEnding.KILLED] <= evidence.request.retries:
            yield f"trial {event.trial} failed for good ({event.cause}) after {dict(endings)} in stage {event.stage}"


def checkpoints_kept(evidence: Evidence) -> Iterator[str]:
    """The best trial's checkpoint is there, and none that is known of a trial that was stopped or failed."""
    state = evidence.state
    best = state.best()
    if best is not None:
        named = best.best_checkpoint(state.mode) or best.last_checkpoint
        if named is not None and named.path not in evidence.store.kept:
            yield f"checkpoint {named.path} of the best trial, {best.trial}, is not there"
        if named is None and state.ending is RunEnding.DONE:
            yield f"the best trial, {best.trial}, has no checkpoint"
    if state.ending is RunEnding.DONE:
        out = {trial for event in _of(evidence, events.StageEnded) for trial in event.stopped}
        out |= {event.trial for event in _of(evidence, events.TrialFailed)}
        lost = {event.checkpoint for event in _of(evidence, events.CheckpointLost)}
        for event in _of(evidence, events.TrialSaved):
            if event.trial in out and event.checkpoint not in lost and event.checkpoint in evidence.store.kept:
                yield f"checkpoint {event.checkpoint} of trial {event.trial}, which is out, is still there"


INVARIANTS: dict[str, Callable[[Evidence], Iterator[str]]] = {
    check.__name__: check
    for check in (
        ended, time_passes, nothing_held, nodes_accounted_for, nodes_limited, money_adds_up, budget_kept,
        trials_move_forward, one_place_each, survivors_are_the_best, failures_are_their_own, checkpoints_kept,
    )
}  # fmt: skip
"""Every invariant by its name."""


def _of(evidence: Evidence, *kinds: type[events.Event]) -> Iterator[Any]:
    return (event for event in evidence.events if type(event) in kinds)


def _by_trial(starts: Iterable[Start]) -> dict[int, list[Start]]:
    grouped: dict[int, list[Start]] = defaultdict(list)
    for start in starts:
        grouped[start.trial].append(start)
    return grouped


def _alike(told_s: float | None, true_s: float, late_s: float) -> bool:
    return told_s is not None and true_s - TIME_SLACK_S <= told_s <= true_s + TIME_SLACK_S + late_s
