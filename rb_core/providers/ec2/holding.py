"""The nodes that are held, and those that were given back and are not known to be gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rb_core.hardware import InstanceType
from rb_core.ports import NodeNews, NodeNotice
from rb_core.providers.ec2.listing import InstanceState, SeenInstance


@dataclass(slots=True, kw_only=True)
class HeldInstance:
    """A node that the engine has asked for and not given back. Times are the clock's.

    Attributes:
        name: the engine's name of it.
        instance_type: what it is.
        zone: where it stands; empty while no call has brought it.
        seen_s: when it was last seen to exist; None before.
        pending_s: when it was last seen to start; None where that was not seen.
        begun_s: when it can have begun to run at the earliest.
        running: whether it was seen to run.
        leaving: whether it has said that it will be taken away.
    """

    name: str
    instance_type: InstanceType
    zone: str = ""
    seen_s: float | None = None
    pending_s: float | None = None
    begun_s: float = 0.0
    running: bool = False
    leaving: bool = False

    def look(self, seen: SeenInstance, now_s: float, boot_s: float) -> Sequence[NodeNotice]:
        """Take in how it stands now; what there is to say of it.

        Args:
            seen: what EC2 shows.
            now_s: the clock.
            boot_s: how long instances of this type take to run, as far as is known.
        """
        self.zone = seen.zone or self.zone
        match seen.state:
            case InstanceState.PENDING:
                self.pending_s = self.seen_s = now_s
                return ()
            case InstanceState.RUNNING:
                told = () if self.running else self._runs(seen, now_s, boot_s)
                self.running, self.seen_s = True, now_s
                return told
        return [self.lost(_why(seen), now_s, reclaimed=seen.reclaimed)]

    def lost(self, reason: str, now_s: float, *, reclaimed: bool = False) -> NodeNotice:
        """That it is gone: between when it was last seen and now, so in the middle."""
        ago_s = float("inf") if self.seen_s is None else (now_s - self.seen_s) / 2.0
        return NodeNotice(node=self.name, kind=NodeNews.LOST, reason=reason, ago_s=ago_s, reclaimed=reclaimed)

    def _runs(self, seen: SeenInstance, now_s: float, boot_s: float) -> Sequence[NodeNotice]:
        """It began to run between two looks: in the middle, or, after one look alone, as soon as such instances do."""
        expected_s = min(now_s, self.begun_s + boot_s)
        since_s = expected_s if self.pending_s is None else (self.pending_s + now_s) / 2.0
        running = NodeNotice(
            node=self.name, kind=NodeNews.RUNNING, ago_s=now_s - since_s, instance=seen.instance, zone=seen.zone
        )
        return [running, NodeNotice(node=self.name, kind=NodeNews.READY)]


def _why(seen: SeenInstance) -> str:
    return f"instance {seen.instance} is {seen.state}" + (f": {seen.reason}" if seen.reason else "")
