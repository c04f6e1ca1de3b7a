import itertools

from engine_world import problem

from rb_core.clock import ManualClock
from rb_core.cluster import Cluster
from rb_core.eventlog import MemoryLog
from rb_core.expectation import Batch
from rb_core.holdings import holdings
from rb_core.journal import Journal
from rb_core.learning import Learning
from rb_core.testing.fakes import FakeProvider

PROBLEM = problem()
CLOUD = PROBLEM.cloud


class Rig:
    def __init__(self):
        self.clock = ManualClock()
        self.inbox = self.clock.inbox()
        self.provider = FakeProvider(self.clock, self.inbox, launch_s=30.0, init_s=60.0)
        self.journal = Journal(MemoryLog(), self.clock)
        self.cluster = Cluster(
            self.provider,
            self.journal,
            self.clock,
            self.inbox,
            learning=Learning(PROBLEM.profile, CLOUD),
            run="r",
            names=(f"n{number}" for number in itertools.count()),
            admit=lambda count, kind: None,
        )

    def wait(self, seconds):
        until_s = self.clock.now() + seconds
        while (notice := self.inbox.get(until_s)) is not None:
            self.cluster.took(notice)

    def want(self, count):
        self.cluster.resize(CLOUD.instance_types[0], count, chain=0, stage=0)

    def holdings(self):
        return holdings(self.cluster, self.journal, CLOUD)


def test_times_count_from_now_and_nodes_that_start_are_expected_as_the_cloud_has_it():
    rig = Rig()
    launch_s, init_s = CLOUD.launch_s.mean, CLOUD.init_s.mean
    assert rig.holdings() == ()
    rig.want(2)
    rig.wait(10.0)
    left_s = max(0.0, launch_s - 10.0)
    assert rig.holdings() == (Batch(count=2, running_s=left_s, usable_s=left_s + init_s),)
    rig.wait(100.0)
    assert rig.holdings() == (Batch(count=2, running_s=-80.0, usable_s=-20.0),)


def test_usable_nodes_come_first():
    rig = Rig()
    rig.want(1)
    rig.wait(90.0)
    rig.want(3)
    rig.wait(40.0)
    running = Batch(count=2, running_s=-10.0, usable_s=max(0.0, CLOUD.init_s.mean - 10.0))
    assert rig.holdings() == (Batch(count=1, running_s=-100.0, usable_s=-40.0), running)
