"""The simulated cloud: nodes with fates of their own, and books of what was held and for how long."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rb_core.errors import LaunchFailure
from rb_core.hardware import InstanceType, Market
from rb_core.ports import Clock, NodeNews, NodeNotice, Timer
from rb_core.sim.fates import NodeFate
from rb_core.sim.faults import Faults

LATE_NEWS_S = 4.0
"""The loss of a node is noticed up to so much later, half of the time."""


@dataclass(slots=True, kw_only=True)
class SimNode:
    """What the cloud's books say of one node; times on its clock, None until they have come.

    Attributes:
        name: the name that it was asked for by.
        instance_type: what it is.
        run: whose it is.
        fate: what becomes of it.
        requested_s: when it was asked for.
        running_s: when it began to run, and to be billed.
        ready_s: when it joined.
        leaves_s: when it will be taken away, once that is known.
        failed_s: when it went away by itself, though nobody may have noticed yet.
        released_s: when it was no longer held, and billed.
        lost: why it was lost, empty otherwise.
        reclaimed: whether it was taken back as nodes on spot are.
        timers: what is arranged for it.
    """

    name: str
    instance_type: InstanceType
    run: str
    fate: NodeFate
    requested_s: float
    running_s: float | None = None
    ready_s: float | None = None
    leaves_s: float | None = None
    failed_s: float | None = None
    released_s: float | None = None
    lost: str = ""
    reclaimed: bool = False
    timers: list[Timer] = field(default_factory=list)


class SimCloud:
    """Holds nodes for whoever asks by name; outlives the process that asked.

    Attributes:
        books: every node that was ever granted, by name.
    """

    def __init__(
        self,
        clock: Clock,
        faults: Faults,
        fate: Callable[[str], NodeFate],
        rng: np.random.Generator,
        droughts: np.random.Generator | None = None,
    ) -> None:
        """A cloud that holds nothing.

        Args:
            clock: its time.
            faults: how often a request is refused, and how losses come about.
            fate: told a name, says what becomes of that node.
            rng: what refusals and losses are drawn with.
            droughts: what the times are drawn with in which there is no node on spot; None where there are none.
        """
        self.books: dict[str, SimNode] = {}
        self._held: dict[str, SimNode] = {}
        self._clock = clock
        self._faults = faults
        self._fate = fate
        self._rng = rng
        self._droughts = droughts
        # The last drought that has been drawn: when it begins, and when it ends.
        self._drought_s = (-math.inf, clock.now())
        self._listener: Callable[[NodeNotice], None] | None = None
        self._mourner: Callable[[str], None] | None = None

    def tell(self, listener: Callable[[NodeNotice], None]) -> None:
        """Say from now on to `listener` what becomes of nodes."""
        self._listener = listener

    def bury(self, mourner: Callable[[str], None]) -> None:
        """Tell `mourner` from now on the name of each node at the moment in which it fails."""
        self._mourner = mourner

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Grant the names that are new.

        Raises:
            LaunchFailure: none was granted.
        """
        new = [name for name in names if name not in self.books]
        if new and self._faults.launch_failure and self._rng.random() < self._faults.launch_failure / 2:
            raise LaunchFailure(f"no capacity for {len(new)} node(s) of type {instance_type.name}")
        if new and instance_type.market is Market.SPOT and self._is_drought():
            raise LaunchFailure(f"no capacity on spot for {len(new)} node(s) of type {instance_type.name}")
        now_s = self._clock.now()
        for name in new:
            node = SimNode(name=name, instance_type=instance_type, run=run, fate=self._fate(name), requested_s=now_s)
            self.books[name] = self._held[name] = node
            begin = self._run if node.fate.granted else self._deny
            self._arrange(node, now_s + node.fate.launch_s, begin)

    def news(self, name: str) -> list[NodeNotice]:
        """How a node stands, for one who has heard nothing of it."""
        node, now_s = self.books.get(name), self._clock.now()
        if node is None:
            return [NodeNotice(node=name, kind=NodeNews.LOST, reason="it was never requested", ago_s=math.inf)]
        news = []
        if node.running_s is not None:
            news.append(NodeNotice(node=name, kind=NodeNews.RUNNING, ago_s=now_s - node.running_s))
        if node.released_s is not None:
            reason, ago_s = node.lost or "it was given back", now_s - node.released_s
            lost = NodeNotice(node=name, kind=NodeNews.LOST, reason=reason, ago_s=ago_s, reclaimed=node.reclaimed)
            return [*news, lost]
        if node.ready_s is not None:
            news.append(NodeNotice(node=name, kind=NodeNews.READY, ago_s=now_s - node.ready_s))
        if node.leaves_s is not None:
            news.append(NodeNotice(node=name, kind=NodeNews.LEAVING, reason=node.lost, in_s=node.leaves_s - now_s))
        return news

    def release(self, names: Sequence[str]) -> None:
        """Take nodes back; names that are not held are passed over."""
        for name in names:
            node = self._held.get(name)
            if node is not None:
                node.lost, node.reclaimed = "", False
                self._end(node, self._clock.now())

    def owned(self, run: str) -> tuple[str, ...]:
        """Names of all nodes that are held for a run."""
        return tuple(name for name, node in self._held.items() if node.run == run)

    def _run(self, node: SimNode) -> None:
        node.running_s = self._clock.now()
        self._say(NodeNotice(node=node.name, kind=NodeNews.RUNNING))
        if math.isfinite(node.fate.init_s):
            self._arrange(node, node.running_s + node.fate.init_s, self._join)
        if math.isfinite(node.fate.life_s):
            self._arrange(node, node.running_s + node.fate.life_s, self._strike)
        per_s = node.instance_type.interruptions_per_hour / 3600.0
        if node.instance_type.market is Market.SPOT and per_s > 0 and math.isfinite(node.fate.reclaimed_at):
            self._arrange(node, node.running_s + node.fate.reclaimed_at / per_s, self._reclaim)

    def _join(self, node: SimNode) -> None:
        node.ready_s = self._clock.now()
        self._say(NodeNotice(node=node.name, kind=NodeNews.READY))

    def _deny(self, node: SimNode) -> None:
        node.lost = "no capacity"
        self._end(node, self._clock.now())
        self._say(NodeNotice(node=node.name, kind=NodeNews.LOST, reason=node.lost))

    def _strike(self, node: SimNode) -> None:
        struck = [node]
        if node.fate.company:
            others = [other for other in self._held.values() if other.running_s is not None and other is not node]
            struck += [other for other in others if self._rng.random() < 0.5]
        for victim in struck:
            if victim.leaves_s is None and victim.failed_s is None:
                self._doom(victim, self._faults.loss_notice_s, "reclaimed")

    def _reclaim(self, node: SimNode) -> None:
        if node.leaves_s is None and node.failed_s is None:
            node.reclaimed = True
            self._doom(node, self._faults.spot.notice_s if node.fate.announced else 0.0, "taken back on spot")

    def _is_drought(self) -> bool:
        """Whether there is no node on spot now."""
        now_s, per_hour = self._clock.now(), self._faults.spot.droughts_per_hour
        while self._droughts is not None and per_hour > 0 and self._drought_s[1] <= now_s:
            begins_s = self._drought_s[1] + float(self._droughts.exponential(3600.0 / per_hour))
            self._drought_s = begins_s, begins_s + float(self._droughts.exponential(self._faults.spot.drought_s))
        return self._drought_s[0] <= now_s < self._drought_s[1]

    def _doom(self, node: SimNode, notice_s: float, reason: str) -> None:
        now_s = self._clock.now()
        node.lost, node.leaves_s = reason, now_s + notice_s
        if notice_s > 0:
            self._say(NodeNotice(node=node.name, kind=NodeNews.LEAVING, reason=node.lost, in_s=notice_s))
            self._arrange(node, node.leaves_s, self._fail)
        else:
            self._fail(node)

    def _fail(self, node: SimNode) -> None:
        """The node is gone: what runs on it dies now, and the news of it may come later."""
        for timer in node.timers:
            timer.cancel()
        node.failed_s = self._clock.now()
        if self._mourner is not None:
            self._mourner(node.name)
        late_s = LATE_NEWS_S * float(self._rng.random()) if self._rng.random() < 0.5 else 0.0
        if late_s > 0:
            self._arrange(node, node.failed_s + late_s, self._notice)
        else:
            self._notice(node)

    def _notice(self, node: SimNode) -> None:
        failed_s = self._clock.now() if node.failed_s is None else node.failed_s
        self._end(node, failed_s)
        ago_s = self._clock.now() - failed_s
        news, reason = NodeNews.LOST, node.lost
        self._say(NodeNotice(node=node.name, kind=news, reason=reason, ago_s=ago_s, reclaimed=node.reclaimed))

    def _end(self, node: SimNode, at_s: float) -> None:
        for timer in node.timers:
            timer.cancel()
        node.released_s = at_s
        del self._held[node.name]

    def _arrange(self, node: SimNode, when_s: float, action: Callable[[SimNode], None]) -> None:
        node.timers.append(self._clock.call_at(when_s, partial(action, node)))

    def _say(self, notice: NodeNotice) -> None:
        if self._listener is not None:
            self._listener(notice)
