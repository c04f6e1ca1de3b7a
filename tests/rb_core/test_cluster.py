import itertools

import pytest
from engine_world import Life, problem

from rb_core.clock import ManualClock
from rb_core.cluster import Cluster
from rb_core.errors import LaunchFailure, LeakedNodes, UnusableLog
from rb_core.eventlog import MemoryLog
from rb_core.events import NodeLeaving, NodeLost, NodeReady, NodeReleased, NodeRequested, NodeRunning, StageStarted
from rb_core.journal import Journal
from rb_core.learning import Learning
from rb_core.ports import NodeNews, NodeNotice
from rb_core.testing.fakes import FakeProvider

PROBLEM = problem()
A, B = PROBLEM.cloud.instance_types


class FullLog(MemoryLog):
    """A log whose disk is full once `full` is set."""

    full = False

    def append(self, *events):
        if self.full:
            raise UnusableLog("no space left")
        super().append(*events)


class Told(Learning):
    """Remembers what it is told of nodes."""

    def __init__(self):
        super().__init__(PROBLEM.profile, PROBLEM.cloud)
        self.told = []

    def node_running(self, seconds):
        self.told.append(("running", seconds))

    def node_ready(self, seconds):
        self.told.append(("ready", seconds))


class Rig:
    def __init__(self, **latencies):
        self.clock = ManualClock()
        self.life = Life(self.clock)
        self.inbox = self.clock.inbox()
        self.provider = FakeProvider(self.clock, self.inbox, **latencies)
        self.log = FullLog()
        self.journal = Journal(self.log, self.clock)
        self.asked = []
        self.learning = Told()
        self.cluster = self.another()

    def another(self, names=None):
        return Cluster(
            self.provider,
            self.journal,
            self.life,
            self.inbox,
            learning=self.learning,
            run="r",
            names=names or (f"n{number}" for number in itertools.count()),
            admit=lambda count, kind: self.asked.append((count, kind.name)),
        )

    def settle(self, until_s=None):
        """Take everything that is said until then, or until all is quiet."""
        while (notice := self.inbox.get(until_s)) is not None:
            if isinstance(notice, NodeNotice):
                self.cluster.took(notice)

    def wait(self, seconds):
        self.settle(self.clock.now() + seconds)

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
    rig.cluster.resize(A, 2, chain=0, stage=0)
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
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    rig.cluster.release_all("enough")
    assert seen == [(["n0"], NodeReleased)]
    rig.log.full = True
    with pytest.raises(UnusableLog):
        rig.cluster.resize(A, 3, chain=0, stage=0)
    assert list(rig.provider.books) == ["n0"]


def test_the_newest_usable_nodes_go_first():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    rig.cluster.resize(A, 3, chain=0, stage=0)
    rig.settle()
    rig.cluster.resize(A, 2, chain=0, stage=0)
    assert rig.usable == ["n0", "n1"]
    assert rig.provider.owned("r") == ("n0", "n1")


def test_starting_nodes_are_kept_after_the_usable_ones_in_the_order_of_their_requests():
    rig = Rig(launch_s=30.0)
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle(30.0)
    rig.cluster.resize(A, 4, chain=0, stage=0)
    rig.cluster.resize(A, 3, chain=0, stage=0)
    assert (rig.usable, rig.requested) == (["n0"], ["n1", "n2"])
    rig.settle()
    assert rig.provider.books["n3"].running_s is None


def test_usable_means_in_the_order_of_becoming_so_not_of_the_requests():
    rig = Rig(launch_s=30.0)
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.provider.launch_s = 10.0
    rig.cluster.resize(A, 3, chain=0, stage=0)
    rig.settle()
    assert rig.usable == ["n1", "n2", "n0"]
    rig.cluster.resize(A, 2, chain=0, stage=0)
    assert rig.usable == ["n1", "n2"]


