"""Nodes that are rented for a run of Tune's and given back as it needs fewer: a fleet over the core's `Cluster`."""

from __future__ import annotations

import atexit
import itertools
import logging
import math
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rb_core.budget import Budget
from rb_core.clock import pause
from rb_core.cluster import Cluster
from rb_core.errors import BudgetExceeded, LaunchFailure, NoAnswer
from rb_core.events import Event, Replanned
from rb_core.expectation import Batch
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.holdings import holdings
from rb_core.learning import Learning
from rb_core.ledger import released_usd
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.planners.course import Course
from rb_core.ports import Clock, Inbox, NodeNews, NodeNotice, Notice, Provider, Timer
from rb_core.profile import ScalingProfile
from rb_core.state import RunState
from rb_plugins.latencies import remember
from rb_plugins.rundir import home
from rb_ray.nodes.bootstrap import node_resource, run_resource
from rb_ray.scheduling.fitting import Resources, check_fits, ray_resources
from rb_ray.scheduling.runlog import RunLog

GOING_S = 30.0
"""How long `ElasticFleet.settle` lets nodes take to be drained before they are ended all the same."""

_ATTEMPTS = 6
_LOOK_S = 0.1
_WORDS = 200
_logger = logging.getLogger(__name__)

Rent = Callable[[Inbox], Provider]
"""Makes the provider of the nodes, which are ready once they have joined Ray."""


@runtime_checkable
class Drains(Protocol):
    """What a provider offers besides, whose nodes leave Ray only some time after they were given back."""

    @property
    def draining(self) -> Collection[str]:
        """Names of the nodes that have been given back and on which Ray may still start something."""


class _BudgetDue(Notice):
    """It is time to look at the money again."""


