"""Brings what a run holds, what it has given back and what EC2 shows together."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rb_core.events import LaunchGranted, LaunchRefused
from rb_core.hardware import InstanceType
from rb_core.ports import Clock, NodeNews, NodeNotice, Record
from rb_core.providers.ec2 import listing
from rb_core.providers.ec2.attempts import Attempt, Attempts
from rb_core.providers.ec2.ending import end
from rb_core.providers.ec2.holding import HeldInstance
from rb_core.providers.ec2.listing import SeenInstance


class Fleet:
    """The nodes of one run. Nodes may be given back from any thread; everything else is the engine's.

    Args:
        ec2: asked for a client that repeats its calls.
        attempts: the renting calls of the run.
        clock: the time.
        boot_s: how long instances take to run, as far as is known.
        grace_s: how long what is there may be invisible.
    """

    def __init__(
        self, ec2: Callable[[], Any], attempts: Attempts, clock: Clock, *, boot_s: float, grace_s: float
    ) -> None:
        self._ec2 = ec2
        self._attempts = attempts
        self._clock = clock
        self._boot_s = boot_s
        self._grace_s = grace_s
        self._held: dict[str, HeldInstance] = {}
        self._closing: set[str] = set()
        self._ending: set[str] = set()
        self._disowned: set[str] = set()
        self._remarks: list[str] = []
        self._lock = threading.RLock()

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def get(self, name: str) -> HeldInstance | None:
        """A node that is held; None where it is not."""
        return self._held.get(name)

    @property
    def size(self) -> int:
        """Nodes that are held, or given back while EC2 has not agreed yet to end them."""
        with self._lock:
            return len(self._held) + len(self._closing - self._ending)

    @property
    def types(self) -> Mapping[str, InstanceType]:
        """What is held, by name."""
        with self._lock:
            return {node.name: node.instance_type for node in self._held.values()}

    @property
    def zones(self) -> frozenset[str]:
        """Where nodes are held."""
        with self._lock:
            return frozenset(node.zone for node in self._held.values() if node.zone)

    @property
    def idle(self) -> bool:
        """Whether nothing is held and nothing is on its way out."""
        with self._lock:
            return not self._held and not self._closing and not any(each.open for each in self._attempts)

    @property
    def restless(self) -> bool:
        """Whether something is expected to change soon."""
        with self._lock:
            waiting = any(not node.running for node in self._held.values())
            return waiting or bool(self._closing) or any(each.open for each in self._attempts)

    def hold(self, names: Sequence[str], instance_type: InstanceType) -> None:
        """Hold these nodes from now on; those that are held already stay as they are."""
        with self._lock:
            for name in names:
                if name not in self._held:
                    self._held[name] = HeldInstance(name=name, instance_type=instance_type)

    def drop(self, names: Sequence[str]) -> None:
        """Forget nodes that no call was made for, or none that brings them."""
        with self._lock:
            for name in names:
                if self._attempts.of(name) is None:
                    self._held.pop(name, None)

    def unplaced(self, names: Sequence[str]) -> list[str]:
        """Those of the nodes that are held, and that no call is for."""
        with self._lock:
            return [name for name in names if name in self._held and self._attempts.of(name) is None]

    def placed(self) -> None:
        """Take in that calls were answered: what they brought starts now."""
        now_s = self._clock.now()
        with self._lock:
            for node in self._held.values():
                found = self._attempts.of(node.name)
                if node.zone or found is None or found[0].order is None or found[0].instances is None:
                    continue
                node.zone, node.seen_s, node.pending_s, node.begun_s = found[0].zone, now_s, now_s, found[0].begun_s

    def adopt(self, nodes: Mapping[str, InstanceType]) -> list[NodeNotice]:
        """Hold nodes of an earlier process; what can be said of them without asking anybody."""
        said = []
        with self._lock:
            for name, instance_type in nodes.items():
                if name in self._held:
                    continue
                found = self._attempts.of(name)
                if found is None:
                    reason = self._attempts.why_not(name)
                    said.append(NodeNotice(node=name, kind=NodeNews.LOST, reason=reason, ago_s=math.inf))
                    continue
                self._held[name] = HeldInstance(
                    name=name, instance_type=instance_type, zone=found[0].zone, begun_s=found[0].begun_s
                )
        return said

    def give_back(self, names: Sequence[str]) -> bool:
        """Hold these no more, and see to it that they end; whether there is anything to end now. Asks nobody."""
        with self._lock:
            for name in names:
                self._held.pop(name, None)
                if self._attempts.of(name) is not None or name.startswith("i-"):
                    self._closing.add(name)
            return bool(self._closing)

    def lose(self, name: str, reason: str) -> NodeNotice | None:
        """A node that says that it ends; None where it is not held."""
        with self._lock:
            node = self._held.pop(name, None)
            if node is None:
                return None
            self._closing.add(name)
            return NodeNotice(node=name, kind=NodeNews.LOST, reason=reason)

    def leave(self, name: str, reason: str, in_s: float) -> NodeNotice | None:
        """A node that says that it will be taken away; None where that is known, or it is not held."""
        with self._lock:
            node = self._held.get(name)
            if node is None or node.leaving:
                return None
            node.leaving = True
            return NodeNotice(node=name, kind=NodeNews.LEAVING, reason=reason, in_s=in_s)

    def take(self, seen: Sequence[SeenInstance], record: Record) -> list[NodeNotice]:
        """Take in a list of the run's instances, just made: what there is to say of what is held.

        Raises:
            NoAnswer: EC2 did not answer what was asked besides.
            CallRefused: it may not be asked.
            UnusableLog: what came of a call could not be written.
        """
        now_s = self._clock.now()
        self._attempts.take(seen)
        shown = {self._attempts.name(each): each for each in seen if self._attempts.current(each)}
        with self._lock:
            unseen = [
                node.name for node in self._held.values() if node.name not in shown and self._overdue(node, now_s)
            ]
        shown.update(self._looked_up(unseen))
        for attempt in self._attempts:
            if attempt.open and now_s >= attempt.hoped_s:
                _settle(attempt, record)
        said: list[NodeNotice] = []
        with self._lock:
            for node in list(self._held.values()):
                found = shown.get(node.name)
                call = self._attempts.of(node.name)
                if call is not None:
                    # Shown before its call was answered, it has begun no earlier than that call.
                    node.begun_s = max(node.begun_s, call[0].begun_s)
                if found is not None:
                    told: Sequence[NodeNotice] = node.look(found, now_s, self._boot_s)
                elif node.name in unseen or self._attempts.vain(node.name):
                    told = [node.lost(self._vanished(node.name), now_s)]
                else:
                    continue
                said.extend(told)
                if told and told[-1].kind is NodeNews.LOST:
                    del self._held[node.name]
                    if found is not None and not found.state.over:
                        self._closing.add(node.name)
        return said

    def remarks(self) -> list[str]:
        """What people should know that has not been told yet."""
        with self._lock:
            remarks, self._remarks = self._remarks, []
        return remarks

    def close(self, seen: Sequence[SeenInstance]) -> None:
        """End what was given back, as far as a list shows it; what it does not show yet is ended when it does.

        Args:
            seen: the run's instances, just listed: only what is tagged as ours is ended.

        Raises:
            NoAnswer: EC2 did not answer; what is left is ended the next time.
            CallRefused: it may not be done from here.
        """
        self._attempts.take(seen)
        with self._lock:
            closing = set(self._closing)
            strays = {each.instance for each in seen if self._stray(each)}
        mine: dict[str, list[SeenInstance]] = {}
        for each in seen:
            for key in {self._attempts.name(each), each.instance} & closing:
                mine.setdefault(key, []).append(each)
        doomed = [each.instance for found in mine.values() for each in found if not each.state.over]
        gone = {name for name, found in mine.items() if all(each.state.over for each in found)}
        missing = [name for name in closing if name not in mine]
        late = [name for name in missing if not self._hidden(name)]
        for name, found_late in self._looked_up(late).items():
            if not found_late.state.over:
                doomed.append(found_late.instance)
                late.remove(name)
        done = end(self._ec2(), list(dict.fromkeys([*doomed, *sorted(strays), *self._unproven(late)])))
        self._attempts.mark_ended(done.missing)
        with self._lock:
            self._remarks += [f"the protection of {each} against being ended was lifted" for each in done.unprotected]
            self._ending |= {name for name, found in mine.items() if {each.instance for each in found} <= {*done.ended}}
            self._closing -= gone | set(late)
            self._ending &= self._closing

    def owned(self, seen: Sequence[SeenInstance]) -> list[str]:
        """Names of the nodes that a list shows, or may not show yet."""
        self._attempts.take(seen)
        shown = [self._attempts.name(each) for each in seen if not each.state.over]
        return list(dict.fromkeys([*shown, *self._attempts.hidden()]))

    def _overdue(self, node: HeldInstance, now_s: float) -> bool:
        """Whether a node that no list shows ought to be shown."""
        found = self._attempts.of(node.name)
        if found is None or found[0].open:
            return False
        last_s = -math.inf if node.seen_s is None else node.seen_s + self._grace_s
        return now_s >= max(found[0].hoped_s, last_s)

    def _hidden(self, name: str) -> bool:
        return name in self._attempts.hidden()

    def _looked_up(self, names: Collection[str]) -> dict[str, SeenInstance]:
        """What EC2 shows of nodes that the list by tag is without, where they are still ours."""
        ids = {}
        for name in names:
            found = self._attempts.of(name)
            if found is not None and (instance := found[0].instance(found[1])):
                ids[instance] = name
        ours = {}
        for each in listing.by_ids(self._ec2(), ids) if ids else ():
            name = ids[each.instance]
            found = self._attempts.of(name)
            if found is not None and each.attempt == found[0].token and each.run == found[0].request.get("run"):
                ours[name] = each
            elif not each.state.over:
                self._disown(name, each)
        return ours

    def _disown(self, name: str, seen: SeenInstance) -> None:
        self._attempts.mark_ended([seen.instance])
        with self._lock:
            self._disowned.add(seen.instance)
            self._remarks.append(
                f"instance {seen.instance} ({name}) does not carry this run's tags any more (it says run "
                f"{seen.run or 'none'!r}): somebody else has taken it, and it is left alone. End it yourself if it is "
                f"not meant to stay; by itself it ends by {seen.expires or 'the end of its lifetime'}"
            )

    def _unproven(self, names: Collection[str]) -> list[str]:
        """Instances that were granted and never shown: EC2 says whether it knows them when they are to end."""
        ids = []
        for name in names:
            found = self._attempts.of(name)
            if found is not None and found[1] not in found[0].found:
                instance = found[0].instance(found[1])
                if instance and not self._attempts.ended(instance):
                    ids.append(instance)
        return ids

    def _stray(self, seen: SeenInstance) -> bool:
        """Whether an instance is of a call of ours that was given up, and whose nodes others have become."""
        name = self._attempts.name(seen)
        known = name != seen.instance
        return known and not seen.state.over and not self._attempts.current(seen)

    def _vanished(self, name: str) -> str:
        found = self._attempts.of(name)
        if found is None:
            return f"its request brought nothing: {self._attempts.why_not(name)}"
        instance = found[0].instance(found[1])
        taken = instance in self._disowned
        return f"instance {instance} " + ("has lost this run's tags" if taken else "is not there any more")


def _settle(attempt: Attempt, record: Record) -> None:
    """The grace of a call without an answer is over: what has been found is all that it brought."""
    if attempt.found:
        last = max(attempt.found)
        attempt.instances = tuple(attempt.found.get(index, "") for index in range(last + 1))
        record.write(LaunchGranted, attempt=attempt.token, instances=attempt.instances)
    else:
        attempt.refused = "nothing came of it, and EC2 never said why"
        record.write(LaunchRefused, attempt=attempt.token, reason=attempt.refused)