def test_nodes_of_another_type_are_released_before_any_are_requested():
    rig = Rig()
    rig.cluster.resize(A, 3, chain=0, stage=0)
    rig.settle()
    rig.cluster.resize(B, 3, chain=0, stage=0)
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
        rig.cluster.resize(A, 1, chain=0, stage=0)
    assert rig.kinds() == []
    assert not rig.provider.books


def test_notices_of_strangers_and_repeated_ones_change_nothing():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    before = len(rig.log.events)
    for kind in NodeNews:
        assert rig.cluster.took(NodeNotice(node="stranger", kind=kind)) is None
    assert rig.cluster.took(NodeNotice(node="n0", kind=NodeNews.READY)) is None
    assert rig.cluster.took(NodeNotice(node="n0", kind=NodeNews.RUNNING)) is None
    assert len(rig.log.events) == before


def test_a_node_that_is_ready_at_once_is_billed_all_the_same():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.inbox.get()
    rig.provider.books["n0"].ready_s = 0.0
    assert rig.cluster.took(NodeNotice(node="n0", kind=NodeNews.READY)).name == "n0"
    assert rig.kinds() == [NodeRequested, NodeRunning, NodeReady]


def test_a_lost_node_is_held_no_more_and_can_be_replaced():
    rig = Rig()
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.settle()
    rig.provider.lose("n0")
    lost = rig.cluster.took(rig.inbox.get())
    assert lost.name == "n0"
    assert rig.kinds()[-1] is NodeLost
    assert "n0" not in rig.cluster
    rig.cluster.refill()
    rig.settle()
    assert rig.usable == ["n1", "n2"]
    assert rig.cluster.failures == 0


def test_what_was_measured_of_the_start_is_learnt():
    rig = Rig(launch_s=31.0, init_s=62.0)
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    assert rig.learning.told == [("running", 31.0), ("ready", 62.0)]


# Nodes that cannot be had


def test_a_refused_request_is_made_again_after_pauses_that_double_up_to_a_minute():
    rig = Rig()
    rig.provider.refuse, rig.provider.refusals = "no capacity", 7
    rig.cluster.resize(A, 2, chain=0, stage=0)
    assert rig.cluster.failures == 1
    rig.settle()
    tried = sorted({node.requested_s for node in rig.journal.state.nodes.values()})
    assert tried == [0.0, 5.0, 15.0, 35.0, 75.0, 135.0, 195.0, 255.0]
    assert rig.usable == ["n14", "n15"]
    assert rig.cluster.failures == 0
    assert list(rig.provider.books) == ["n14", "n15"]
    lost = [event for event in rig.log.events if type(event) is NodeLost]
    assert [(event.reason, event.t_s - event.until_s) for event in lost] == [("no capacity", 0.0)] * 14
    assert rig.journal.state.warnings == [
        "2 node(s) of type a could not be had (no capacity); the stage goes on with what it has, and they are asked "
        "for again"
    ]


def test_a_request_that_is_refused_for_ever_ends_with_the_remedy_while_no_node_is_held():
    rig = Rig()
    rig.provider.refuse, rig.provider.refusals = "no capacity", 99
    rig.cluster.resize(A, 1, chain=0, stage=0)
    with pytest.raises(LaunchFailure, match=r"no node of type a could be had in 20 attempts, .*; try another type"):
        rig.settle()
    assert rig.provider.refusals == 79


def test_while_a_node_is_held_more_are_asked_for_without_end():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    rig.provider.refuse, rig.provider.refusals = "no capacity", 30
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.settle()
    assert rig.usable == ["n0", "n31"]


def test_nodes_that_are_no_longer_wanted_are_not_asked_for_again():
    rig = Rig()
    rig.provider.refuse = "no capacity"
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.cluster.want(1)
    rig.settle()
    assert rig.usable == ["n2"]
    rig.provider.refuse, rig.provider.refusals = "no capacity", 1
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.cluster.want(1)
    rig.settle()
    assert rig.usable == ["n2"]
    assert len(rig.provider.books) == 1


