"""One run from its first request to its last release: the loop that takes in what nodes and trials have to say."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from rb_core.bracket import Bracket
from rb_core.budget import Budget
from rb_core.cluster import Cluster, NodesMissing
from rb_core.engine.adoption import Adoption
from rb_core.engine.chainrun import BarrierReached, ChainRun
from rb_core.engine.failures import Failures
from rb_core.engine.lane import Lane
from rb_core.engine.replanning import Replanning
from rb_core.engine.request import OnDeadline, RunRequest
from rb_core.engine.running import RunningTrial, Setting
from rb_core.errors import LaunchFailure, RubberBandError
from rb_core.events import TrialInterrupted
from rb_core.hardware import InstanceType
from rb_core.plan import AllocationPlan, ChainOrder
from rb_core.ports import Errand, NodeNews, NodeNotice, Notice, Provider, Timer, TrialExit, TrialNotice, Zoned
from rb_core.spec import ExperimentSpec
from rb_core.trial import Saved

LOOK_EVERY_S = 5.0
"""What has been measured is compared with what was planned at most so often."""

LOOK_EVERY = 0.02
"""And not more often than after this share of the time that has passed."""

_logger = logging.getLogger(__name__)


class TimeUp(Exception):
    """The deadline has come, and the run was told to stop then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BudgetDue(Notice):
    """It is time to look at the money again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeadlineDue(Notice):
    """The deadline has come."""


class Loop:
    """Lanes, limits and the inbox of one run."""

    def __init__(
        self, setting: Setting, provider: Provider, plan: AllocationPlan, brackets: Mapping[int, Bracket]
    ) -> None:
        """A run that has not begun in this process.

        Args:
            setting: what all parts share.
            provider: where nodes come from.
            plan: the allocations to begin with.
            brackets: one for each chain.
        """
        request, journal = setting.request, setting.journal
        experiment = request.problem.experiment
        self._setting = setting
        self._budget = Budget(request.problem.cloud, journal, request.max_usd)
        self._losses = 0
        self._loss_s = -math.inf
        self._look: Timer | None = None
        self._budget_timer: Timer | None = None
        failures = Failures(request.hopeless_after)
        names = (f"{request.run}-{number}" for number in itertools.count(len(journal.state.nodes)))
        trials = numbered(experiment)
        self._lanes: list[Lane] = []
        self._replannings: list[Replanning] = []
        self._lane_of: dict[int, Lane] = {}
        for numbers in _lanes(plan):
            cluster = Cluster(
                provider,
                journal,
                setting.clock,
                setting.inbox,
                learning=setting.learning,
                run=request.run,
                names=names,
                admit=self._admit,
            )
            lane = Lane(
                cluster,
                [
                    ChainRun(
                        setting,
                        cluster,
                        failures,
                        brackets[number],
                        number=number,
                        allocations=plan.chains[number],
                        trials=trials[number],
                    )
                    for number in numbers
                ],
            )
            replanning = Replanning(setting, lane, partial(self._room, lane))
            lane.replan = replanning.consider
            self._lanes.append(lane)
            self._replannings.append(replanning)
            self._lane_of.update((number, lane) for number in numbers)
        if isinstance(provider, Zoned):
            provider.together(_may_span(plan, request))
        self._adoption = Adoption(setting, provider, self._lanes)
        self._chain_of = {trial: number for number, own in enumerate(trials) for trial in own}

    def run(self, begin: Callable[[], None], *, resumed: bool = False) -> None:
        """Run until every lane is over; leave no process and no node behind, also those of an earlier process.

        Args:
            begin: called first of all.
            resumed: whether an earlier process has begun the run.
        """
        if resumed:
            self._adoption.hold()
        with ExitStack() as stack:
            for lane in self._lanes:
                stack.enter_context(lane.cluster)
            # What one cluster waits for when it looks whether its nodes are gone is not paid for by the others.
            stack.callback(self._leave)
            begin()
            # Entered last, left first: no process outlives its node.
            stack.enter_context(self._setting.launcher)
            try:
                self._loop(resumed)
            except (KeyboardInterrupt, TimeUp):
                self._stop()
                raise
            finally:
                for running in self._running():
                    _end(running)
                for lane in self._lanes:
                    lane.chain.doubt_no_more()
                if self._look is not None:
                    self._look.cancel()
                for replanning in self._replannings:
                    replanning.close()

    def _loop(self, resumed: bool) -> None:
        if resumed:
            self._adoption.adopt()
        for lane in self._lanes:
            if resumed:
                lane.resume()
            else:
                lane.advance()
        self._arm_budget()
        self._watch_deadline()
        while not all(lane.over for lane in self._lanes):
            notice = self._setting.inbox.get()
            if notice is None:
                raise LaunchFailure(
                    "the run waits for something that never comes: no node and no trial has anything left to say; "
                    "this is a fault of the provider or the launcher"
                )
            self._take(notice)
            if isinstance(notice, TrialNotice):
                self._watch_drift()

    def _take(self, notice: Notice) -> None:
        match notice:
            case TrialNotice():
                lane = self._lane_of_trial(notice.trial)
                if lane is not None:
                    if isinstance(notice.message, Saved):
                        self._losses = 0
                    lane.chain.told(notice.trial, notice.rank, notice.message)
            case TrialExit():
                lane = self._lane_of_trial(notice.trial)
                if lane is not None:
                    lane.chain.exited(notice.trial, notice.failure, notice.left)
                    lane.advance()
            case NodeNotice():
                for lane in self._lanes:
                    if notice.node in lane.cluster:
                        self._take_node(lane, notice)
                if notice.usd_per_hour is not None:
                    self._arm_budget()
            case BarrierReached():
                lane = self._lane_of[notice.chain]
                lane.chain.barrier()
                lane.advance()
            case NodesMissing():
                lane = self._lane_of[notice.chain]
                self._replannings[self._lanes.index(lane)].refused()
                lane.advance()
            case Errand():
                notice.action()
            case _BudgetDue():
                self._arm_budget()
            case _DeadlineDue():
                self._time_is_up()

    def _take_node(self, lane: Lane, notice: NodeNotice) -> None:
        node = lane.cluster.took(notice)
        if node is None:
            return
        if notice.kind == NodeNews.LOST:
            lane.chain.lost(node)
            if node.running:
                if not node.leaving:
                    self._bear(node.name, notice.reason)
                self._setting.journal.warn(
                    f"node {node.name} was lost: {notice.reason or 'no reason given'}; its trials go on from their "
                    "last checkpoints"
                )
                lane.replan(f"node {node.name} was lost")
            lane.chain.replace()
        elif notice.kind == NodeNews.LEAVING:
            self._bear(node.name, notice.reason)
            lane.chain.leaving(node, notice.in_s)
            lane.replan(f"node {node.name} will be taken away")
            lane.chain.replace()
        else:
            lane.chain.joined(node)
        lane.advance()

    def _bear(self, node: str, reason: str) -> None:
        """Go on without a node that is lost, or will be, unless nothing else has happened for long.

        Of those that were held together one counts: many may be lost at once.
        """
        journal = self._setting.journal
        if journal.state.nodes[node].requested_s < self._loss_s:
            return
        self._loss_s = journal.t_s
        self._losses += 1
        most = self._setting.request.max_losses
        if self._losses > most:
            raise LaunchFailure(
                f"nodes were lost {self._losses} times without any checkpoint in between, the last one ({node}): "
                f"{reason or 'no reason given'}; a run bears {most}. Look at the provider, then resume the run"
            )

    def _lane_of_trial(self, trial: int) -> Lane | None:
        chain = self._chain_of.get(trial)
        return None if chain is None else self._lane_of[chain]

    def _room(self, lane: Lane) -> int:
        """Nodes that a lane may hold beside what the others hold, which may be more than they plan, or will."""
        others = (
            max(_most_nodes(other), other.cluster.serving)
            for other in self._lanes
            if other is not lane and not other.over
        )
        return self._setting.request.problem.cloud.max_nodes - sum(others)

    def _watch_drift(self) -> None:
        """Arrange to compare what has been measured with what was planned; trials that run alike tell it together."""
        if self._setting.request.replan and self._look is None:
            pause_s = max(LOOK_EVERY_S, LOOK_EVERY * self._setting.journal.t_s)
            self._look = self._setting.clock.call_at(self._setting.clock.now() + pause_s, self._compare)

    def _compare(self) -> None:
        """Plan anew when iterations turn out to take another time than the plan rests on."""
        self._look = None
        for replanning in self._replannings:
            replanning.drifted()

    def _admit(self, count: int, instance_type: InstanceType) -> None:
        """Look at the limits before nodes are requested, and at the money again once they are."""
        self._budget.admit(count, instance_type)
        self._setting.inbox.put(_BudgetDue())

    def _arm_budget(self) -> None:
        again_s = self._budget.check()
        if self._budget_timer is not None:
            self._budget_timer.cancel()
        if again_s is not None:
            inbox, clock = self._setting.inbox, self._setting.clock
            self._budget_timer = clock.call_at(self._setting.journal.at(again_s), lambda: inbox.put(_BudgetDue()))

    def _watch_deadline(self) -> None:
        objective, journal = self._setting.request.problem.objective, self._setting.journal
        if objective is None or objective.deadline_s is None or not journal.state.nodes:
            return
        inbox = self._setting.inbox
        due_s = journal.state.began_s + objective.deadline_s
        self._setting.clock.call_at(journal.at(due_s), lambda: inbox.put(_DeadlineDue()))

    def _time_is_up(self) -> None:
        if self._setting.request.on_deadline is OnDeadline.STOP:
            raise TimeUp
        self._setting.journal.warn("the deadline has come; the rest is run, for less where that ends no later")
        for lane in self._lanes:
            lane.replan("the deadline has come")

    def _leave(self) -> None:
        for lane in self._lanes:
            lane.cluster.leave()

    def _running(self) -> Iterator[RunningTrial]:
        for lane in self._lanes:
            yield from tuple(lane.chain.running.values())

    def _stop(self) -> None:
        """Ask every trial to save and end, and take in what they say until they are gone or time is up."""
        setting = self._setting
        for running in self._running():
            running.handle.stop(setting.request.grace_s)
        until_s = setting.clock.now() + setting.request.grace_s
        try:
            while any(True for _ in self._running()):
                notice = setting.inbox.get(until_s)
                if notice is None:
                    return
                self._take_last(notice)
        except KeyboardInterrupt:
            _logger.warning("interrupted again: trials are ended without saving")
        except RubberBandError as error:
            _logger.error("what trials said when they were stopped was lost: %s", error)

    def _take_last(self, notice: Notice) -> None:
        if isinstance(notice, TrialNotice | Errand):
            self._take(notice)
        elif isinstance(notice, TrialExit):
            lane = self._lane_of_trial(notice.trial)
            running = lane.chain.running.pop(notice.trial, None) if lane is not None else None
            if running is not None:
                running.left()
                self._setting.journal.attempt(
                    TrialInterrupted,
                    trial=notice.trial,
                    stage=running.run.stage,
                    cause="the run was stopped",
                    iteration_s=running.iteration_s,
                )


def numbered(experiment: ExperimentSpec) -> list[range]:
    """Numbers of each chain's trials."""
    firsts = itertools.accumulate((chain[0].trials for chain in experiment.chains), initial=0)
    return [range(first, first + chain[0].trials) for first, chain in zip(firsts, experiment.chains, strict=False)]


def _may_span(plan: AllocationPlan, request: RunRequest) -> bool:
    """Whether a trial may come to span nodes, by the plan or by what the rest may be planned anew to be."""
    slots = {kind.name: kind.slots for kind in request.problem.cloud.instance_types}
    planned = (each.slots_per_trial > slots[each.instance_type] for chain in plan.chains for each in chain)
    return any(planned) or (request.replan and max(request.problem.profile.iteration_s) > min(slots.values()))


def _most_nodes(lane: Lane) -> int:
    """The most nodes of any stage that a lane has left; 0 where it has none, as before it is resumed."""
    left = (allocation.nodes for chain in lane.left for allocation in chain.allocations[chain.stage :])
    return max(left, default=0)


def _lanes(plan: AllocationPlan) -> Sequence[Sequence[int]]:
    """Numbers of the chains that share a cluster."""
    chains = range(len(plan.chains))
    return [[chain] for chain in chains] if plan.order is ChainOrder.PARALLEL else [chains]


def _end(running: RunningTrial) -> None:
    try:
        running.left()
        running.handle.kill()
    except Exception:
        _logger.exception("trial %d could not be killed", running.run.trial)
