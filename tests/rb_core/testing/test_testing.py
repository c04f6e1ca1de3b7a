import inspect

import pytest

from rb_core import testing
from rb_core.clock import ManualClock
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
                self._inbox.put(NodeNotice(node=name, kind="running"))
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


@pytest.mark.parametrize("broken", [Repeats, Forgets, Mixes, Strict, Invents, Skips])
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
