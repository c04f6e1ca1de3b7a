"""Profiling on rented nodes: one instance type after another, with every step in a log before it is taken.

It is a run like any other to whoever looks for what was left behind: its nodes carry its id, its log tells of each of
them, and is closed when all have been given back. To the log each type is a stage of one chain, without trials.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rb_core.budget import Budget
from rb_core.cluster import Cluster
from rb_core.errors import BudgetExceeded, InvalidInput, LaunchFailure, RubberBandError
from rb_core.events import RunEnded, RunEnding, RunStarted, StageEnded, StageStarted
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.journal import Journal
from rb_core.learning import Learning
from rb_core.ledger import cost_usd
from rb_core.measurement import MeasuredProfile
from rb_core.ports import Clock, Errand, Inbox, NodeNews, NodeNotice, Provider, Slot
from rb_core.profile import ScalingProfile
from rb_core.speeds import measured_speed

PROFILING = "profiling"
"""Key of the problem in the log of such a run, by which it is told from others."""

LEAST_READY_S = 50.0
"""Start-up of nodes that is always borne."""

READY_PATIENCE = 4.0
"""So many times the expected start-up is borne beyond that; less than a cluster's own, which asks for another node."""

MOST_REFUSALS = 2
"""So many requests in a row may fail."""

MOST_LOSSES = 1
"""So often a type is measured again, because a node was lost while it was."""

FIRST_WEIGHT = 2.0
"""Share of the time for the first type, whose measurements make the profile, against one of the others."""

PARTING_S = 5.0
"""Time allowed for ending what is measured and giving its nodes back, so that the bill stays below the limit."""

LEAST_S = 1.0
"""Less time than this is of no use."""

_UNKNOWN = ScalingProfile(iteration_s={1: Latency(mean=1.0)})
"""A cluster learns of a cloud beside a profile, and here there is none yet."""

