"""The engine: runs a plan over ports, on a clock, driven by one inbox. It never polls and never sleeps."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from rb_core.bracket import Promote
from rb_core.budget import Budget
from rb_core.cluster import Cluster
from rb_core.dag import ExecutionDAG
from rb_core.engine.chainrun import BarrierReached, ChainRun
from rb_core.engine.failures import Failures
from rb_core.engine.request import RunRequest
from rb_core.engine.running import OnMessage, Remove, RunningTrial, Setting
from rb_core.errors import LaunchFailure, RubberBandError, RunInterrupted
from rb_core.eventlog import Log
from rb_core.events import RunEnded, RunEnding, RunStarted, TrialCreated, TrialPaused
from rb_core.journal import Journal, Observer
from rb_core.plainjson import plain
from rb_core.ports import Clock, Inbox, Launcher, NodeNotice, Notice, Provider, Timer, TrialExit, TrialNotice
from rb_core.spec import Chain, ExperimentSpec
from rb_core.state import RunState
from rb_core.training import checkpoint

PromoteHook = Callable[[ExperimentSpec, int, Mapping[int, float]], Sequence[int] | None]
"""Told one chain as an experiment, the stage and its scores, answers who goes on, best first; None: as built in."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BudgetDue(Notice):
    """It is time to look at the money again."""


class Engine:
    """Runs one plan at a time over the ports that it was given."""

    def __init__(
        self,
        *,
        provider: Provider,
        launcher: Launcher,
        clock: Clock,
        inbox: Inbox,
        log: Log,
        observers: Sequence[Observer] = (),
        promote: PromoteHook | None = None,
        on_message: OnMessage | None = None,
        remove: Remove = checkpoint.delete,
    ) -> None:
        """An engine that has not begun.

        Args:
            provider: where nodes come from; it puts its notices into `inbox`.
            launcher: what starts trials; entered for the time of the run.
            clock: the time of everything.
            inbox: where all notices arrive, made by `clock`.
            log: where events are written before they are acted on; left open.
            observers: told each event after it was written.
            promote: asked first for the survivors of a stage.
            on_message: answers messages of ranks that the engine does not know.
            remove: removes a checkpoint.
        """
        self._provider = provider
        self._launcher = launcher
        self._clock = clock
        self._inbox = inbox
        self._log = log
        self._observers = observers
        self._promote = promote
        self._on_message = on_message
        self._remove = remove

    def run(self, request: RunRequest) -> RunState:
        """Run a plan to its end; every node has been given back when this returns or raises.

        Raises:
            InvalidInput: plan, problem and provider do not fit each other; nothing was started.
            TrialFailure: no trial of a stage is left, or all fail alike.
            LaunchFailure: nodes cannot be had, or too many were lost.
            BudgetExceeded: going on would exceed `max_usd`.
            UnusableLog: the log can no longer be written.
            PluginConflict: a promotion is against its contract.
            LeakedNodes: the provider still owns nodes of the run.
            RunInterrupted: the user stopped it.
        """
        dag = ExecutionDAG.build(request.problem, request.plan)
        self._provider.check(request.problem.cloud)
        journal = Journal(self._log, self._clock, self._observers)
        setting = Setting(
            request=request,
            journal=journal,
            launcher=self._launcher,
            clock=self._clock,
            inbox=self._inbox,
            remove=self._remove,
            on_message=self._on_message,
        )
        try:
            self._announce(request, journal)
            _Run(setting, self._provider, dag, self._promote).run()
        except KeyboardInterrupt:
            journal.attempt(RunEnded, ending=RunEnding.INTERRUPTED, reason="interrupted by its user")
            raise RunInterrupted("the run was interrupted; every node has been given back") from None
        except BaseException as error:
            reason = str(error) or type(error).__name__
            journal.attempt(RunEnded, ending=RunEnding.FAILED, reason=reason)
            raise
        journal.write(RunEnded, ending=RunEnding.DONE)
        return journal.state

    def _announce(self, request: RunRequest, journal: Journal) -> None:
        journal.write(
            RunStarted,
            run=request.run,
            problem=request.plain_record,
            plan=request.plan_record,
            metric=request.metric,
            mode=request.mode,
            seed=request.seed,
            target=request.target,
            environment=dict(request.environment),
        )
        chains = [
            chain for chain, stages in enumerate(request.problem.experiment.chains) for _ in range(stages[0].trials)
        ]
        rows = [
            {"trial": trial, "chain": chain, "config": plain(request.configs[trial])}
            for trial, chain in enumerate(chains)
        ]
        journal.write_all(TrialCreated, rows)


class _Lane:
    """Chains that follow each other on one cluster."""

    def __init__(self, cluster: Cluster, chains: Sequence[ChainRun]) -> None:
        self.cluster = cluster
        self.chain = chains[0]
        self._next = deque(chains[1:])
        self.over = False

    def advance(self) -> None:
        """Go on to the next chain when one is done; the last one's nodes are given back at once."""
        while self.chain.done and not self.over:
            if self._next:
                self.chain = self._next.popleft()
                self.chain.open()
            else:
                self.over = True
                self.cluster.release_all("the last stage ended")


