"""The simulated provider keeps the contract of all providers, and does with its nodes what fate says."""

import math

import numpy as np
import pytest

from rb_core.clock import ManualClock
from rb_core.errors import LaunchFailure, NoAnswer
from rb_core.hardware import InstanceType
from rb_core.ports import NodeNews
from rb_core.sim.cloud import LATE_NEWS_S, SimCloud
from rb_core.sim.fates import NodeFate
from rb_core.sim.faults import Faults
from rb_core.sim.provider import SimProvider
from rb_core.testing import ProviderContract

KIND = InstanceType(name="a", slots=2, usd_per_hour=3.6)


class World:
    """One cloud and one provider of it, with nodes whose fates are set by the test."""

    def __init__(self, clock=None, *, answer_lost=0.0, fates=(), seed=0, **faults):
        self.clock = clock or ManualClock()
        self.inbox = self.clock.inbox()
        self.fates = dict(fates)
        rng = np.random.default_rng(seed)
        usual = NodeFate(launch_s=30.0, init_s=60.0)
        self.cloud = SimCloud(self.clock, Faults(**faults), lambda name: self.fates.get(name, usual), rng)
        self.provider = self.process(answer_lost)

    def process(self, answer_lost=0.0):
        return SimProvider(self.cloud, self.inbox, answer_lost=answer_lost, rng=np.random.default_rng(1))

    def told(self):
        notices = []
        while (notice := self.inbox.get()) is not None:
            notices.append((self.clock.now(), notice.node, notice.kind, notice))
        return notices

    def kinds(self):
        return [(node, kind) for _, node, kind, _ in self.told()]


class TestSimProvider(ProviderContract):
    def make(self, clock, inbox):
        world = World(clock)
        return SimProvider(world.cloud, inbox, answer_lost=0.0, rng=np.random.default_rng(1))


def test_latencies_are_those_of_the_fate():
    world = World(fates={"n0": NodeFate(launch_s=7.0, init_s=11.0)})
    world.provider.launch(["n0", "n1"], KIND, run="r")
    assert [(at, node, kind) for at, node, kind, _ in world.told()] == [
        (7.0, "n0", NodeNews.RUNNING),
        (18.0, "n0", NodeNews.READY),
        (30.0, "n1", NodeNews.RUNNING),
        (90.0, "n1", NodeNews.READY),
    ]


def test_one_that_is_not_granted_is_lost_before_it_runs():
    world = World(fates={"n0": NodeFate(launch_s=7.0, init_s=11.0, granted=False)})
    world.provider.launch(["n0"], KIND, run="r")
    assert world.kinds() == [("n0", NodeNews.LOST)]
    assert world.cloud.books["n0"].running_s is None
    assert world.provider.owned("r") == ()


def test_one_that_never_joins_stays_held():
    world = World(fates={"n0": NodeFate(launch_s=7.0, init_s=math.inf)})
    world.provider.launch(["n0"], KIND, run="r")
    assert world.kinds() == [("n0", NodeNews.RUNNING)]
    assert world.provider.owned("r") == ("n0",)
    with pytest.raises(KeyError):
        world.provider.slots("n0")


def test_a_loss_is_said_at_once_or_soon_with_how_long_ago_it_was():
    delays = set()
    for seed in range(20):
        world = World(fates={"n0": NodeFate(launch_s=7.0, init_s=11.0, life_s=100.0)}, seed=seed)
        died = []
        world.cloud.bury(lambda name, world=world, died=died: died.append((name, world.clock.now())))
        world.provider.launch(["n0"], KIND, run="r")
        at_s, _, kind, notice = world.told()[-1]
        assert kind is NodeNews.LOST
        assert died == [("n0", 107.0)]
        assert at_s - notice.ago_s == pytest.approx(107.0)
        assert world.cloud.books["n0"].released_s == 107.0
        delays.add(notice.ago_s)
    assert 0.0 in delays
    assert 0.0 < max(delays) < LATE_NEWS_S


