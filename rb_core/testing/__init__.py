"""Contracts that every provider, launcher and depot keeps, as test suites; and the fakes of `rb_core.testing.fakes`.

A third party proves its provider by subclassing the contract in its own tests::

    class TestMyProvider(ProviderContract):
        def make(self, clock, inbox):
            return MyProvider(clock=clock, inbox=inbox)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from rb_core.clock import ManualClock
from rb_core.hardware import InstanceType
from rb_core.ports import Clock, Inbox, NodeNews, NodeNotice, Provider, Recording
from rb_core.testing.depot_contract import DepotContract
from rb_core.testing.depots import FakeDepot, FolderDepot
from rb_core.testing.fakes import FakeHandle, FakeLauncher, FakeNode, FakeProvider, FakeTraining
from rb_core.testing.launching_contract import LauncherContract
from rb_core.testing.records import MemoryRecord

__all__ = [
    "DepotContract",
    "FakeDepot",
    "FakeHandle",
    "FakeLauncher",
    "FakeNode",
    "FakeProvider",
    "FakeTraining",
    "FolderDepot",
    "LauncherContract",
    "MemoryRecord",
    "ProviderContract",
]


class ProviderContract(ABC):
    """What every provider keeps. Subclass it, answer `make`, and let pytest collect the subclass.

    Override `instance_type`, or `clock` for a provider that needs real time.
    """

    instance_type = InstanceType(name="contract", slots=2, usd_per_hour=1.0)
    """Of this type, three nodes must be available at one time."""

    @abstractmethod
    def make(self, clock: Clock, inbox: Inbox) -> Provider:
        """A provider that holds nothing and puts its notices into `inbox`."""

    def clock(self) -> Clock:
        """The clock to test on."""
        return ManualClock()

    def test_a_node_runs_and_then_is_ready(self) -> None:
        """First ``running``, then ``ready``, once each."""
        provider, inbox = self._made()
        provider.launch(["n0"], self.instance_type, run="r")
        assert list(_kinds(inbox, ["n0"])) == ["running", "ready"]
        self._close(provider)

    def test_launching_a_name_again_changes_nothing(self) -> None:
        """A launch is idempotent by name, and no notice comes twice."""
        provider, inbox = self._made()
        provider.launch(["n0"], self.instance_type, run="r")
        provider.launch(["n0", "n1"], self.instance_type, run="r")
        seen = list(_kinds(inbox, ["n0", "n1"]))
        provider.launch(["n1"], self.instance_type, run="r")
        assert sorted(seen) == ["ready", "ready", "running", "running"]
        assert sorted(provider.owned("r")) == ["n0", "n1"]
        self._close(provider)

    def test_slots_are_in_order_and_belong_to_one_node(self) -> None:
        """As many slots as the type has, numbered from 0, no device on two nodes."""
        provider, inbox = self._made()
        names = ["n0", "n1", "n2"]
        provider.launch(names, self.instance_type, run="r")
        list(_kinds(inbox, names))
        taken = [slot.device for name in names for slot in provider.slots(name) if slot.device]
        for name in names:
            slots = provider.slots(name)
            assert [(slot.node, slot.index) for slot in slots] == [
                (name, index) for index in range(self.instance_type.slots)
            ]
        assert len(set(taken)) == len(taken)
        self._close(provider)

    def test_slots_of_a_name_that_is_not_held_are_a_key_error(self) -> None:
        """Nothing is invented for an unknown name."""
        provider, _ = self._made()
        try:
            provider.slots("nobody")
        except KeyError:
            pass
        else:
            raise AssertionError("slots() of an unknown name must raise KeyError")
        self._close(provider)

    def test_a_requested_node_is_owned_by_its_run_alone(self) -> None:
        """A node can be found again as soon as it is requested."""
        provider, _ = self._made()
        provider.launch(["n0"], self.instance_type, run="r")
        assert list(provider.owned("r")) == ["n0"]
        assert list(provider.owned("other")) == []
        self._close(provider)

    def test_releasing_is_idempotent_and_passes_unknown_names_over(self) -> None:
        """Releasing may be repeated."""
        provider, inbox = self._made()
        provider.launch(["n0", "n1"], self.instance_type, run="r")
        list(_kinds(inbox, ["n0", "n1"]))
        provider.release(["n0", "nobody"])
        provider.release(["n0"])
        assert list(provider.owned("r")) == ["n1"]
        self._close(provider)

    def test_a_node_can_be_released_while_it_starts(self) -> None:
        """A request can be taken back."""
        provider, _ = self._made()
        provider.launch(["n0"], self.instance_type, run="r")
        provider.release(["n0"])
        assert list(provider.owned("r")) == []
        self._close(provider)

    def test_what_was_released_can_be_had_again_under_a_new_name(self) -> None:
        """Releasing makes room."""
        provider, inbox = self._made()
        provider.launch(["n0", "n1", "n2"], self.instance_type, run="r")
        list(_kinds(inbox, ["n0", "n1", "n2"]))
        provider.release(["n0", "n1", "n2"])
        provider.launch(["n3", "n4", "n5"], self.instance_type, run="r")
        list(_kinds(inbox, ["n3", "n4", "n5"]))
        assert len(provider.slots("n5")) == self.instance_type.slots
        self._close(provider)

    def test_a_node_that_is_taken_over_but_not_there_is_lost(self) -> None:
        """What an earlier process requested may be gone, or never have been heard of."""
        provider, inbox = self._made()
        provider.adopt({"n0": self.instance_type}, run="r")
        notice = inbox.get()
        assert isinstance(notice, NodeNotice)
        assert (notice.node, notice.kind) == ("n0", NodeNews.LOST)
        self._close(provider)

    def test_taking_nodes_over_changes_nothing(self) -> None:
        """Adopting is idempotent, and what is held stays held."""
        provider, inbox = self._made()
        provider.launch(["n0", "n1"], self.instance_type, run="r")
        list(_kinds(inbox, ["n0", "n1"]))
        for _ in range(2):
            provider.adopt({"n0": self.instance_type, "n1": self.instance_type}, run="r")
        assert sorted(provider.owned("r")) == ["n0", "n1"]
        assert len(provider.slots("n0")) == self.instance_type.slots
        self._close(provider)

    def test_closing_is_idempotent(self) -> None:
        """Closing may be repeated."""
        provider, _ = self._made()
        provider.close()
        provider.close()

    def _made(self) -> tuple[Provider, Inbox]:
        clock = self.clock()
        inbox = clock.inbox()
        provider = self.make(clock, inbox)
        if isinstance(provider, Recording):
            provider.record(MemoryRecord(clock))
        return provider, inbox

    def _close(self, provider: Provider) -> None:
        provider.release(provider.owned("r"))
        assert list(provider.owned("r")) == []
        provider.close()


def _kinds(inbox: Inbox, names: Sequence[str]) -> Sequence[str]:
    """What is said of these nodes until all are ready."""
    kinds: list[str] = []
    waiting = set(names)
    while waiting:
        notice = inbox.get()
        assert isinstance(notice, NodeNotice), f"expected a notice of {sorted(waiting)}, got {notice!r}"
        kinds.append(notice.kind)
        if notice.kind == "ready":
            waiting.discard(notice.node)
    return kinds