Measure = Callable[[Sequence[Slot], Sequence[int], float], MeasuredProfile]
"""Measures on slots, with so many slots per trial, for so many seconds at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What one type is measured on.

    Attributes:
        instance_type: the type.
        nodes: how many are rented.
        sizes: numbers of slots per trial to measure.
    """

    instance_type: InstanceType
    nodes: int
    sizes: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Survey:
    """One profiling.

    Attributes:
        run: its id, the tag of its nodes.
        target: what is measured, in words.
        cloud: where.
        record: the cloud as in a problem file's JSON.
        provider: puts its notices into `inbox`.
        journal: where every step is written before it is taken; nothing is in it yet.
        clock: the time.
        inbox: where notices arrive, made by `clock`; nothing else may be using it.
        max_usd: hard limit of what it may cost; None for no limit.
        environment: versions and machine.
        seed: of the training.
    """

    run: str
    target: str
    cloud: Cloud
    record: Mapping[str, Any]
    provider: Provider
    journal: Journal
    clock: Clock
    inbox: Inbox
    max_usd: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0

    def conduct(
        self,
        benches: Sequence[Bench],
        measure: Measure,
        budget_s: float,
        keep: Callable[[MeasuredProfile], None] = lambda measured: None,
    ) -> MeasuredProfile:
        """Measure the first type's profile, and the others' speeds against it; everything is given back afterwards.

        Types are measured one after another, so that no node is held while another one is measured.

        Args:
            benches: the types, the one that the profile is to be of first.
            measure: measures on nodes that are ready.
            budget_s: limit of the time that all measuring may take, waiting for nodes apart. The first type may take
                `FIRST_WEIGHT` times as much of it as another one; what it leaves is the others'.
            keep: told what is known after each type, before the next one is rented.

        Raises:
            LaunchFailure: nodes could not be had in time, or were lost again and again.
            BudgetExceeded: going on would cost more than `max_usd`.
            LeakedNodes: nodes could not be given back.
            UnusableLog: a step could not be written, and was not taken.
            RubberBandError: as `measure`, and as `rb_core.speeds.measured_speed`.
        """
        with _closing(self.journal):
            self._announce(benches, budget_s)
            budget = Budget(self.cloud, self.journal, self.max_usd)
            with Cluster(
                self.provider,
                self.journal,
                self.clock,
                self.inbox,
                learning=Learning(_UNKNOWN, self.cloud),
                run=self.run,
                names=(f"{self.run}-{number}" for number in itertools.count()),
                admit=budget.admit,
            ) as cluster:
                known = self._measure(cluster, benches, measure, budget_s, keep)
                cluster.release_all("all has been measured")
            done = replace(known, seconds=self.journal.t_s, usd=self._spent_usd)
            keep(done)
        return done

    def _measure(
        self,
        cluster: Cluster,
        benches: Sequence[Bench],
        measure: Measure,
        budget_s: float,
        keep: Callable[[MeasuredProfile], None],
    ) -> MeasuredProfile:
        known: MeasuredProfile | None = None
        left_s = budget_s
        for number, bench in enumerate(benches):
            share_s = left_s * _share(number, len(benches))
            measured = self._on(cluster, bench, number, share_s, measure)
            left_s -= min(share_s, measured.seconds)
            known = self._joined(known, bench.instance_type.name, measured)
            keep(known)
        if known is None:
            raise InvalidInput("instance_types", "must name at least one instance type to profile on")
        return known

    def _joined(self, known: MeasuredProfile | None, name: str, measured: MeasuredProfile) -> MeasuredProfile:
        """What is known with one type more: the first one's is the profile, of others it is the speed."""
        if known is None:
            return replace(measured, instance_type=name, seconds=self.journal.t_s, usd=self._spent_usd)
        speed = measured_speed(name, known.measurements, measured.measurements)
        beside = [f"on {name}: {warning}" for warning in measured.warnings]
        warnings = tuple(dict.fromkeys([*known.warnings, *beside, *speed.warnings]))
        return replace(
            known,
            speeds={**known.speeds, name: speed},
            warnings=warnings,
            seconds=self.journal.t_s,
            usd=self._spent_usd,
        )

    @property
    def _spent_usd(self) -> float:
        return cost_usd(self.journal.state, self.cloud, self.journal.t_s)

    def _announce(self, benches: Sequence[Bench], budget_s: float) -> None:
        stages = [
            {"instance_type": bench.instance_type.name, "nodes": bench.nodes, "slots_per_trial": max(bench.sizes)}
            for bench in benches
        ]
        self.journal.write(
            RunStarted,
            run=self.run,
            problem={"cloud": dict(self.record), PROFILING: {"budget_s": budget_s, "max_usd": self.max_usd}},
            plan={"stages": stages},
            metric="",
            mode="max",
            seed=self.seed,
            target=self.target,
            environment=dict(self.environment),
            clock=self.clock.origin,
            clock_s=self.clock.now(),
        )

    def _on(self, cluster: Cluster, bench: Bench, number: int, share_s: float, measure: Measure) -> MeasuredProfile:
        """Measure on one type; once more where a node was lost meanwhile, in what is left of the time."""
        self.journal.write(
            StageStarted,
            chain=0,
            stage=number,
            trials=(),
            instance_type=bench.instance_type.name,
            nodes=bench.nodes,
            slots_per_trial=max(bench.sizes),
        )
        losses = 0
        while True:
            names = self._rent(cluster, bench, number)
            slots = [slot for node in cluster.usable for slot in node.slots]
            began_s = self.clock.now()
            try:
                measured = measure(slots, bench.sizes, min(share_s, self._affordable_s(bench)))
            except RubberBandError as error:
                self._listen(cluster)
                lost = [self.journal.state.nodes[name] for name in names if name not in cluster]
                if not lost:
                    raise
                reason = f"node {lost[0].node} was lost while it was measured on ({lost[0].lost})"
                if losses == MOST_LOSSES:
                    raise LaunchFailure(
                        f"{reason}, and so was one before it; profile {bench.instance_type.name} on demand, or in "
                        "another zone or at another time"
                    ) from error
                losses += 1
                self.journal.warn(f"{reason}; it is measured once more")
                share_s = max(share_s / 2, share_s - (self.clock.now() - began_s))
            else:
                self._listen(cluster)
                self.journal.write(StageEnded, chain=0, stage=number, survivors=(), stopped=())
                return measured

    def _rent(self, cluster: Cluster, bench: Bench, number: int) -> tuple[str, ...]:
        """Hold the bench's nodes, and wait until all of them are ready; their names."""
        cluster.resize(bench.instance_type, bench.nodes, chain=0, stage=number)
        expected_s = self.cloud.launch_s.mean + self.cloud.init_s.mean
        limit_s = LEAST_READY_S + READY_PATIENCE * expected_s
        until_s = self.clock.now() + limit_s
        while len(cluster.usable) < bench.nodes:
            affordable_s = self._affordable_s(bench)
            notice = self.inbox.get(min(until_s, self.clock.now() + affordable_s))
            if notice is None and self.clock.now() < until_s:
                continue
            if notice is None:
                raise LaunchFailure(
                    f"{bench.nodes - len(cluster.usable)} node(s) to profile on were not ready within {limit_s:.0f} s; "
                    "raise the cloud's launch_s and init_s if they need longer"
                )
            if isinstance(notice, Errand):
                notice.action()
            elif isinstance(notice, NodeNotice):
                self._took(cluster, notice)
            if cluster.failures >= MOST_REFUSALS:
                reasons = [node.lost for node in self.journal.state.nodes.values() if node.lost]
                raise LaunchFailure(
                    f"no node of type {bench.instance_type.name} to profile on could be had: {reasons[-1]}"
                    if reasons
                    else f"no node of type {bench.instance_type.name} to profile on was ready in time"
                )
        return tuple(node.name for node in cluster.usable)

    def _took(self, cluster: Cluster, notice: NodeNotice) -> None:
        if cluster.took(notice) is not None and notice.kind is NodeNews.LOST:
            cluster.refill()

    def _listen(self, cluster: Cluster) -> None:
        """Take in what was said of the nodes while nobody listened, without asking for others."""
        cluster.want(0)
        while (notice := self.inbox.get(self.clock.now())) is not None:
            if isinstance(notice, NodeNotice):
                cluster.took(notice)

    def _affordable_s(self, bench: Bench) -> float:
        """For how long the nodes can be held within `max_usd`, with the time to give them back.

        Raises:
            BudgetExceeded: for less time than that.
        """
        if self.max_usd is None:
            return math.inf
        state = self.journal.state
        usd_per_s = sum(state.nodes[name].usd_per_hour for name in state.held) / 3600.0
        due_usd = cost_usd(state, self.cloud, self.journal.t_s + PARTING_S, committed=True)
        left_usd = self.max_usd - due_usd
        if left_usd < usd_per_s * LEAST_S:
            raise BudgetExceeded(
                max_usd=self.max_usd,
                needed_usd=due_usd + usd_per_s * LEAST_S,
                step=f"profiling on type {bench.instance_type.name} any longer",
            )
        return left_usd / usd_per_s if usd_per_s > 0 else math.inf


