"""Spot in the simulated cloud: who is taken back, when and with what word, and how it agrees with the model."""

import dataclasses
import math

import numpy as np
import pytest
from engine_world import problem

from rb_core.clock import ManualClock
from rb_core.errors import LaunchFailure
from rb_core.expectation import ExpectedModel
from rb_core.hardware import InstanceType, Market, MarketPolicy
from rb_core.plan import AllocationPlan, StageAllocation
from rb_core.ports import NodeNews
from rb_core.sim.cloud import SimCloud
from rb_core.sim.fates import Fates, NodeFate
from rb_core.sim.faults import Faults, Spot
from rb_core.sim.rehearsal import rehearse
from rb_core.simulate import simulate

SPOT = InstanceType(
    name="a", slots=2, usd_per_hour=1.2, market=Market.SPOT, interruptions_per_hour=2.0, on_demand_usd_per_hour=3.6
)


class Told:
    """A cloud whose nodes are taken back after that share of the mean time, and what it says."""

    def __init__(self, *, announced=True, reclaimed_at=0.5, **spot):
        self.clock = ManualClock()
        fate = NodeFate(launch_s=30.0, init_s=60.0, reclaimed_at=reclaimed_at, announced=announced)
        rng = np.random.default_rng
        self.cloud = SimCloud(self.clock, Faults(spot=Spot(**spot)), lambda name: fate, rng(0), rng(1))
        self.news = []
        self.cloud.tell(lambda notice: self.news.append((self.clock.now(), notice)))

    def run(self):
        while self.clock.advance(math.inf):
            pass
        return [(at_s, notice.kind) for at_s, notice in self.news]


def test_a_node_on_spot_is_taken_back_after_a_notice():
    told = Told()
    told.cloud.launch(["n"], SPOT, run="r")
    # Half the mean of 1,800 s after it ran.
    news = told.run()
    assert news[:3] == [(30.0, NodeNews.RUNNING), (90.0, NodeNews.READY), (930.0, NodeNews.LEAVING)]
    at_s, lost = told.news[3]
    assert (lost.kind, lost.reclaimed, lost.reason) == (NodeNews.LOST, True, "taken back on spot")
    assert at_s - lost.ago_s == pytest.approx(1050.0)
    assert told.news[2][1].in_s == 120.0
    assert told.cloud.news("n")[-1].reclaimed


def test_the_notice_is_a_best_effort():
    told = Told(announced=False)
    told.cloud.launch(["n"], SPOT, run="r")
    at_s, kind = told.run()[-1]
    assert kind is NodeNews.LOST
    assert at_s - told.news[-1][1].ago_s == pytest.approx(930.0)


def test_nodes_on_demand_are_kept_and_so_is_what_is_given_back_in_time():
    told = Told()
    told.cloud.launch(["n"], SPOT.on_demand(), run="r")
    told.cloud.launch(["m"], SPOT, run="r")
    told.clock.call_at(1000.0, lambda: told.cloud.release(["m"]))
    assert [notice.node for _, notice in told.news if notice.kind is NodeNews.LOST] == []
    told.run()
    assert told.cloud.owned("r") == ("n",)
    assert not told.cloud.books["m"].reclaimed
    assert told.cloud.books["m"].released_s == 1000.0


def test_in_a_drought_there_is_no_node_on_spot():
    told = Told(droughts_per_hour=3600.0, drought_s=1e9)
    told.cloud.launch(["early"], SPOT, run="r")
    while told.clock.advance(100.0):
        pass
    with pytest.raises(LaunchFailure, match="no capacity on spot for 1 node"):
        told.cloud.launch(["late"], SPOT, run="r")
    told.cloud.launch(["dear"], SPOT.on_demand(), run="r")
    assert told.cloud.owned("r") == ("early", "dear")


def test_times_on_spot_are_exponential_and_change_no_other_fate():
    asked = spot_problem(1.0)
    plain, spot = Fates(problem(), Faults(), 3), Fates(asked, Faults(spot=Spot(unannounced=0.25)), 3)
    nodes = [spot.node(0, 0) for _ in range(4000)]
    lives = np.array([node.reclaimed_at for node in nodes])
    assert float(lives.mean()) == pytest.approx(1.0, abs=0.06)
    assert float(lives.std()) == pytest.approx(1.0, abs=0.08)
    assert np.mean([not node.announced for node in nodes]) == pytest.approx(0.25, abs=0.03)
    assert [plain.node(0, 0).launch_s for _ in range(3)] == [node.launch_s for node in nodes[:3]]


def spot_problem(rate):
    asked = problem([[(4, 100), (2, 200), (1, 400)]], widths={1: 30.0, 2: 18.0, 4: 12.0})
    kind = dataclasses.replace(SPOT, interruptions_per_hour=rate)
    cloud = dataclasses.replace(asked.cloud, instance_types=(kind,), market=MarketPolicy.SPOT)
    return dataclasses.replace(asked, cloud=cloud)


@pytest.mark.parametrize(("rate", "stages"), [(0.5, ((2, 2), (1, 1), (1, 2))), (1.0, ((2, 1), (2, 2), (2, 4)))])
def test_rehearsals_without_notice_agree_with_simulation_and_expectation(rate, stages):
    asked = spot_problem(rate)
    plan = AllocationPlan(
        chains=(tuple(StageAllocation(instance_type="a", nodes=n, slots_per_trial=w) for n, w in stages),)
    )
    rehearsal = rehearse(asked, plan, seeds=range(90), faults=Faults(spot=Spot(notice_s=0.0)))
    assert rehearsal.finished.all()
    estimate = simulate(asked, plan, samples=4000, rng=np.random.default_rng(0))
    error_s = float(rehearsal.jct_s.std()) / math.sqrt(90)
    mean_s = float(estimate.jct_s.mean())
    assert float(rehearsal.jct_s.mean()) == pytest.approx(mean_s, abs=3 * error_s + 0.01 * mean_s)
    assert float(rehearsal.jct_s.std()) == pytest.approx(float(estimate.jct_s.std()), rel=0.25)
    assert ExpectedModel(asked).evaluate(plan)[0] == pytest.approx(mean_s, rel=0.03)
    # With the notice less is lost.
    warned = rehearse(asked, plan, seeds=range(20))
    assert float(warned.jct_s.mean()) < float(rehearsal.jct_s.mean())
    assert float(warned.jct_s.max()) < 1.5 * mean_s
