import itertools

import pytest

from rb_core.clock import ManualClock
from rb_core.cluster import Cluster
from rb_core.errors import LaunchFailure, LeakedNodes, UnusableLog
from rb_core.eventlog import MemoryLog
from rb_core.events import NodeLost, NodeReady, NodeReleased, NodeRequested, NodeRunning, StageStarted
from rb_core.hardware import InstanceType
from rb_core.journal import Journal
from rb_core.ports import NodeNotice
from rb_core.testing.fakes import FakeProvider

A = InstanceType(name="a", slots=2, usd_per_hour=1.0)
B = InstanceType(name="b", slots=4, usd_per_hour=2.0)


class FullLog(MemoryLog):
    """A log whose disk is full once `full` is set."""

    full = False

    def append(self, *events):
        if self.full:
            raise UnusableLog("no space left")
        super().append(*events)


class Rig:
    def __init__(self, **latencies):
        self.clock = ManualClock()
        self.inbox = self.clock.inbox()
        self.provider = FakeProvider(self.clock, self.inbox, **latencies)
        self.log = FullLog()
        self.journal = Journal(self.log, self.clock)
        self.asked = []
        self.cluster = self.another()

    def another(self):
        names = (f"n{number}" for number in itertools.count())
        return Cluster(
            self.provider,
            self.journal,
            run="r",
            names=names,
            admit=lambda count, kind: self.asked.append((count, kind.name)),
        )

    def settle(self, until_s=None):
        """Take everything that is said until then, or until all is quiet."""
        while (notice := self.inbox.get(until_s)) is not None:
            self.cluster.took(notice)

    @property
    def usable(self):
        return [node.name for node in self.cluster.usable]

    @property
    def requested(self):
        return [node.name for node in self.cluster.requested]

    def kinds(self):
        return [type(event) for event in self.log.events]


def test_missing_nodes_are_requested_and_become_usable_later():
    rig = Rig(launch_s=30.0, init_s=60.0)
    rig.cluster.resize(A, 2, chain=0)
    assert (rig.usable, rig.requested) == ([], ["n0", "n1"])
    rig.settle(30.0)
    assert rig.requested == ["n0", "n1"]
    rig.settle(90.0)
    assert (rig.usable, rig.requested) == (["n0", "n1"], [])
    assert [len(node.slots) for node in rig.cluster.usable] == [2, 2]
    assert rig.kinds() == [NodeRequested] * 2 + [NodeRunning] * 2 + [NodeReady] * 2
    assert rig.asked == [(2, "a")]


def test_every_step_is_in_the_log_before_the_provider_is_asked():
    rig = Rig()
    seen = []
    rig.provider.on_release = lambda names: seen.append((list(names), rig.kinds()[-1]))
    rig.cluster.resize(A, 1, chain=0)
    rig.settle()
    rig.cluster.release_all("enough")
    assert seen == [(["n0"], NodeReleased)]
    rig.log.full = True
    with pytest.raises(UnusableLog):
        rig.cluster.resize(A, 3, chain=0)
    assert list(rig.provider.books) == ["n0"]


def test_the_newest_usable_nodes_go_first():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0)
    rig.settle()
    rig.cluster.resize(A, 3, chain=0)
    rig.settle()
    rig.cluster.resize(A, 2, chain=0)
    assert rig.usable == ["n0", "n1"]
    assert rig.provider.owned("r") == ("n0", "n1")


def test_starting_nodes_are_kept_after_the_usable_ones_in_the_order_of_their_requests():
    rig = Rig(launch_s=30.0)
    rig.cluster.resize(A, 1, chain=0)
    rig.settle(30.0)
    rig.cluster.resize(A, 4, chain=0)
    rig.cluster.resize(A, 3, chain=0)
    assert (rig.usable, rig.requested) == (["n0"], ["n1", "n2"])
    rig.settle()
    assert rig.provider.books["n3"].running_s is None


def test_usable_means_in_the_order_of_becoming_so_not_of_the_requests():
    rig = Rig(launch_s=30.0)
    rig.cluster.resize(A, 1, chain=0)
    rig.provider.launch_s = 10.0
    rig.cluster.resize(A, 3, chain=0)
    rig.settle()
    assert rig.usable == ["n1", "n2", "n0"]
    rig.cluster.resize(A, 2, chain=0)
    assert rig.usable == ["n1", "n2"]


def test_nodes_of_another_type_are_released_before_any_are_requested():
    rig = Rig()
    rig.cluster.resize(A, 3, chain=0)
    rig.settle()
    rig.cluster.resize(B, 3, chain=0)
    rig.settle()
    assert rig.usable == ["n3", "n4", "n5"]
    assert rig.provider.most_held == 3
    assert [type(e) for e in rig.log.events[9:15]] == [NodeReleased] * 3 + [NodeRequested] * 3