class ElasticFleet:
    """As many nodes as each stage is allotted, by a log that is written before anything is requested or given back.

    It is a `Fleet` and a `rb_ray.scheduling.ground.Ground`. The log is in a run directory, where ``rb-tune report``
    finds what the run costs. A run that goes on after its process was killed takes over, or gives back, whatever the
    log and the provider say that it holds.
    """

    def __init__(
        self,
        cloud: Cloud,
        rent: Rent,
        clock: Clock,
        *,
        metric: str = "",
        mode: str = "max",
        seed: int = 0,
        target: str = "",
        max_usd: float | None = None,
        directory: Path | None = None,
        resources: Resources = ray_resources,
    ) -> None:
        """A fleet that holds nothing; nobody is asked.

        Args:
            cloud: what can be rented.
            rent: makes the provider.
            clock: the time. Nothing else may wait on it.
            metric: name of the score, for the log.
            mode: ``max`` or ``min``, likewise.
            seed: of the planning, likewise.
            target: what is trained, in words, likewise.
            max_usd: hard limit of the bill.
            directory: where runs are kept; by RB_HOME or the user's state directory when None.
            resources: tells what a node has.
        """
        self._resources = resources
        self._bundle: Mapping[str, float] = {}
        self._offered = cloud
        self._rent = rent
        self._clock = clock
        self._terms: dict[str, Any] = {"metric": metric, "mode": mode, "seed": seed, "target": target}
        self._max_usd = max_usd
        self._home = home() if directory is None else directory
        # Of the profile only the cloud's latencies are learned here; what trials take is the allotter's matter.
        self._learning = Learning(ScalingProfile(iteration_s={1: Latency(mean=1.0)}), cloud)
        self._inbox = clock.inbox()
        self._log: RunLog | None = None
        self._provider: Provider | None = None
        self._cluster: Cluster | None = None
        self._budget: Budget | None = None
        self._budget_timer: Timer | None = None
        self._wanted: StageAllocation | None = None
        self._run = ""
        self._adopted = True
        self._left = False

    @property
    def label(self) -> str:
        """The resource that every node of the run has, one for each slot; known once the fleet is open."""
        return run_resource(self._run)

    def open(self, run: str, *, bundle: Mapping[str, float], restored: bool) -> None:
        """Begin the run's log, or go on with it and with the nodes that it tells of. See `Fleet.open`.

        Raises:
            UnusableLog: the log cannot be written, or another process is at work on it.
            InvalidInput: the provider cannot serve this cloud.
        """
        atexit.register(self.settle)
        self._bundle = bundle
        self._log = log = RunLog(self._home, run, self._clock)
        self._run = log.run
        self._budget = Budget(self._offered, log.journal, self._max_usd)
        self._provider = provider = self._rent(self._inbox)
        provider.check(self._offered)
        state = log.journal.state
        self._cluster = cluster = Cluster(
            provider,
            log.journal,
            self._clock,
            self._inbox,
            learning=self._learning,
            run=self._run,
            names=(f"{self._run}-{number}" for number in itertools.count(len(state.nodes))),
            admit=self._admit,
        )
        cluster.trains = lambda: self._enough
        if log.earlier:
            cluster.hold([state.nodes[name] for name in state.held], state.nodes)
            log.go_on()
            self._adopted = False
            self._adopt(0)

    def planned(self, problem: Problem, plan: AllocationPlan, *, remark: str = "") -> None:
        """Write what the run begins with, and a remark on it where there is one; of no effect once it has begun."""
        if self._log is not None and not self._log.begun:
            self._log.begin(problem, plan, **self._terms)
            if remark:
                self._log.journal.warn(remark)

    def replanned(self, stage: int, problem: Problem, course: Course) -> None:
        """Write what is planned from a stage on, where that is another plan than before."""
        if self._log is None or not course.reason:
            return
        journal = self._log.journal
        gone_s = journal.t_s - journal.state.began_s
        left = iter(course.allocations)
        plan = AllocationPlan(chains=tuple(tuple(next(left) for _ in chain) for chain in problem.experiment.chains))
        journal.write(
            Replanned,
            chain=0,
            stage=stage,
            plan=plan.record(problem.experiment),
            reason=course.reason,
            jct_s=gone_s + course.jct_s,
            cost_usd=course.cost_usd,
            before_jct_s=gone_s + course.before_jct_s,
            before_cost_usd=course.before_cost_usd,
        )

    @property
    def state(self) -> RunState | None:
        """The state of the run by its log; None before the log has begun, and when it is closed."""
        return self._log.journal.state if self._log is not None and self._log.begun else None

    def note(self, kind: type[Event], **values: Any) -> None:
        """Write an event of the trials, which only the scheduler knows of; of no effect before the log has begun."""
        if self._log is not None and self._log.begun:
            self._log.journal.write(kind, **values)

    def warn(self, text: str) -> None:
        """Let a person know, by the log of the run and that of this module."""
        _logger.warning(text)
        if self._log is not None and self._log.begun:
            self._log.journal.warn(text)

    def keep(self, name: str, table: Mapping[str, Any]) -> None:
        """Keep a JSON file in the run's directory."""
        if self._log is not None:
            self._log.keep(name, table)

    def resize(self, allocation: StageAllocation, stage: int) -> None:
        """Give surplus nodes back and request missing ones; see `Fleet.resize`.

        Raises:
            LaunchFailure: they would be more than the cloud's `max_nodes`.
            BudgetExceeded: they could bring the bill above `max_usd`; everything has been given back.
        """
        kind = self._offered.instance_type(allocation.instance_type)
        self._wanted = allocation
        if self._cluster is not None and not self._left:
            with _GivingBack(self):
                self._cluster.resize(kind, allocation.nodes, chain=0, stage=stage)

    def poll(self) -> None:
        """Take in what nodes had to say, and do what is due; see `Fleet.poll`."""
        if self._cluster is None or self._left:
            return
        with _GivingBack(self):
            while (notice := self._inbox.get(self._clock.now())) is not None:
                self._take(notice)

    @property
    def ready(self) -> bool:
        """Whether all wanted nodes have joined, and those that were given back are gone in Ray's eyes.

        Where nodes could not be had, it is as soon as those that are there hold a trial: the stage goes on with what it
        has, and the others are asked for again.
        """
        cluster = self._cluster
        if cluster is None or self._wanted is None:
            return True
        if not self._adopted or (isinstance(self._provider, Drains) and self._provider.draining):
            return False
        return len(cluster.usable) >= self._wanted.nodes or (cluster.failures > 0 and self._enough)

    @property
    def nodes(self) -> Sequence[int]:
        """Slots of each node that has joined."""
        return () if self._cluster is None else tuple(node.instance_type.slots for node in self._cluster.usable)

    @property
    def slots(self) -> int:
        """Slots of all of them."""
        return sum(self.nodes)

    @property
    def offered(self) -> Cloud:
        """What can be rented."""
        return self._offered

    @property
    def cloud(self) -> Cloud:
        """The same with the latencies that were measured."""
        return self._learning.cloud

    @property
    def instance_type(self) -> InstanceType | None:
        """The type of the nodes that are held; None where none are."""
        held = self._cluster is not None and self._cluster.staying
        return self._cluster.instance_type if held and self._cluster is not None else None

    @property
    def held(self) -> tuple[Batch, ...]:
        """The nodes that are held, with times that count from now."""
        if self._log is None or self._cluster is None:
            return ()
        return holdings(self._cluster, self._log.journal, self.cloud)

    @property
    def spent_usd(self) -> float:
        """Bill of the nodes that have been given back."""
        return 0.0 if self._log is None else released_usd(self._log.journal.state, self._offered, lane=0)

    def close(self) -> None:
        """Give everything back, without a look at what comes of it. Idempotent; never blocks."""
        if self._cluster is not None and not self._left:
            self._left = True
            self._cluster.leave()

    def settle(self) -> None:
        """Give everything back, wait until it is gone, and end the log. Idempotent; for the end of the experiment.

        Raises:
            LeakedNodes: the provider still owns nodes of the run.
        """
        atexit.unregister(self.settle)
        self.close()
        cluster, provider, log = self._cluster, self._provider, self._log
        self._cluster = self._provider = self._log = None
        try:
            if cluster is not None:
                _wait_for_draining(provider, self._clock)
                cluster.__exit__(None, None, None)
        finally:
            if provider is not None:
                provider.close()
            if log is not None:
                log.end()
                remember(log.directory, self._offered.provider, self._clock)

    @property
    def _enough(self) -> bool:
        """Whether one trial fits on the nodes that have joined."""
        if self._wanted is None or self._cluster is None:
            return False
        usable = self._cluster.usable
        return bool(usable) and sum(node.instance_type.slots for node in usable) >= self._wanted.slots_per_trial

    def _take(self, notice: Notice) -> None:
        cluster = self._cluster
        if isinstance(notice, _BudgetDue):
            self._watch_budget()
        elif isinstance(notice, NodeNotice) and cluster is not None:
            node = cluster.took(notice)
            if node is not None and notice.kind is NodeNews.LOST:
                if node.running:
                    self.warn(f"node {node.name} was lost: {_first_words(notice.reason)}; it is replaced")
                cluster.refill()
            elif node is not None and notice.kind is NodeNews.LEAVING:
                self.warn(f"node {node.name} will be taken away: {_first_words(notice.reason)}")
                cluster.refill()
            elif node is not None:
                own = node_resource(self._run, node.name)
                check_fits(node.name, node.instance_type, self._resources(own), self._bundle)

    def _adopt(self, attempt: int) -> None:
        """Have the provider say how the nodes of the log stand, and give back what it owns beyond them."""
        provider, cluster, log = self._provider, self._cluster, self._log
        if provider is None or cluster is None or log is None:
            return
        nodes = {node.name: node.instance_type for node in cluster.requested}
        try:
            orphans = [name for name in provider.owned(self._run) if name not in log.journal.state.held]
            if nodes:
                provider.adopt(nodes, run=self._run)
        except NoAnswer as error:
            if attempt + 1 == _ATTEMPTS:
                raise LaunchFailure(
                    f"provider {provider.name!r} does not say what the run holds ({error}); look whether it can be "
                    "reached, then restore the experiment"
                ) from None
            self._clock.call_at(self._clock.now() + 2.0**attempt, partial(self._adopt, attempt + 1))
            return
        self._adopted = True
        cluster.release(orphans, "it was still held when the run was resumed")

    def _admit(self, count: int, instance_type: InstanceType) -> None:
        if self._budget is not None:
            self._budget.admit(count, instance_type)
            self._inbox.put(_BudgetDue())

    def _watch_budget(self) -> None:
        if self._budget is None or self._log is None:
            return
        again_s = self._budget.check()
        if self._budget_timer is not None:
            self._budget_timer.cancel()
        if again_s is not None:
            when_s = self._log.journal.at(again_s)
            self._budget_timer = self._clock.call_at(when_s, lambda: self._inbox.put(_BudgetDue()))


class _GivingBack:
    """Gives everything back before `BudgetExceeded` leaves a fleet."""

    def __init__(self, fleet: ElasticFleet) -> None:
        self._fleet = fleet

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BudgetExceeded):
            self._fleet.close()


def _first_words(reason: str) -> str:
    """The beginning of a reason, which may hold all that a node's command said last; the log has the rest."""
    lines = reason.splitlines() or ["no reason given"]
    return textwrap.shorten(lines[0], width=_WORDS, placeholder=" ...")


def _wait_for_draining(provider: Provider | None, clock: Clock) -> None:
    """Let nodes leave Ray by themselves, for a while."""
    if isinstance(provider, Drains):
        for _ in range(math.ceil(GOING_S / _LOOK_S)):
            if not provider.draining:
                return
            pause(clock, _LOOK_S)
