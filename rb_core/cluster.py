"""The nodes of one lane: wanted, requested and usable, and given back whatever happens."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rb_core.clock import pause
from rb_core.errors import LaunchFailure, LeakedNodes, NoAnswer, RubberBandError, UnusableLog
from rb_core.events import NodeLeaving, NodeLost, NodeReady, NodeReleased, NodeRequested, NodeRunning
from rb_core.hardware import InstanceType, Market
from rb_core.journal import Journal
from rb_core.learning import Learning
from rb_core.markets import bought
from rb_core.ports import Clock, Inbox, NodeNews, NodeNotice, Notice, Provider, Recording, Slot, Timer
from rb_core.state import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesMissing(Notice):
    """Nodes for a chain were asked for in vain."""

    chain: int


NOT_NEXT = "not needed for the next stage"
"""Why nodes are given back at a barrier."""

Admit = Callable[[int, InstanceType], None]
"""Asked before nodes are requested: raises when these would break a limit of the run."""

READY_PATIENCE = 5.0
"""A node that is not usable after so many times the expected start-up is given back; twice as many the next time."""

MOST_DOUBLINGS = 3
"""Its patience doubles no more often than this."""

LEAST_READY_S = 60.0
"""Start-up that is always borne beyond that."""

FIRST_PAUSE_S = 5.0
"""Pause before nodes that could not be had are requested again; it doubles from failure to failure."""

LONGEST_PAUSE_S = 60.0
"""The pause does not grow beyond this."""

MOST_FAILURES = 20
"""Failures in a row after which, where nothing trains meanwhile, there is no point in asking again."""

PARTING_S = (0.5, 1.0, 2.0, 4.0, *(8.0,) * 22)
"""Pauses between looks whether everything that was given back is gone, three minutes in all: a provider may be busy, or
show what it rented only after a while."""

_ATTEMPTS = 6
_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class HeldNode:
    """A node that is requested or usable.

    Attributes:
        name: its name.
        instance_type: what it is.
        request: number of the request that it was part of; 0 for one of an earlier process.
        running: whether it runs, and is billed.
        leaving: whether its provider is about to take it away, or it is about to be exchanged.
        parting: whether another one is to take its place: it is used until that is usable.
        slots: its slots, empty until it is usable.
    """

    name: str
    instance_type: InstanceType
    request: int = 0
    running: bool = False
    leaving: bool = False
    parting: bool = False
    slots: tuple[Slot, ...] = ()

    @property
    def staying(self) -> bool:
        """Whether nothing is to take its place."""
        return not self.leaving and not self.parting


class Cluster:
    """The nodes of one chain, or of chains that follow each other.

    It wants a number of nodes of one type and keeps asking for what is missing, with pauses, until it has them or
    wants fewer; when there is no point in asking again, `LaunchFailure` comes out of the wait on the inbox. Use it as
    a context manager: leaving the ``with`` block gives every node back, whatever happened in it, and asks the provider
    whether it agrees.

    Attributes:
        trains: asked whether anything trains on what is held.
        market: in which nodes are asked for that are planned on spot; see `buy`.
    """

    def __init__(
        self,
        provider: Provider,
        journal: Journal,
        clock: Clock,
        inbox: Inbox,
        *,
        learning: Learning,
        run: str,
        names: Iterator[str],
        admit: Admit,
    ) -> None:
        """A cluster without nodes.

        Args:
            provider: where nodes come from.
            journal: where every step is written before it is taken.
            clock: the time.
            inbox: where the provider's notices arrive.
            learning: how long nodes take to start; told how long they took.
            run: id of the run, the tag of its nodes.
            names: names for new nodes; shared by all clusters of the run.
            admit: asked before each request.
        """
        self._provider = provider
        self._journal = journal
        self._clock = clock
        self._inbox = inbox
        self._learning = learning
        self._run = run
        self._names = names
        self._admit = admit
        self.trains: Callable[[], bool] = lambda: bool(self._usable)
        self.market = Market.SPOT
        self._requested: dict[str, HeldNode] = {}
        self._usable: dict[str, HeldNode] = {}
        self._ever: set[str] = set()
        self._parting: list[str] = []
        self._timers: dict[str, Timer] = {}
        self._again: Timer | None = None
        self._type: InstanceType | None = None
        self._wanted = 0
        self._chain = 0
        self._stage = 0
        self._requests = 0
        self._counted = 0
        self._failures = 0
        self._late = 0
        if isinstance(provider, Recording):
            provider.record(journal)

    @property
    def usable(self) -> Sequence[HeldNode]:
        """Nodes that can hold trials, in the order in which they became usable."""
        return tuple(node for node in self._usable.values() if not node.leaving)

    @property
    def requested(self) -> Sequence[HeldNode]:
        """Nodes that are asked for and not yet usable, in the order of their requests."""
        return tuple(self._requested.values())

    @property
    def staying(self) -> int:
        """How many nodes are requested or usable, and not about to be taken away or exchanged."""
        return sum(node.staying for node in self._held())

    @property
    def serving(self) -> int:
        """How many nodes are requested or usable, and not about to be taken away: these and those to be exchanged."""
        return sum(not node.leaving for node in self._held())

    @property
    def crowded(self) -> bool:
        """Whether nodes are to be exchanged, and `max_nodes` leaves no room for others beside them."""
        held = self._held()
        others = any(node.leaving for node in held) or any(not node.parting for node in self._requested.values())
        return not others and len(self._journal.state.held) >= self._learning.cloud.max_nodes

    @property
    def instance_type(self) -> InstanceType | None:
        """The type of the nodes that it holds, else of those that it wants; None before any was wanted.

        It is as planned with, whatever the market that they were bought in.
        """
        held = next(iter((*self._usable.values(), *self._requested.values())), None)
        if held is None or (self._type is not None and self._type.name == held.instance_type.name):
            return self._type
        return held.instance_type

    @property
    def hopeless(self) -> bool:
        """Whether there is no point in asking again for what was asked for so far."""
        return self._failures >= MOST_FAILURES and not self._requested and not self.trains()

    @property
    def failures(self) -> int:
        """Requests in a row of which not every node could be had."""
        return self._failures

    def __contains__(self, name: str) -> bool:
        return name in self._usable or name in self._requested

    def resize(
        self, instance_type: InstanceType, count: int, *, chain: int, stage: int, surplus: str = NOT_NEXT
    ) -> None:
        """Hold `count` nodes of a type: keep, then release the rest, then request what is missing.

        Kept are first the usable ones in the order in which they became usable, then those still starting in the
        order of their requests. Returns without waiting for new nodes.

        Args:
            instance_type: the type of all nodes from now on.
            count: how many.
            chain: the chain that they are for.
            stage: the stage of it.
            surplus: why the others are given back, in words.

        Raises:
            LaunchFailure: the missing nodes would exceed `max_nodes`.
            BudgetExceeded: they could bring the bill above `max_usd`.
            UnusableLog: a step could not be written, and was not taken.
        """
        if self._type is None or instance_type.name != self._type.name:
            self._failures = 0
        self._chain, self._stage, self._type, self._wanted = chain, stage, instance_type, count
        held = self._held()
        alike = [node for node in held if node.instance_type.name == instance_type.name and not node.leaving]
        kept = [node for node in alike if node.staying][:count]
        # Until those that take their places are usable.
        kept += [node for node in alike if node.parting][: count - sum(bool(node.slots) for node in kept)]
        keep = {node.name for node in kept}
        self.release([node.name for node in held if node.name not in keep], surplus)
        self.refill()

    def buy(self, market: Market) -> None:
        """Ask for nodes in this market from now on, where they are planned on spot.

        On demand, the nodes on spot that are held are exchanged: they are used until others are there to take their
        place. What was bought on demand is kept. Raises as `resize`.
        """
        if market is self.market:
            return
        self.market, self._failures = market, 0
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for node in self._held():
            node.parting = market is Market.ON_DEMAND and node.instance_type.market is Market.SPOT
        self.refill()

    def part(self, names: Sequence[str], in_s: float) -> None:
        """Have nodes leave whose place is taken by others, once their trials have saved.

        Args:
            names: of parting nodes.
            in_s: how long their trials may take.

        Raises:
            UnusableLog: this could not be written; nothing was done.
        """
        rows = [{"node": name, "reason": "exchanged for one on demand", "in_s": in_s} for name in names]
        self._journal.write_all(NodeLeaving, rows)
        for name in names:
            self._usable[name].leaving = True

    def want(self, count: int) -> None:
        """Hold more nodes of the type, or ask for no more than so many; what is held stays. Raises as `resize`."""
        self._wanted = count
        self.refill()

    def refill(self) -> None:
        """Request what is missing, as far as the limit of nodes has room; with a pause after failures.

        Raises:
            BudgetExceeded: they could bring the bill above `max_usd`.
        """
        missing = self._missing()
        if missing <= 0 or self._type is None:
            return
        if self._failures == 0:
            self._request(self._type, missing)
            return
        if self._again is None:
            pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self._failures - 1))
            self._again = self._clock.call_at(self._clock.now() + pause_s, self._ask_again)

    def release(self, names: Sequence[str], reason: str) -> None:
        """Give nodes back. Raises `UnusableLog` when this could not be written; nothing was given back then."""
        if not names:
            return
        self._journal.write_all(NodeReleased, [{"node": name, "reason": reason} for name in names])
        for name in names:
            self._forget(name)
        self._give_back(tuple(names), 0)

    def let_go(self, names: Sequence[str]) -> None:
        """Give those of the nodes back that are about to be taken away. Raises as `release`."""
        held = {**self._usable, **self._requested}
        self.release([name for name in names if name in held and held[name].leaving], "its trials have left it")

    def release_all(self, reason: str) -> None:
        """Give every node back, and want none. Raises as `release`."""
        self._wanted = 0
        self.release([*self._usable, *self._requested], reason)

    def hold(self, nodes: Iterable[NodeState], earlier: Iterable[str] = ()) -> None:
        """Take over nodes that an earlier process of the run held. Nobody is asked: `adopt` does that.

        Nodes are bought on demand again, where the last one was that is planned on spot.

        Args:
            nodes: what the log says of them, in the order of their requests.
            earlier: names of nodes that it gave back or lost: not used, but looked for when everything is given back.
        """
        known, earlier = self._journal.state.nodes, tuple(earlier)
        requests = [known[name] for name in earlier if name in known]
        if requests and self._on_demand(requests[-1]):
            self.market = Market.ON_DEMAND
        for node in nodes:
            instance_type = self._learning.cloud.instance_type(node.instance_type)
            if instance_type.market is Market.SPOT:
                instance_type = bought(instance_type, Market(node.market))
            running = node.running_s is not None
            self._requested[node.node] = HeldNode(
                name=node.node,
                instance_type=instance_type,
                running=running,
                leaving=node.leaving,
                parting=self.market is Market.ON_DEMAND and instance_type.market is Market.SPOT,
            )
            self._watch(node.node)
        self._ever.update(self._requested, earlier)

    def adopt(self, wait: Callable[[float], None]) -> None:
        """Have the provider say how the nodes stand that were taken over; its notices follow.

        Args:
            wait: lets so many seconds pass; used while it does not answer.

        Raises:
            NoAnswer: it never says whether it will.
        """
        nodes = {node.name: node.instance_type for node in self._requested.values()}
        if nodes:
            persist(lambda: self._provider.adopt(nodes, run=self._run), wait)

    def took(self, notice: NodeNotice) -> HeldNode | None:
        """Take a notice of the provider in: the node when it became usable, is leaving or was lost, else None.

        Notices of nodes that are not held any more, and repeated ones, change nothing.
        """
        node = self._usable.get(notice.node) or self._requested.get(notice.node)
        if node is None:
            return None
        if notice.kind == NodeNews.LOST:
            self._lost(node, notice)
            return node
        if notice.kind == NodeNews.LEAVING:
            if node.leaving:
                return None
            self._journal.write(NodeLeaving, node=node.name, reason=notice.reason, in_s=notice.in_s)
            node.leaving = True
            return node
        if not node.running:
            since_s = self._ago(notice)
            self._learning.node_running(since_s - self._journal.state.nodes[node.name].requested_s)
            self._journal.write(
                NodeRunning,
                node=node.name,
                since_s=since_s,
                instance=notice.instance,
                zone=notice.zone,
                usd_per_hour=notice.usd_per_hour,
            )
            node.running = True
        if notice.kind == NodeNews.READY and node.name in self._requested:
            return self._ready(node)
        return None

    def leave(self) -> None:
        """Give every node back at the end of the run, without a look at what comes of it; leaving the block has one."""
        self._wanted = 0
        names = [*self._usable, *self._requested]
        self._parting += names
        for name in names:
            self._journal.attempt(NodeReleased, node=name, reason="the run ended")
            self._forget(name)
        try:
            if names:
                self._provider.release(names)
        except RubberBandError as error:
            _logger.warning("giving nodes back: %s", error)
        except Exception:
            _logger.exception("nodes could not be given back")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        """Give every node back and check that none is left.

        Raises:
            LeakedNodes: the provider still owns some.
        """
        interrupt: BaseException | None = None
        try:
            self.leave()
        except BaseException as raised:
            interrupt = raised
        left: Sequence[str] = self._parting
        said = ""
        for attempt, pause_s in enumerate((0.0, *PARTING_S)):
            try:
                if attempt:
                    pause(self._clock, pause_s)
                    if left:
                        self._provider.release(left)
                left = [name for name in self._provider.owned(self._run) if name in self._ever]
                if not left:
                    break
            except RubberBandError as error:
                if str(error) != said:
                    _logger.warning("giving nodes back: %s", error)
                said = str(error)
            except Exception:
                _logger.exception("nodes could not be given back")
            except BaseException as raised:
                # Ctrl-C while nodes are given back: give them back first.
                interrupt = raised
        if left:
            raise LeakedNodes(
                left,
                f"look for them at provider {self._provider.name!r} by the tag {self._run!r} and end them there"
                + (f". It said last: {said}" if said else ""),
            )
        if interrupt is not None:
            raise interrupt

    def _on_demand(self, node: NodeState) -> bool:
        """Whether a node that is planned on spot was bought on demand."""
        known = {kind.name: kind for kind in self._learning.cloud.instance_types}
        planned = known.get(node.instance_type)
        return planned is not None and planned.market is Market.SPOT and node.market == Market.ON_DEMAND

    def _held(self) -> list[HeldNode]:
        return [*self._usable.values(), *self._requested.values()]

    def _missing(self) -> int:
        """Nodes to request. One that is leaving still counts against the limit; its place is taken when it is gone."""
        return min(self._wanted - self.staying, self._learning.cloud.max_nodes - len(self._journal.state.held))

    def _request(self, planned: InstanceType, count: int) -> None:
        instance_type = bought(planned, self.market) if planned.market is Market.SPOT else planned
        self._admit(count, instance_type)
        self._requests += 1
        nodes = [
            HeldNode(name=next(self._names), instance_type=instance_type, request=self._requests) for _ in range(count)
        ]
        row = {
            "chain": self._chain,
            "stage": self._stage,
            "instance_type": instance_type.name,
            "slots": instance_type.slots,
            "usd_per_hour": instance_type.usd_per_hour,
            "market": instance_type.market.value,
        }
        names = [node.name for node in nodes]
        # Held before they are logged: an interrupt at any point then finds them and gives them back.
        self._ever.update(names)
        self._requested.update(zip(names, nodes, strict=True))
        try:
            self._journal.write_all(NodeRequested, [{"node": name, **row} for name in names])
        except UnusableLog:
            for name in names:
                self._forget(name)
            raise
        for name in names:
            self._watch(name)
        self._launch(names, instance_type, 0)

    def _launch(self, names: Sequence[str], instance_type: InstanceType, attempt: int) -> None:
        """Ask for nodes, and ask again under the same names while there is no answer."""
        asked = [name for name in names if name in self]
        if not asked:
            return
        try:
            self._provider.launch(asked, instance_type, run=self._run)
        except NoAnswer:
            if attempt < _ATTEMPTS:
                when_s = self._clock.now() + 2.0**attempt
                self._clock.call_at(when_s, lambda: self._launch(asked, instance_type, attempt + 1))
        except LaunchFailure as error:
            request = {**self._usable, **self._requested}[asked[0]].request
            for name in asked:
                self._journal.write(NodeLost, node=name, reason=str(error), until_s=self._journal.t_s)
                self._forget(name)
            if attempt:
                # One that was not answered may have been obeyed.
                self._give_back(asked, 0)
            self._failed(len(asked), instance_type, request, str(error))
            self.refill()

    def _ready(self, node: HeldNode) -> HeldNode | None:
        try:
            slots = tuple(self._provider.slots(node.name))
        except NoAnswer:
            again = NodeNotice(node=node.name, kind=NodeNews.READY)
            self._clock.call_at(self._clock.now() + 1.0, lambda: self._inbox.put(again))
            return None
        running_s = self._journal.state.nodes[node.name].running_s
        if running_s is not None:
            self._learning.node_ready(self._journal.t_s - running_s)
        self._journal.write(NodeReady, node=node.name)
        node.slots = slots
        self._usable[node.name] = self._requested.pop(node.name)
        self._timers.pop(node.name).cancel()
        self._failures = self._late = 0
        return node

    def _lost(self, node: HeldNode, notice: NodeNotice) -> None:
        self._journal.write(
            NodeLost,
            node=node.name,
            reason=notice.reason,
            until_s=self._ago(notice),
            reclaimed=notice.reclaimed,
        )
        self._forget(node.name)
        # One that never became usable, though it ran, would be no better at once: it counts as not had.
        if self._journal.state.nodes[node.name].ready_s is None:
            self._failed(1, node.instance_type, node.request, notice.reason)

    def _failed(self, count: int, instance_type: InstanceType, request: int, reason: str) -> None:
        """Nodes of one request could not be had."""
        self._count(request)
        self._journal.warn(
            f"{count} node(s) of type {instance_type.name} could not be had ({reason}); the stage goes on with what it "
            "has, and they are asked for again"
        )
        self._inbox.put(NodesMissing(chain=self._chain))

    def _count(self, request: int) -> bool:
        """Count a failure; those of the same request count as one. Whether this one counts."""
        counts = request == 0 or request != self._counted
        self._failures += counts
        self._counted = request
        return counts

    def _ask_again(self) -> None:
        """After the pause: one request more, whatever failed before."""
        self._again = None
        missing = self._missing()
        if missing <= 0 or self._type is None:
            return
        if self.hopeless:
            raise LaunchFailure(
                f"no node of type {self._type.name} could be had in {self._failures} attempts, and nothing trains on "
                "what is held; try another type, region or time. What was trained is kept"
            )
        self._request(self._type, missing)

    def _watch(self, name: str) -> None:
        """Give the node back when it takes far too long to become usable."""
        cloud = self._learning.cloud
        expected_s = cloud.launch_s.mean + cloud.init_s.mean
        limit_s = (LEAST_READY_S + READY_PATIENCE * expected_s) * 2.0 ** min(self._late, MOST_DOUBLINGS)
        self._timers[name] = self._clock.call_at(self._clock.now() + limit_s, lambda: self._too_late(name, limit_s))

    def _too_late(self, name: str, limit_s: float) -> None:
        node = self._requested.get(name)
        if node is None:
            return
        self._late += self._count(node.request)
        self._journal.warn(f"node {name} was not usable after {limit_s:.0f} s; it is given back and replaced")
        self.release([name], f"not usable after {limit_s:.0f} s")
        self.refill()

    def _give_back(self, names: Sequence[str], attempt: int) -> None:
        try:
            self._provider.release(names)
        except NoAnswer:
            # Leaving the ``with`` block sees to what is never answered.
            if attempt < _ATTEMPTS:
                when_s = self._clock.now() + 2.0**attempt
                self._clock.call_at(when_s, lambda: self._give_back(names, attempt + 1))

    def _ago(self, notice: NodeNotice) -> float:
        """When it happened, in seconds of the run.

        Where nobody can tell: when an earlier process was last heard of, or the last that is known of the node itself.
        """
        state = self._journal.state
        if math.isinf(notice.ago_s):
            node = state.nodes[notice.node]
            times = (state.heard_s, node.requested_s, node.running_s, node.ready_s)
            return max(time for time in times if time is not None)
        return max(0.0, self._journal.t_s - notice.ago_s)

    def _forget(self, name: str) -> None:
        self._usable.pop(name, None)
        self._requested.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


def persist(call: Callable[[], None], wait: Callable[[float], None]) -> None:
    """Repeat a call, with pauses in between, until it is answered. Raises `NoAnswer` when it never is."""
    for attempt in range(_ATTEMPTS):
        try:
            return call()
        except NoAnswer:
            if attempt + 1 == _ATTEMPTS:
                raise
            wait(2.0**attempt)
