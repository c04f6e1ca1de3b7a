"""Chains that follow each other on one cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

from rb_core.cluster import Cluster
from rb_core.engine.chainrun import ChainRun


def _leave(reason: str) -> None:
    """Leave the plan as it is."""


class Lane:
    """One or more chains, one after another, and their nodes.

    Attributes:
        number: of its first chain, which stands for it in the state.
        cluster: the nodes.
        chain: the chain that runs.
        over: whether all chains are done.
        replan: plans what is left anew, told why; changes nothing unless the engine sets it.
    """

    def __init__(self, cluster: Cluster, chains: Sequence[ChainRun]) -> None:
        self.number = chains[0].number
        self.cluster = cluster
        self.chain = chains[0]
        self.over = False
        self.replan: Callable[[str], None] = _leave
        self._next = deque(chains[1:])
        for chain, follower in pairwise(chains):
            chain.follower = follower

    @property
    def left(self) -> Sequence[ChainRun]:
        """The chain that runs and those that follow it."""
        return (self.chain, *self._next)

    def resume(self) -> None:
        """Go on where the log ends."""
        while self.chain.finished and self._next:
            self.chain = self._next.popleft()
        self.chain.resume()
        if not self.chain.due:
            self.replan("the run was resumed")
        self.advance()

    def advance(self) -> None:
        """Begin what is due: the next stage, or the next chain; the last one's nodes are given back at once."""
        while not self.over:
            if self.chain.due:
                if self.chain.stage or self.chain.number != self.number:
                    self.replan(f"stage {self.chain.stage} begins")
                self.chain.begin()
            elif not self.chain.done:
                return
            elif self._next:
                self.chain = self._next.popleft()
            else:
                self.over = True
                self.cluster.release_all("the last stage ended")