def test_a_limit_that_would_be_broken_stops_the_request():
    rig = Rig()

    def refuse(count, kind):
        raise LaunchFailure("max_nodes")

    rig.cluster._admit = refuse
    with pytest.raises(LaunchFailure, match="max_nodes"):
        rig.cluster.resize(A, 1, chain=0)
    assert rig.kinds() == []
    assert not rig.provider.books


def test_notices_of_strangers_and_repeated_ones_change_nothing():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0)
    rig.settle()
    before = len(rig.log.events)
    for kind in ("running", "ready", "lost"):
        assert rig.cluster.took(NodeNotice(node="stranger", kind=kind)) is None
    assert rig.cluster.took(NodeNotice(node="n0", kind="ready")) is None
    assert rig.cluster.took(NodeNotice(node="n0", kind="running")) is None
    assert len(rig.log.events) == before


def test_a_node_that_is_ready_at_once_is_billed_all_the_same():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0)
    rig.inbox.get()
    rig.provider.books["n0"].ready_s = 0.0
    assert rig.cluster.took(NodeNotice(node="n0", kind="ready")).name == "n0"
    assert rig.kinds() == [NodeRequested, NodeRunning, NodeReady]


def test_a_lost_node_is_held_no_more_and_can_be_replaced():
    rig = Rig()
    rig.cluster.resize(A, 2, chain=0)
    rig.settle()
    rig.provider.lose("n0")
    lost = rig.cluster.took(rig.inbox.get())
    assert lost.name == "n0"
    assert rig.kinds()[-1] is NodeLost
    assert "n0" not in rig.cluster
    rig.cluster.replace(lost)
    rig.settle()
    assert rig.usable == ["n1", "n2"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, None])
def test_leaving_gives_everything_back_whatever_happened(error):
    rig = Rig(launch_s=30.0)

    def work():
        with rig.cluster as cluster:
            cluster.resize(A, 2, chain=0)
            rig.settle(30.0)
            cluster.resize(A, 4, chain=0)
            if error is not None:
                raise error

    if error is None:
        work()
    else:
        with pytest.raises(error):
            work()
    assert rig.provider.owned("r") == ()
    assert not rig.journal.state.held
    assert (rig.usable, rig.requested) == ([], [])


def test_leaving_gives_back_even_when_the_log_cannot_be_written():
    rig = Rig()
    with rig.cluster as cluster:
        cluster.resize(A, 2, chain=0)
        rig.log.full = True
    assert rig.provider.owned("r") == ()
    assert not rig.journal.state.held


def test_leaving_gives_back_what_was_requested_when_the_launch_failed():
    rig = Rig()
    rig.provider.refuse = "no capacity"
    with pytest.raises(LaunchFailure, match="no capacity"), rig.cluster as cluster:
        cluster.resize(A, 2, chain=0)
    assert not rig.journal.state.held


def test_an_interrupt_while_giving_back_waits_until_that_is_done():
    rig = Rig()
    calls = []

    def interrupt_once(names):
        calls.append(names)
        if len(calls) == 1:
            raise KeyboardInterrupt

    rig.provider.on_release = interrupt_once
    with pytest.raises(KeyboardInterrupt), rig.cluster as cluster:
        cluster.resize(A, 2, chain=0)
    assert rig.provider.owned("r") == ()
    assert len(calls) == 2


def test_a_release_that_goes_unheard_is_repeated():
    rig = Rig()
    rig.provider.deaf = 1
    with rig.cluster as cluster:
        cluster.resize(A, 2, chain=0)
    assert rig.provider.owned("r") == ()


def test_nodes_that_cannot_be_given_back_are_named():
    rig = Rig()
    rig.provider.deaf = 99
    with pytest.raises(LeakedNodes) as caught, rig.cluster as cluster:
        cluster.resize(A, 2, chain=0)
    assert caught.value.nodes == ("n0", "n1")
    assert str(caught.value) == (
        "2 node(s) could not be given back: n0, n1; look for them at provider 'fake' by the tag 'r' and end them there"
    )


def test_a_leak_from_an_earlier_stage_is_found_at_the_end():
    rig = Rig()
    rig.cluster.resize(A, 2, chain=0)
    rig.settle()
    rig.provider.deaf = 99
    rig.cluster.resize(A, 1, chain=0)
    with pytest.raises(LeakedNodes) as caught, rig.cluster:
        pass
    assert set(caught.value.nodes) == {"n0", "n1"}


def test_nodes_of_another_cluster_of_the_run_are_left_alone():
    rig = Rig()
    other = Cluster(rig.provider, rig.journal, run="r", names=iter(["m0"]), admit=lambda count, kind: None)
    other.resize(A, 1, chain=1)
    with rig.cluster as cluster:
        cluster.resize(A, 1, chain=0)
    assert rig.provider.owned("r") == ("m0",)


def test_the_chain_is_in_the_request():
    rig = Rig()
    rig.journal.write(StageStarted, chain=3, stage=0, trials=(), instance_type="a", nodes=1, slots_per_trial=1)
    rig.cluster.resize(A, 1, chain=3)
    assert rig.log.events[-1].chain == 3