def test_a_notice_comes_before_the_loss():
    world = World(fates={"n0": NodeFate(launch_s=7.0, init_s=11.0, life_s=100.0)}, loss_notice_s=120.0)
    world.provider.launch(["n0"], KIND, run="r")
    leaving = world.told()[2]
    assert leaving[0] == 107.0
    assert (leaving[3].kind, leaving[3].in_s) == (NodeNews.LEAVING, 120.0)
    assert world.cloud.books["n0"].failed_s == 227.0


def test_a_node_takes_others_with_it():
    alone, together = (
        World(fates={"n0": NodeFate(launch_s=30.0, init_s=60.0, life_s=100.0, company=company)})
        for company in (False, True)
    )
    for world, most in ((alone, 1), (together, 30)):
        names = [f"n{number}" for number in range(40)]
        world.provider.launch(names, KIND, run="r")
        lost = [node for node, kind in world.kinds() if kind is NodeNews.LOST]
        assert len(lost) == len(set(lost)) <= most
        assert len(world.provider.owned("r")) == 40 - len(lost)
    assert len(lost) > 10


def test_a_node_that_is_released_before_its_loss_is_noticed_is_simply_released():
    world = World(fates={"n0": NodeFate(launch_s=7.0, init_s=11.0, life_s=100.0)}, seed=3)
    world.provider.launch(["n0"], KIND, run="r")
    while world.cloud.books["n0"].failed_s is None:
        world.clock.advance(1000.0)
    if world.cloud.books["n0"].released_s is None:
        world.provider.release(["n0"])
        assert world.cloud.books["n0"].lost == ""
    assert world.cloud.books["n0"].released_s == world.clock.now()


def test_a_refused_call_grants_nothing_and_can_be_repeated():
    world, refused = World(launch_failure=1.0, seed=2), 0
    while not world.provider.owned("r"):
        try:
            world.provider.launch(["n0", "n1"], KIND, run="r")
        except LaunchFailure:
            refused += 1
            assert world.provider.owned("r") == ()
    assert refused > 0
    assert world.provider.owned("r") == ("n0", "n1")


def test_a_call_acts_though_its_answer_is_lost():
    world = World(answer_lost=1.0)
    for call in (
        lambda: world.provider.launch(["n0"], KIND, run="r"),
        lambda: world.provider.owned("r"),
        lambda: world.provider.adopt({"n0": KIND}, run="r"),
    ):
        with pytest.raises(NoAnswer):
            call()
    assert world.cloud.owned("r") == ("n0",)
    with pytest.raises(NoAnswer):
        world.provider.release(["n0"])
    assert world.cloud.owned("r") == ()


def test_another_process_hears_of_adopted_nodes_alone():
    world = World(fates={"gone": NodeFate(launch_s=7.0, init_s=11.0, life_s=20.0)})
    world.provider.launch(["gone", "kept", "other"], KIND, run="r")
    world.clock.advance(7.0)
    while world.clock.advance(50.0):
        pass
    world.inbox = world.clock.inbox()
    second = world.process()
    second.adopt({"gone": KIND, "kept": KIND, "unknown": KIND}, run="r")
    now_s = world.clock.now()
    notices = [(node, notice.kind, notice.ago_s) for at_s, node, _, notice in world.told() if at_s == now_s]
    assert ("gone", NodeNews.LOST, now_s - 27.0) in notices
    assert ("gone", NodeNews.RUNNING, now_s - 7.0) in notices
    assert ("kept", NodeNews.RUNNING, now_s - 30.0) in notices
    assert ("unknown", NodeNews.LOST, math.inf) in notices
    assert "other" not in {node for node, _, _ in notices}


def test_adopting_again_says_nothing_again():
    world = World()
    world.provider.launch(["n0"], KIND, run="r")
    world.told()
    world.provider.adopt({"n0": KIND}, run="r")
    assert world.kinds() == []