def test_a_new_type_is_asked_for_at_once():
    rig = Rig()
    rig.provider.refuse = "no capacity"
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.cluster.resize(B, 1, chain=0, stage=1)
    rig.settle(0.0)
    assert rig.usable == ["n1"]
    rig.settle()
    assert rig.usable == ["n1"]


def test_a_request_that_is_lost_before_it_ran_is_made_again_after_a_pause():
    rig = Rig(launch_s=30.0)
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.clock.call_at(20.0, lambda: rig.provider.lose("n0"))
    lost = rig.cluster.took(rig.inbox.get())
    assert (lost.name, lost.running, rig.cluster.failures) == ("n0", False, 1)
    rig.cluster.refill()
    rig.settle()
    assert rig.usable == ["n1"]
    assert rig.journal.state.nodes["n1"].requested_s == 25.0


def test_a_node_that_is_lost_before_it_is_usable_is_replaced_after_a_pause_though_it_ran():
    rig = Rig(launch_s=30.0, init_s=60.0)
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.clock.call_at(40.0, lambda: rig.provider.lose("n0"))
    rig.cluster.took(rig.inbox.get())
    lost = rig.cluster.took(rig.inbox.get())
    assert (lost.name, lost.running, rig.cluster.failures) == ("n0", True, 1)
    rig.cluster.refill()
    rig.settle()
    assert rig.usable == ["n1"]
    assert rig.journal.state.nodes["n1"].requested_s == 45.0


def test_nodes_of_one_request_that_are_lost_before_they_ran_count_as_one_failure():
    rig = Rig(launch_s=30.0)
    rig.cluster.resize(A, 3, chain=0, stage=0)
    for name in ("n0", "n1"):
        rig.clock.call_at(20.0, lambda name=name: rig.provider.lose(name))
    rig.settle(20.0)
    assert rig.cluster.failures == 1
    rig.cluster.refill()
    rig.settle()
    # So the pause is the first one, and not twice as long.
    assert {rig.journal.state.nodes[name].requested_s for name in ("n3", "n4")} == {25.0}


def test_a_node_that_does_not_become_usable_is_given_back_and_replaced_the_next_with_more_patience():
    rig = Rig(launch_s=30.0, init_s=9999.0)
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle(2000.0)
    nodes = list(rig.journal.state.nodes.values())
    assert [(node.requested_s, node.released_s) for node in nodes] == [(0.0, 510.0), (515.0, 1535.0), (1545.0, None)]
    assert rig.provider.owned("r") == ("n2",)
    assert rig.journal.state.warnings[0] == "node n0 was not usable after 510 s; it is given back and replaced"
    rig.provider.init_s = 0.0
    rig.cluster.resize(B, 1, chain=0, stage=1)
    rig.settle()
    assert rig.usable == ["n3"]


def test_many_that_do_not_become_usable_are_one_failure_and_their_replacements_get_twice_the_time():
    rig = Rig(launch_s=30.0, init_s=600.0)
    rig.cluster.resize(A, 4, chain=0, stage=0)
    rig.settle(512.0)
    assert rig.cluster.failures == 1
    rig.settle(1200.0)
    assert len(rig.usable) == 4
    requested = {node.requested_s for node in rig.journal.state.nodes.values()}
    assert requested == {0.0, 515.0}


def test_a_node_that_is_usable_just_in_time_is_kept():
    rig = Rig(launch_s=30.0, init_s=479.0)
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle(510.0)
    rig.settle()
    assert rig.usable == ["n0"]


def test_no_more_nodes_are_requested_than_the_limit_has_room_for():
    rig = Rig()
    rig.cluster.resize(A, PROBLEM.cloud.max_nodes + 1, chain=0, stage=0)
    assert len(rig.requested) == PROBLEM.cloud.max_nodes


# Nodes that are about to be taken away