class _Run:
    """One run from its first request to its last release."""

    def __init__(self, setting: Setting, provider: Provider, dag: ExecutionDAG, promote: PromoteHook | None) -> None:
        request = setting.request
        self._setting = setting
        self._budget = Budget(request.problem.cloud, setting.journal, request.max_usd)
        self._losses = 0
        self._priced = 0
        self._budget_timer: Timer | None = None
        failures = Failures(request.hopeless_after)
        names = (f"{request.run}-{number}" for number in itertools.count())
        trials = _numbered(request.problem.experiment)
        self._lanes: list[_Lane] = []
        self._lane_of: dict[int, _Lane] = {}
        for steps in dag.lanes:
            cluster = Cluster(provider, setting.journal, run=request.run, names=names, admit=self._budget.admit)
            chains = []
            for number in dict.fromkeys(step.chain for step in steps):
                own = [step for step in steps if step.chain == number]
                ask = _promotion(promote, request.problem.experiment.chains[number])
                chains.append(ChainRun(setting, cluster, failures, own, trials[number], ask))
            lane = _Lane(cluster, chains)
            self._lanes.append(lane)
            self._lane_of.update((chain.number, lane) for chain in chains)
        self._chain_of = {trial: number for number, own in enumerate(trials) for trial in own}

    def run(self) -> None:
        """Run until every lane is over; leave no process and no node behind."""
        with ExitStack() as stack:
            for lane in self._lanes:
                stack.enter_context(lane.cluster)
            # Entered last, left first: no process outlives its node.
            stack.enter_context(self._setting.launcher)
            try:
                self._loop()
            except KeyboardInterrupt:
                self._stop()
                raise
            finally:
                for running in self._running():
                    _end(running)

    def _loop(self) -> None:
        for lane in self._lanes:
            lane.chain.open()
            lane.advance()
        self._watch_budget()
        while not all(lane.over for lane in self._lanes):
            notice = self._setting.inbox.get()
            if notice is None:
                raise LaunchFailure(
                    "the run waits for something that never comes: no node and no trial has anything left to say; "
                    "this is a fault of the provider or the launcher"
                )
            self._take(notice)
            self._watch_budget()

    def _take(self, notice: Notice) -> None:
        match notice:
            case TrialNotice():
                lane = self._lane_of_trial(notice.trial)
                if lane is not None:
                    lane.chain.told(notice.trial, notice.rank, notice.message)
            case TrialExit():
                lane = self._lane_of_trial(notice.trial)
                if lane is not None:
                    lane.chain.exited(notice.trial, notice.failure)
                    lane.advance()
            case NodeNotice():
                for lane in self._lanes:
                    if notice.node in lane.cluster:
                        self._take_node(lane, notice)
            case BarrierReached():
                lane = self._lane_of[notice.chain]
                lane.chain.barrier()
                lane.advance()
            case _BudgetDue():
                self._arm_budget()

    def _take_node(self, lane: _Lane, notice: NodeNotice) -> None:
        node = lane.cluster.took(notice)
        if node is None:
            return
        if notice.kind != "lost":
            lane.chain.joined(node)
            lane.advance()
            return
        self._losses += 1
        if self._losses > self._setting.request.max_losses:
            raise LaunchFailure(
                f"{self._losses} nodes were lost, the last one ({node.name}): {notice.reason or 'no reason given'}; "
                f"a run bears {self._setting.request.max_losses}. Look at the provider, then start again"
            )
        self._setting.journal.warn(
            f"node {node.name} was lost: {notice.reason or 'no reason given'}; "
            "its trials go on from their last checkpoints"
        )
        lane.chain.lost(node)

    def _lane_of_trial(self, trial: int) -> _Lane | None:
        chain = self._chain_of.get(trial)
        return None if chain is None else self._lane_of[chain]

    def _watch_budget(self) -> None:
        """Look at the money whenever nodes were requested."""
        requested = len(self._setting.journal.state.nodes)
        if requested != self._priced:
            self._priced = requested
            self._arm_budget()

    def _arm_budget(self) -> None:
        again_s = self._budget.check()
        if self._budget_timer is not None:
            self._budget_timer.cancel()
        if again_s is not None:
            inbox, clock = self._setting.inbox, self._setting.clock
            self._budget_timer = clock.call_at(self._setting.journal.at(again_s), lambda: inbox.put(_BudgetDue()))

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
        if isinstance(notice, TrialNotice):
            self._take(notice)
        elif isinstance(notice, TrialExit):
            lane = self._lane_of_trial(notice.trial)
            running = lane.chain.running.pop(notice.trial, None) if lane is not None else None
            if running is not None:
                running.left()
                if notice.failure is None:
                    self._setting.journal.attempt(
                        TrialPaused,
                        trial=notice.trial,
                        stage=running.run.stage,
                        iterations=running.iterations,
                    )


def _end(running: RunningTrial) -> None:
    try:
        running.left()
        running.handle.kill()
    except Exception:
        _logger.exception("trial %d could not be killed", running.run.trial)


def _numbered(experiment: ExperimentSpec) -> list[range]:
    """Numbers of each chain's trials."""
    firsts = itertools.accumulate((chain[0].trials for chain in experiment.chains), initial=0)
    return [range(first, first + chain[0].trials) for first, chain in zip(firsts, experiment.chains, strict=False)]


def _promotion(hook: PromoteHook | None, chain: Chain) -> Promote | None:
    if hook is None:
        return None
    spec = ExperimentSpec(chains=(chain,))
    return lambda stage, scores: hook(spec, stage, scores)
