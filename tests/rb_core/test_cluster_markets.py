"""A cluster whose nodes are planned on spot: in which market it asks, and what becomes of the nodes it has."""

import dataclasses
import itertools

import pytest
from engine_world import problem

from rb_core.clock import ManualClock
from rb_core.cluster import Cluster
from rb_core.errors import LaunchFailure
from rb_core.eventlog import MemoryLog
from rb_core.events import NodeLeaving
from rb_core.hardware import Market
from rb_core.journal import Journal
from rb_core.learning import Learning
from rb_core.ports import NodeNotice
from rb_core.testing.fakes import FakeProvider

PROBLEM = problem()
SPOT = dataclasses.replace(
    PROBLEM.cloud.instance_types[0], usd_per_hour=1.2, market=Market.SPOT, interruptions_per_hour=0.5,
    on_demand_usd_per_hour=3.6,
)  # fmt: skip
CLOUD = dataclasses.replace(PROBLEM.cloud, instance_types=(SPOT,), max_nodes=4)


class Rig:
    def __init__(self):
        self.clock = ManualClock()
        self.inbox = self.clock.inbox()
        self.provider = FakeProvider(self.clock, self.inbox, launch_s=30.0, init_s=60.0)
        self.journal = Journal(MemoryLog(), self.clock)
        self.asked = []
        self.names = (f"n{number}" for number in itertools.count())
        self.cluster = self.another()

    def another(self):
        return Cluster(
            self.provider,
            self.journal,
            self.clock,
            self.inbox,
            learning=Learning(PROBLEM.profile, CLOUD),
            run="r",
            names=self.names,
            admit=lambda count, kind: self.asked.append((count, kind.market, kind.usd_per_hour)),
        )

    def settle(self, until_s=None):
        while (notice := self.inbox.get(until_s)) is not None:
            if isinstance(notice, NodeNotice):
                self.cluster.took(notice)

    @property
    def markets(self):
        """Of all nodes that were ever requested, as the log has them."""
        return {name: (node.market, node.usd_per_hour) for name, node in self.journal.state.nodes.items()}

    @property
    def parting(self):
        return [node.name for node in self.cluster.usable if node.parting]


@pytest.fixture
def rig():
    rig = Rig()
    rig.cluster.resize(SPOT, 2, chain=0, stage=0)
    rig.settle(100.0)
    return rig


def test_nodes_are_asked_for_at_the_price_of_their_market(rig):
    rig.cluster.buy(Market.ON_DEMAND)
    assert rig.asked == [(2, Market.SPOT, 1.2), (2, Market.ON_DEMAND, 3.6)]
    assert list(rig.markets.values()) == [("spot", 1.2)] * 2 + [("on_demand", 3.6)] * 2
    assert rig.cluster.instance_type is SPOT


def test_nodes_on_spot_are_used_until_others_take_their_place(rig):
    rig.cluster.buy(Market.ON_DEMAND)
    assert (rig.parting, rig.cluster.staying, rig.cluster.serving) == (["n0", "n1"], 2, 4)
    rig.settle(200.0)
    assert [node.name for node in rig.cluster.usable] == ["n0", "n1", "n2", "n3"]
    rig.cluster.part(["n0"], 20.0)
    assert [node.name for node in rig.cluster.usable] == ["n1", "n2", "n3"]
    assert rig.journal.state.nodes["n0"].leaving
    assert isinstance(rig.journal.state.nodes["n0"], type(rig.journal.state.nodes["n1"]))
    rig.cluster.let_go(["n0", "n1"])
    assert rig.provider.owned("r") == ("n1", "n2", "n3")
    assert [event.reason for event in rig.journal._log.events if isinstance(event, NodeLeaving)] == [
        "exchanged for one on demand"
    ]


def test_at_a_barrier_what_is_to_be_exchanged_is_kept_only_until_others_are_usable(rig):
    rig.cluster.buy(Market.ON_DEMAND)
    rig.cluster.resize(SPOT, 2, chain=0, stage=1)
    assert rig.provider.owned("r") == ("n0", "n1", "n2", "n3")
    rig.settle(200.0)
    rig.cluster.resize(SPOT, 2, chain=0, stage=2)
    assert rig.provider.owned("r") == ("n2", "n3")


def test_going_back_to_spot_keeps_what_there_is(rig):
    rig.cluster.buy(Market.ON_DEMAND)
    rig.settle(200.0)
    rig.cluster.buy(Market.SPOT)
    assert rig.parting == []
    rig.cluster.resize(SPOT, 4, chain=0, stage=1)
    assert rig.provider.owned("r") == ("n0", "n1", "n2", "n3")
    assert len(rig.asked) == 2


def test_without_room_beside_them_it_says_so(rig):
    rig.cluster.resize(SPOT, 4, chain=0, stage=1)
    rig.settle(200.0)
    assert not rig.cluster.crowded or not rig.parting
    rig.cluster.buy(Market.ON_DEMAND)
    assert rig.cluster.crowded
    assert len(rig.asked) == 2
    rig.cluster.part(["n0"], 20.0)
    assert not rig.cluster.crowded
    rig.cluster.let_go(["n0"])
    rig.cluster.refill()
    assert rig.asked[-1] == (1, Market.ON_DEMAND, 3.6)


def test_a_pause_after_refusals_ends_when_the_market_changes(rig):
    refusing = True

    def launch(names, instance_type, *, run):
        if refusing and instance_type.market is Market.SPOT:
            raise LaunchFailure("no capacity on spot")
        original(names, instance_type, run=run)

    original = rig.provider.launch
    rig.provider.launch = launch
    rig.cluster.resize(SPOT, 3, chain=0, stage=1)
    assert rig.cluster.failures == 1
    assert len(rig.cluster.requested) == 0
    rig.cluster.buy(Market.ON_DEMAND)
    assert rig.cluster.failures == 0
    # Three are wanted, and beside the two that are to be exchanged there is room for two.
    assert [node.instance_type.market for node in rig.cluster.requested] == [Market.ON_DEMAND] * 2


def test_what_another_process_had_bought_is_what_it_was(rig):
    rig.cluster.buy(Market.ON_DEMAND)
    rig.settle(200.0)
    state = rig.journal.state
    again = rig.another()
    again.hold(state.nodes.values(), list(state.nodes))
    assert again.market is Market.ON_DEMAND
    held = {node.name: (node.instance_type.market, node.parting) for node in again.requested}
    assert held == {
        "n0": (Market.SPOT, True),
        "n1": (Market.SPOT, True),
        "n2": (Market.ON_DEMAND, False),
        "n3": (Market.ON_DEMAND, False),
    }
    first = rig.another()
    first.hold([state.nodes["n0"]], ["n0", "n1"])
    assert first.market is Market.SPOT