def test_a_leaving_node_is_not_counted_on_and_goes_when_its_trials_have():
    rig = Rig()
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.settle()
    rig.provider.warn("n0", 120.0)
    node = rig.cluster.took(rig.inbox.get())
    assert (node.name, node.leaving) == ("n0", True)
    assert (rig.usable, rig.cluster.staying) == (["n1"], 1)
    assert type(rig.log.events[-1]) is NodeLeaving
    rig.provider.warn("n0", 60.0)
    assert rig.cluster.took(rig.inbox.get()) is None
    rig.cluster.refill()
    rig.settle()
    assert rig.usable == ["n1", "n2"]
    rig.cluster.let_go(["n0", "n1", "stranger"])
    assert rig.provider.owned("r") == ("n1", "n2")


def test_a_leaving_node_is_replaced_before_it_is_gone_only_where_the_limit_has_room():
    rig = Rig()
    most = PROBLEM.cloud.max_nodes
    rig.cluster.resize(A, most, chain=0, stage=0)
    rig.settle()
    rig.provider.warn("n0", 120.0)
    rig.settle()
    rig.cluster.refill()
    assert rig.requested == []
    rig.cluster.let_go(["n0"])
    rig.cluster.refill()
    assert rig.requested == [f"n{most}"]
    assert rig.provider.most_held == most


def test_a_leaving_node_is_not_kept_for_the_next_stage():
    rig = Rig()
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.settle()
    rig.provider.warn("n0", 120.0)
    rig.settle()
    rig.cluster.resize(A, 2, chain=0, stage=1)
    rig.settle()
    assert rig.usable == ["n1", "n2"]
    assert rig.provider.owned("r") == ("n1", "n2")


# Answers that are lost


@pytest.mark.parametrize("lost", ["unheard", "unanswered"])
def test_a_launch_without_an_answer_is_made_again_under_the_same_names(lost):
    rig = Rig(launch_s=30.0)
    getattr(rig.provider, lost)["launch"] = 3
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.settle()
    assert rig.usable == ["n0", "n1"]
    since_s = 0.0 if lost == "unanswered" else 1.0 + 2.0 + 4.0
    assert [node.requested_s for node in rig.provider.books.values()] == [since_s, since_s]
    assert rig.cluster.failures == 0


def test_what_an_unanswered_launch_may_have_requested_is_given_back_when_it_is_refused_after_all():
    rig = Rig(launch_s=30.0)
    rig.provider.unanswered["launch"] = 1
    launch = rig.provider.launch

    def refuse_once(names, instance_type, *, run):
        rig.provider.launch = launch
        raise LaunchFailure("no capacity")

    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.provider.launch = refuse_once
    rig.settle()
    assert rig.usable == ["n1"]
    assert rig.provider.owned("r") == ("n1",)


def test_what_was_given_back_meanwhile_is_not_launched_again():
    rig = Rig()
    rig.provider.unheard["launch"] = 1
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    assert list(rig.provider.books) == ["n0"]


def test_a_launch_that_is_never_answered_is_given_up_like_a_node_that_is_never_usable():
    rig = Rig()
    rig.provider.unheard["launch"] = 7
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    assert rig.usable == ["n1"]
    assert rig.journal.state.nodes["n0"].released_s == 510.0


def test_a_node_whose_slots_are_not_told_is_asked_again():
    rig = Rig()
    rig.provider.unheard["slots"] = 2
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    assert rig.usable == ["n0"]
    assert rig.journal.state.nodes["n0"].ready_s == 2.0
    assert rig.learning.told == [("running", 0.0), ("ready", 2.0)]


@pytest.mark.parametrize("lost", ["unheard", "unanswered"])
def test_a_release_without_an_answer_is_repeated(lost):
    rig = Rig()
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.settle()
    getattr(rig.provider, lost)["release"] = 2
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    assert rig.provider.owned("r") == ("n0",)
    assert rig.provider.books["n1"].released_s == (0.0 if lost == "unanswered" else 3.0)
    assert rig.kinds().count(NodeReleased) == 1


