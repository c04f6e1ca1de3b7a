import pytest
from engine_world import problem

from rb_core import events
from rb_core.budget import Budget
from rb_core.clock import ManualClock
from rb_core.errors import BudgetExceeded, LaunchFailure
from rb_core.eventlog import MemoryLog
from rb_core.hardware import Billing, BillingMode
from rb_core.journal import Journal

BY_FUNCTION = Billing(mode=BillingMode.PER_FUNCTION)


class Purse:
    """A budget over nodes of type a, 0.001 usd a second each."""

    def __init__(self, max_usd, nodes=0, running=True, **cloud):
        self.clock = ManualClock()
        self.cloud = problem(**cloud).cloud
        self.journal = Journal(MemoryLog(), self.clock)
        for number in range(nodes):
            name = f"n{number}"
            row = {"chain": 0, "stage": 0, "instance_type": "a", "slots": 2, "usd_per_hour": 3.6}
            self.journal.write(events.NodeRequested, node=name, **row)
            if running:
                self.journal.write(events.NodeRunning, node=name, since_s=0.0)
        self.budget = Budget(self.cloud, self.journal, max_usd)

    def admit(self, count):
        self.budget.admit(count, self.cloud.instance_type("a"))


def test_nodes_above_the_limit_are_refused_with_the_remedy():
    purse = Purse(None, nodes=3, max_nodes=4)
    purse.admit(1)
    with pytest.raises(LaunchFailure, match=r"2 more node\(s\) beside the 3 held would exceed max_nodes 4; raise"):
        purse.admit(2)


def test_what_is_due_and_the_least_charge_of_new_nodes_must_fit():
    purse = Purse(0.5, nodes=2)
    purse.clock.advance(199.0)
    purse.admit(1)
    with pytest.raises(BudgetExceeded, match=r"could bring the bill to 0\.5200 usd, above max_usd 0\.5000") as caught:
        purse.admit(2)
    assert (caught.value.max_usd, caught.value.needed_usd) == (0.5, pytest.approx(0.52))


def test_nodes_that_have_not_begun_to_run_count_with_their_least_charge():
    purse = Purse(0.2, nodes=2, running=False)
    purse.admit(1)
    with pytest.raises(BudgetExceeded):
        purse.admit(2)


def test_data_counts():
    with pytest.raises(BudgetExceeded):
        Purse(0.3, dataset_gib=0.25).admit(1)
    Purse(0.31, dataset_gib=0.25).admit(1)


def test_by_function_new_nodes_cost_nothing_yet():
    Purse(0.001, billing=BY_FUNCTION).admit(8)


def test_it_is_looked_at_again_before_the_limit_can_be_reached():
    purse = Purse(0.5, nodes=2)
    again_s = purse.budget.check()
    assert 0 < again_s <= 249.0
    while again_s < 249.0:
        purse.clock.advance(again_s)
        again_s = purse.budget.check()
    purse.clock.advance(250.0)
    with pytest.raises(BudgetExceeded, match=r"holding 2 node\(s\) any longer"):
        purse.budget.check()


def test_nothing_is_watched_without_a_limit_or_without_nodes():
    assert Purse(None, nodes=2).budget.check() is None
    assert Purse(0.5).budget.check() is None


def test_a_zone_that_is_dearer_than_was_asked_for_is_looked_ahead_with():
    purse = Purse(1.0, nodes=1, running=False)
    purse.journal.write(events.NodeRunning, node="n0", since_s=0.0, zone="z", usd_per_hour=7.2)
    purse.clock.advance(100.0)
    assert purse.budget.check() == pytest.approx(499.0, abs=1.0)


def test_what_a_reclaimed_node_no_longer_costs_can_be_spent_again():
    purse = Purse(0.5)
    row = {"node": "n0", "chain": 0, "stage": 0, "instance_type": "a", "slots": 2, "usd_per_hour": 3.6}
    purse.journal.write(events.NodeRequested, **row, market="spot")
    purse.journal.write(events.NodeRunning, node="n0", since_s=0.0)
    purse.clock.advance(400.0)
    with pytest.raises(BudgetExceeded):
        purse.admit(2)
    purse.journal.write(events.NodeLost, node="n0", reason="spot", until_s=400.0, reclaimed=True)
    purse.admit(2)
