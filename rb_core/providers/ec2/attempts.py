"""The renting calls of a run, and which node each instance is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rb_core.ports import Clock, Record
from rb_core.providers.ec2.listing import SeenInstance
from rb_core.providers.ec2.request import LaunchOrder


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One renting call.

    Attributes:
        token: its token.
        nodes: names of the nodes that it was for; the position is the launch index.
        request: what the log says of it.
        begun_s: when, on the clock.
        hoped_s: until then what it brought, or may have brought, need not be visible; on the clock.
        order: the call itself; None where an earlier process made it: that is never repeated.
        instances: ids of what it brought, by launch index; None while there was no answer.
        refused: why nothing came of it; empty otherwise.
        found: ids of instances that were listed as its own, by launch index.
    """

    token: str
    nodes: tuple[str, ...]
    request: Mapping[str, Any]
    begun_s: float
    hoped_s: float
    order: LaunchOrder | None = None
    instances: tuple[str, ...] | None = None
    refused: str = ""
    found: dict[int, str] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether it is not known what came of it."""
        return self.instances is None and not self.refused

    @property
    def zone(self) -> str:
        """Where it was made."""
        return str(self.request.get("zone", ""))

    def instance(self, index: int) -> str:
        """Id of the instance at a launch index; empty where none is known."""
        if self.instances is not None and index < len(self.instances):
            return self.instances[index]
        return self.found.get(index, "")

    def indices(self) -> range:
        """The launch indices at which there is an instance, or may be."""
        if self.refused:
            return range(0)
        return range(len(self.nodes) if self.instances is None else len(self.instances))


class Attempts:
    """All renting calls of one run, in order; those of earlier processes come out of its log.

    Args:
        clock: the time.
        grace_s: how long what was rented may be invisible.
    """

    def __init__(self, clock: Clock, grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._by_token: dict[str, Attempt] = {}
        self._ended: set[str] = set()

    def recall(self, record: Record, answer_s: float) -> None:
        """Know the calls that a log tells of. Idempotent.

        Args:
            record: the log.
            answer_s: how long a call may have gone on after it was written down.
        """
        now_s = self._clock.now()
        for launch in record.launches.values():
            if launch.attempt in self._by_token:
                continue
            begun_s = now_s - (record.t_s - launch.t_s)
            # A call without an answer may have been made by a process that ended only now.
            recent = launch.instances is None or now_s < begun_s + answer_s + self._grace_s
            self._by_token[launch.attempt] = Attempt(
                token=launch.attempt,
                nodes=launch.nodes,
                request=launch.request,
                begun_s=begun_s,
                hoped_s=now_s + self._grace_s if recent else begun_s,
                instances=launch.instances,
                refused=launch.refused,
            )

    def begin(self, order: LaunchOrder, request: Mapping[str, Any]) -> Attempt:
        """A call that is about to be made."""
        now_s = self._clock.now()
        attempt = Attempt(
            token=order.token,
            nodes=order.nodes,
            request=request,
            begun_s=now_s,
            hoped_s=now_s + self._grace_s,
            order=order,
        )
        self._by_token[order.token] = attempt
        return attempt

    def hope(self, attempt: Attempt) -> None:
        """It was just made: what it brought may be invisible from now on."""
        attempt.hoped_s = self._clock.now() + self._grace_s

    def __iter__(self) -> Iterator[Attempt]:
        return iter(tuple(self._by_token.values()))

    def of(self, name: str) -> tuple[Attempt, int] | None:
        """The call that has brought, or may yet bring, a node, and its launch index; None where there is none."""
        for attempt in reversed(tuple(self._by_token.values())):
            if name in attempt.nodes:
                index = attempt.nodes.index(name)
                if index in attempt.indices():
                    return attempt, index
        return None

    def vain(self, name: str) -> bool:
        """Whether a node was asked for, and nothing will come of it."""
        return self.of(name) is None and any(name in attempt.nodes for attempt in self)

    def why_not(self, name: str) -> str:
        """Why there is no call that brings a node."""
        for attempt in reversed(tuple(self._by_token.values())):
            if name in attempt.nodes:
                return attempt.refused or "there was no capacity for it any more"
        return "it was never asked for"

    def unanswered(self, names: Iterable[str]) -> list[Attempt]:
        """Calls of this process for any of these nodes that had no answer."""
        wanted = set(names)
        return [each for each in self if each.open and each.order is not None and wanted.intersection(each.nodes)]

    def take(self, seen: Sequence[SeenInstance]) -> None:
        """Take in what a list shows."""
        for each in seen:
            attempt = self._by_token.get(each.attempt)
            if attempt is not None:
                attempt.found[each.index] = each.instance
            if each.state.over:
                self._ended.add(each.instance)

    def name(self, seen: SeenInstance) -> str:
        """The node that an instance is; its id where no call of this run tells."""
        attempt = self._by_token.get(seen.attempt)
        if attempt is None or seen.index >= len(attempt.nodes):
            return seen.instance
        return attempt.nodes[seen.index]

    def current(self, seen: SeenInstance) -> bool:
        """Whether the instance is what its node's present call brought, and no stray of an earlier one."""
        now = self.of(self.name(seen))
        return now is not None and now[0].token == seen.attempt

    def ended(self, instance: str) -> bool:
        """Whether it was seen to have ended."""
        return instance in self._ended

    def mark_ended(self, instances: Iterable[str]) -> None:
        """They are known to be gone, or to be none of ours any more."""
        self._ended.update(instances)

    def hidden(self) -> dict[str, str]:
        """Nodes that may exist though no list shows them yet: the instance's id, or nothing, by name."""
        now_s = self._clock.now()
        return {
            attempt.nodes[index]: attempt.instance(index)
            for attempt in self
            if now_s < attempt.hoped_s
            for index in attempt.indices()
            if not self.ended(attempt.instance(index))
        }

    def alive(self) -> dict[str, str]:
        """When each instance that may be alive ends by itself at the latest, by its id."""
        return {
            attempt.instance(index): str(attempt.request.get("expires", ""))
            for attempt in self
            for index in attempt.indices()
            if attempt.instance(index) and not self.ended(attempt.instance(index))
        }