@pytest.mark.parametrize("call", ["release", "owned"])
@pytest.mark.parametrize("lost", ["unheard", "unanswered"])
def test_leaving_gives_back_without_an_answer(lost, call):
    rig = Rig()
    with rig.cluster as cluster:
        cluster.resize(A, 2, chain=0, stage=0)
        getattr(rig.provider, lost)[call] = 3
    assert rig.provider.owned("r") == ()


def test_leaving_names_what_nobody_knows_to_be_given_back():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.provider.unheard["owned"] = 99
    with pytest.raises(LeakedNodes, match="n0"), rig.cluster:
        pass


# Nodes of an earlier process


def adopting(*, resumed_s, launch_s=30.0, init_s=60.0, act=lambda provider: None):
    """A rig whose nodes n0, n1 were requested by an earlier process at 0, and adopted by another one later."""
    rig = Rig(launch_s=launch_s, init_s=init_s)
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.clock.call_at(50.0, lambda: act(rig.provider))
    rig.clock.inbox().get(resumed_s)
    rig.life.over = True
    rig.life = Life(rig.clock)
    rig.inbox = rig.provider.inbox = rig.clock.inbox()
    rig.cluster = rig.another(f"n{number}" for number in range(2, 9))
    rig.cluster.hold(rig.journal.state.nodes.values())
    return rig


def test_adopted_nodes_stand_where_they_do():
    rig = adopting(resumed_s=40.0)
    rig.cluster.adopt(rig.wait)
    assert (rig.usable, rig.requested) == ([], ["n0", "n1"])
    rig.settle(40.0)
    assert [node.running_s for node in rig.journal.state.nodes.values()] == [30.0, 30.0]
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.settle()
    assert rig.usable == ["n0", "n1"]
    assert rig.journal.state.nodes["n0"].ready_s == 90.0
    assert rig.asked == [(2, "a")]


def test_adopted_nodes_that_are_ready_can_be_used_at_once():
    rig = adopting(resumed_s=500.0)
    rig.cluster.adopt(rig.wait)
    rig.settle(500.0)
    assert rig.usable == ["n0", "n1"]
    assert rig.journal.state.nodes["n0"].running_s == 30.0


def test_an_adopted_node_that_was_lost_is_billed_until_then():
    rig = adopting(resumed_s=500.0, act=lambda provider: provider.lose("n0"))
    rig.cluster.adopt(rig.wait)
    rig.settle(500.0)
    assert rig.usable == ["n1"]
    assert rig.journal.state.nodes["n0"].released_s == 50.0


def test_an_adopted_node_that_nobody_requested_was_never_billed():
    rig = adopting(resumed_s=500.0)
    rig.journal.write(NodeRequested, node="n2", chain=0, stage=0, instance_type="a", slots=2, usd_per_hour=1.0)
    rig.cluster.hold([rig.journal.state.nodes["n2"]])
    rig.cluster.adopt(rig.wait)
    rig.settle(500.0)
    assert rig.usable == ["n0", "n1"]
    node = rig.journal.state.nodes["n2"]
    assert (node.lost, node.running_s, node.released_s) == ("never requested", None, 500.0)


def test_adopting_without_an_answer_is_repeated():
    rig = adopting(resumed_s=500.0)
    rig.provider.unheard["adopt"] = 2
    rig.cluster.adopt(rig.wait)
    rig.settle(503.0)
    assert rig.usable == ["n0", "n1"]
    assert rig.clock.now() == 503.0


@pytest.mark.parametrize("adopted", [True, False])
def test_what_an_earlier_process_held_is_given_back_at_the_end(adopted):
    rig = adopting(resumed_s=40.0)
    with rig.cluster as cluster:
        if adopted:
            cluster.adopt(rig.wait)
    assert rig.provider.owned("r") == ()
    assert not rig.journal.state.held


def test_what_an_earlier_process_had_failed_to_give_back_is_given_back_at_the_end():
    rig = adopting(resumed_s=40.0)
    rig.provider.launch(["n7"], A, run="r")
    rig.cluster.hold([], ["n7"])
    with rig.cluster:
        pass
    assert rig.provider.owned("r") == ()


