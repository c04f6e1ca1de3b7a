"""The nodes that an earlier process of a run left behind: gone on with where they are of use, else given back."""

from __future__ import annotations

from collections.abc import Sequence

from rb_core.cluster import persist
from rb_core.engine.lane import Lane
from rb_core.engine.running import Setting
from rb_core.ports import NodeNotice, Provider


class Adoption:
    """Brings what the log says is held, and what the provider says it owns, together."""

    def __init__(self, setting: Setting, provider: Provider, lanes: Sequence[Lane]) -> None:
        """Nobody has been asked yet.

        Args:
            setting: what all parts of the engine share.
            provider: where the nodes are from.
            lanes: whose they are.
        """
        self._setting = setting
        self._provider = provider
        self._lanes = lanes

    def hold(self) -> None:
        """Have the clusters give back whatever there is, whatever happens next. Asks nobody."""
        state = self._setting.journal.state
        for lane in self._lanes:
            mine = [node for node in state.nodes.values() if node.lane == lane.number]
            lane.cluster.hold([node for node in mine if node.node in state.held], [node.node for node in mine])

    def adopt(self) -> None:
        """Go on with what the log says is held, and give back what the provider owns beyond that.

        Raises:
            NoAnswer: the provider never says what it owns.
        """
        state, run = self._setting.journal.state, self._setting.request.run
        owned: list[str] = []
        persist(lambda: owned.extend(self._provider.owned(run)), self._listen)
        orphans = [name for name in dict.fromkeys(owned) if name not in state.held]
        strangers = [name for name in orphans if name not in state.nodes]
        if strangers:
            persist(lambda: self._provider.release(strangers), self._listen)
        for lane in self._lanes:
            mine = [state.nodes[name] for name in orphans if name in state.nodes]
            lane.cluster.hold([node for node in mine if node.lane == lane.number])
            lane.cluster.adopt(self._listen)
        # What is known of the nodes already decides what the stages still ask for.
        self._listen(0.0)
        for lane in self._lanes:
            still = [name for name in orphans if name in lane.cluster]
            lane.cluster.release(still, "it was still held when the run was resumed")

    def _listen(self, seconds: float) -> None:
        """Take in what is said of the nodes as it is said, so that the times are right."""
        inbox, clock = self._setting.inbox, self._setting.clock
        until_s = clock.now() + seconds
        while (notice := inbox.get(until_s)) is not None:
            if isinstance(notice, NodeNotice):
                for lane in self._lanes:
                    if notice.node in lane.cluster:
                        lane.cluster.took(notice)
