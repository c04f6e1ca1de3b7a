"""What providers share that stand between another provider and its user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Inbox, Notice, Provider, Record, Recording, Slot, Zoned


class Between:
    """An inbox in front of another one: hears what is put in, in the thread that puts it; nothing goes on by itself.

    Args:
        hear: told each notice.
        inbox: the one behind, which notices are taken out of.
    """

    def __init__(self, hear: Callable[[Notice], None], inbox: Inbox) -> None:
        self._hear = hear
        self._inbox = inbox

    def put(self, notice: Notice) -> None:
        """Hear it."""
        self._hear(notice)

    def get(self, until_s: float | None = None) -> Notice | None:
        """As the inbox behind."""
        return self._inbox.get(until_s)


class Onward:
    """A provider that leaves to the one behind it whatever a subclass does not do itself.

    What a provider offers besides is passed on too: one in front that forgets it would take it away unseen.

    Attributes:
        behind: that provider.
    """

    def __init__(self, behind: Provider) -> None:
        self.behind = behind
        self.name = behind.name

    def check(self, cloud: Cloud) -> None:
        """As the provider behind."""
        self.behind.check(cloud)

    def record(self, record: Record) -> None:
        """As the provider behind, where that keeps a record."""
        if isinstance(self.behind, Recording):
            self.behind.record(record)

    def together(self, wanted: bool) -> None:
        """As the provider behind, where that has zones."""
        if isinstance(self.behind, Zoned):
            self.behind.together(wanted)

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """As the provider behind."""
        self.behind.launch(names, instance_type, run=run)

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """As the provider behind."""
        self.behind.adopt(nodes, run=run)

    def slots(self, name: str) -> Sequence[Slot]:
        """As the provider behind."""
        return self.behind.slots(name)

    def release(self, names: Sequence[str]) -> None:
        """As the provider behind."""
        self.behind.release(names)

    def owned(self, run: str) -> Sequence[str]:
        """As the provider behind."""
        return self.behind.owned(run)

    def close(self) -> None:
        """As the provider behind."""
        self.behind.close()