# Whatever happens, everything is given back


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, None])
def test_leaving_gives_everything_back_whatever_happened(error):
    rig = Rig(launch_s=30.0)

    def work():
        with rig.cluster as cluster:
            cluster.resize(A, 2, chain=0, stage=0)
            rig.settle(30.0)
            cluster.resize(A, 4, chain=0, stage=0)
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


def test_nothing_is_asked_for_again_after_leaving():
    rig = Rig()
    rig.provider.refuse = "no capacity"
    with rig.cluster as cluster:
        cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    assert rig.clock.now() > 0.0
    assert not rig.provider.books


def test_leaving_gives_back_even_when_the_log_cannot_be_written():
    rig = Rig()
    with rig.cluster as cluster:
        cluster.resize(A, 2, chain=0, stage=0)
        rig.log.full = True
    assert rig.provider.owned("r") == ()
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
        cluster.resize(A, 2, chain=0, stage=0)
    assert rig.provider.owned("r") == ()
    assert len(calls) == 2


def test_a_release_that_goes_unheard_is_repeated():
    rig = Rig()
    rig.provider.deaf = 1
    with rig.cluster as cluster:
        cluster.resize(A, 2, chain=0, stage=0)
    assert rig.provider.owned("r") == ()


def test_nodes_that_cannot_be_given_back_are_named():
    rig = Rig()
    rig.provider.deaf = 99
    with pytest.raises(LeakedNodes) as caught, rig.cluster as cluster:
        cluster.resize(A, 2, chain=0, stage=0)
    assert caught.value.nodes == ("n0", "n1")
    assert str(caught.value) == (
        "2 node(s) could not be given back: n0, n1; look for them at provider 'fake' by the tag 'r' and end them there"
    )


def test_a_provider_is_given_three_minutes_to_see_its_nodes_go_and_what_it_said_is_passed_on():
    rig = Rig()
    rig.provider.deaf = 26
    with rig.cluster as cluster:
        cluster.resize(A, 2, chain=0, stage=0)
    assert rig.provider.owned("r") == ()
    assert 170.0 < rig.clock.now() < 200.0
    rig = Rig()
    rig.provider.unheard["release"] = 99
    with pytest.raises(LeakedNodes, match="It said last: release: no connection"), rig.cluster as cluster:
        cluster.resize(A, 2, chain=0, stage=0)


def test_a_leak_from_an_earlier_stage_is_found_at_the_end():
    rig = Rig()
    rig.cluster.resize(A, 2, chain=0, stage=0)
    rig.settle()
    rig.provider.deaf = 99
    rig.cluster.resize(A, 1, chain=0, stage=0)
    with pytest.raises(LeakedNodes) as caught, rig.cluster:
        pass
    assert set(caught.value.nodes) == {"n0", "n1"}


def test_nodes_of_another_cluster_of_the_run_are_left_alone():
    rig = Rig()
    other = rig.another(iter(["m0"]))
    other.resize(A, 1, chain=1, stage=0)
    with rig.cluster as cluster:
        cluster.resize(A, 1, chain=0, stage=0)
    assert rig.provider.owned("r") == ("m0",)


def test_the_chain_is_in_the_request():
    rig = Rig()
    rig.journal.write(StageStarted, chain=3, stage=0, trials=(), instance_type="a", nodes=1, slots_per_trial=1)
    rig.cluster.resize(A, 1, chain=3, stage=0)
    assert rig.log.events[-1].chain == 3


def test_an_adopted_node_of_which_nobody_knows_when_it_ended_is_billed_until_its_process_was_last_heard_of():
    rig = Rig()
    rig.cluster.resize(A, 1, chain=0, stage=0)
    rig.settle()
    rig.journal.state.heard_s = 70.0
    rig.clock.advance(100.0)
    lost = NodeNotice(node="n0", kind=NodeNews.LOST, reason="with its process", ago_s=float("inf"))
    assert rig.cluster.took(lost).name == "n0"
    assert rig.log.events[-1].until_s == 70.0