def most_usd(benches: Sequence[Bench], cloud: Cloud, budget_s: float) -> float:
    """What profiling is expected to cost at most: every node for its start-up and all the time for measuring it.

    Args:
        benches: the types.
        cloud: its latencies, billing rule and data price.
        budget_s: limit of the time that all measuring may take.
    """
    weights = sum(_weight(number) for number in range(len(benches)))
    return sum(
        bench.nodes
        * (
            bench.instance_type.usd_per_s
            * max(cloud.billing.minimum_s, cloud.init_s.mean + budget_s * _weight(number) / weights)
            + cloud.data_usd
        )
        for number, bench in enumerate(benches)
    )


def _share(number: int, types: int) -> float:
    """The part of the time left that a type may take."""
    return _weight(number) / sum(_weight(later) for later in range(number, types))


def _weight(number: int) -> float:
    return FIRST_WEIGHT if number == 0 else 1.0


@contextmanager
def _closing(journal: Journal) -> Iterator[None]:
    """Write how it ended, once every node has been given back."""
    try:
        yield
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        ending = RunEnding.INTERRUPTED if interrupted else RunEnding.FAILED
        reason = "interrupted by its user" if interrupted else str(error) or type(error).__name__
        journal.attempt(RunEnded, ending=ending, reason=reason)
        raise
    journal.write(RunEnded, ending=RunEnding.DONE)
