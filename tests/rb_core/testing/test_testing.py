import inspect
import math

import pytest

from rb_core import testing
from rb_core.clock import ManualClock
from rb_core.errors import LaunchFailure, NoAnswer
from rb_core.ports import NodeNotice
from rb_core.testing import ProviderContract
from rb_core.testing.fakes import FakeProvider

CHECKS = [name for name, _ in inspect.getmembers(ProviderContract) if name.startswith("test_")]


class TestFakeProvider(ProviderContract):
    def make(self, clock, inbox):
        return FakeProvider(clock, inbox, launch_s=30.0, init_s=60.0)


class Repeats(FakeProvider):
    """Says twice that a node is ready when it is launched again."""

    def launch(self, names, instance_type, *, run):
        for name in names:
            if name in self.books:
                self.inbox.put(NodeNotice(node=name, kind="running"))
        super().launch(names, instance_type, run=run)


class Forgets(FakeProvider):
    """Does not own what only starts."""

    def owned(self, run):
        return [name for name in super().owned(run) if self.books[name].ready_s is not None]


class Mixes(FakeProvider):
    """Owns the nodes of every run."""

    def owned(self, run):
        return super().owned("r")


class Strict(FakeProvider):
    """Does not know names that it does not hold."""

    def release(self, names):
        for name in names:
            self.books[name]
        super().release(names)


class Invents(FakeProvider):
    """Has slots for everybody."""

    def slots(self, name):
        return super().slots(name) if name in self.books else ()


class Skips(FakeProvider):
    """Never runs before it is ready."""

    def _runs(self, node):
        self._joins(node)


class Ignores(FakeProvider):
    """Has nothing to say of nodes that it is to take over."""

    def adopt(self, nodes, *, run):
        pass


class Drops(FakeProvider):
    """Gives back what it is to take over."""

    def adopt(self, nodes, *, run):
        super().adopt(nodes, run=run)
        self.release(list(nodes))


@pytest.mark.parametrize("broken", [Repeats, Forgets, Mixes, Strict, Invents, Skips, Ignores, Drops])
def test_the_contract_finds_a_provider_that_breaks_it(broken):
    class Suite(ProviderContract):
        def make(self, clock, inbox):
            return broken(clock, inbox)

    found = []
    for name in CHECKS:
        try:
            getattr(Suite(), name)()
        except (AssertionError, KeyError):
            found.append(name)
    assert found


def test_a_contract_wants_its_provider():
    with pytest.raises(TypeError, match="make"):
        ProviderContract()


def test_everything_that_is_promised_is_there():
    for name in testing.__all__:
        assert getattr(testing, name) is not None


def test_the_fake_providers_books_are_kept_on_its_clock():
    clock = ManualClock()
    inbox = clock.inbox()
    provider = FakeProvider(clock, inbox, launch_s=30.0, init_s=60.0)
    provider.launch(["n0"], ProviderContract.instance_type, run="r")
    while inbox.get(100.0):
        pass
    provider.lose("n0", "reclaimed")
    assert inbox.get() == NodeNotice(node="n0", kind="lost", reason="reclaimed")
    node = provider.books["n0"]
    assert (node.requested_s, node.running_s, node.ready_s, node.released_s) == (0.0, 30.0, 90.0, 100.0)


def told(inbox):
    """What an inbox holds now."""
    return [(notice.node, notice.kind.value, notice.ago_s) for notice in iter(lambda: inbox.get(until_s=0.0), None)]


def launched(*names, until_s=200.0):
    clock = ManualClock()
    provider = FakeProvider(clock, clock.inbox(), launch_s=30.0, init_s=60.0)
    provider.launch(names, ProviderContract.instance_type, run="r")
    clock.inbox().get(until_s)
    return clock, provider


def test_another_inbox_hears_of_adopted_nodes_alone():
    clock, provider = launched("n0", "n1", until_s=50.0)
    provider.inbox = clock.inbox()
    provider.adopt({"n1": ProviderContract.instance_type}, run="r")
    assert told(provider.inbox) == [("n1", "running", 20.0)]
    clock.inbox().get(200.0)
    assert told(provider.inbox) == [("n1", "ready", 0.0)]


def test_adopting_tells_how_nodes_stand():
    clock, provider = launched("n0", "n1")
    provider.lose("n1")
    clock.inbox().get(210.0)
    provider.inbox = clock.inbox()
    provider.adopt(dict.fromkeys(["n0", "n1", "n2"], ProviderContract.instance_type), run="r")
    assert told(provider.inbox) == [
        ("n0", "running", 180.0),
        ("n0", "ready", 120.0),
        ("n1", "running", 180.0),
        ("n1", "lost", 10.0),
        ("n2", "lost", math.inf),
    ]


def test_launches_are_refused_as_often_as_was_said_but_never_what_is_held():
    _, provider = launched("n0")
    provider.refuse, provider.refusals = "no capacity", 2
    provider.launch(["n0"], ProviderContract.instance_type, run="r")
    for _ in range(2):
        with pytest.raises(LaunchFailure, match="no capacity"):
            provider.launch(["n0", "n1"], ProviderContract.instance_type, run="r")
    provider.launch(["n0", "n1"], ProviderContract.instance_type, run="r")
    assert provider.owned("r") == ("n0", "n1")


def test_a_call_can_be_lost_on_its_way_or_on_its_way_back():
    _, provider = launched("n0", "n1")
    provider.unheard["release"] = provider.unanswered["release"] = 1
    with pytest.raises(NoAnswer):
        provider.release(["n0"])
    assert provider.owned("r") == ("n0", "n1")
    with pytest.raises(NoAnswer):
        provider.release(["n0"])
    assert provider.owned("r") == ("n1",)
    provider.release(["n1"])
    assert provider.owned("r") == ()


def test_a_warning_is_told_and_takes_nothing_away():
    clock, provider = launched("n0")
    provider.inbox = clock.inbox()
    provider.launch(["n0"], ProviderContract.instance_type, run="r")
    provider.warn("n0", 120.0)
    notice = provider.inbox.get(until_s=0.0)
    assert (notice.kind, notice.in_s, provider.owned("r")) == ("leaving", 120.0, ("n0",))
