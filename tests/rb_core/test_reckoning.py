"""Where a run will end, by what was expected of its stages and what has happened."""

from __future__ import annotations

import numpy as np
import pytest

from rb_core import events
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.reckoning import Reckoning
from rb_core.simulate import simulate
from rb_core.spec import ExperimentSpec

# Stages of 10 s and 20 s on one node of 1 usd/s.
PROBLEM = Problem(
    experiment=ExperimentSpec.from_stages([(2, 5), (1, 10)]),
    profile=ScalingProfile(iteration_s={1: Latency(mean=2.0)}),
    cloud=Cloud(
        instance_types=(InstanceType(name="box", slots=2, usd_per_hour=3600.0),),
        max_nodes=1,
        billing=Billing(minimum_s=0),
    ),
)
STAGE = StageAllocation(instance_type="box", nodes=1, slots_per_trial=1)
PLAN = AllocationPlan(chains=((STAGE, STAGE),))
UTC = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def told():
    estimate = simulate(PROBLEM, PLAN, samples=1, rng=np.random.default_rng(0))
    reckoning = Reckoning(PROBLEM.cloud, estimate=estimate, expected=(30.0, 30.0))

    def told(kind, t_s, **values):
        reckoning.take(kind(t_s=t_s, utc=UTC, **values))
        return reckoning

    told(
        events.RunStarted, 0, run="r", problem={}, plan=PLAN.record(PROBLEM.experiment), metric="m", mode="max",
        seed=0, target="t", environment={},
    )  # fmt: skip
    for trial in (0, 1):
        told(events.TrialCreated, 0, trial=trial, chain=0, config={})
    told(events.StageStarted, 0, chain=0, stage=0, trials=(0, 1), instance_type="box", nodes=1, slots_per_trial=1)
    told(events.NodeRequested, 0, node="r-0", chain=0, stage=0, instance_type="box", slots=2, usd_per_hour=3600.0)
    return told(events.NodeRunning, 0, node="r-0", since_s=0.0) and told


def replanned(told, t_s, jct_s, usd):
    return told(
        events.Replanned, t_s, chain=0, stage=0, plan=PLAN.record(PROBLEM.experiment), reason="slow", jct_s=jct_s,
        cost_usd=usd, before_jct_s=99.0, before_cost_usd=99.0,
    )  # fmt: skip


def resumed(told, t_s):
    return told(events.RunResumed, t_s, problem={}, environment={}, clock="", clock_s=0.0)


def test_a_run_in_time_ends_as_planned_and_a_late_stage_pushes_the_end(told):
    reckoning = told(events.NodeReady, 0, node="r-0")
    assert reckoning.forecast(4.0) == pytest.approx((30.0, 30.0))
    assert reckoning.forecast(25.0) == pytest.approx((45.0, 45.0))
    ended = told(events.StageEnded, 12, chain=0, stage=0, survivors=(1,), stopped=(0,))
    assert ended.forecast(12.0) == pytest.approx((32.0, 32.0))


def test_a_change_of_the_plan_says_anew_what_the_rest_takes(told):
    reckoning = replanned(told, 4.0, 56.0, 17.0)
    assert reckoning.expected == (56.0, 17.0)
    assert reckoning.forecast(4.0) == pytest.approx((56.0, 17.0))
    # 6 of the 26 s that were left are this stage's: of 52 s it has 12 s, of 13 usd 3.
    assert reckoning.left_s(16.0) == pytest.approx(40.0)
    assert reckoning.forecast(16.0) == pytest.approx((56.0, 16.0 + 10.0))


def test_a_run_that_stood_still_has_as_much_left_as_before(told):
    told(events.NodeReleased, 4, node="r-0", reason="killed")
    reckoning = resumed(told, 100)
    assert reckoning.left_s(100.0) == pytest.approx(26.0)
    assert reckoning.left_s(103.0) == pytest.approx(23.0)


def test_without_a_plan_nothing_is_forecast():
    assert Reckoning(PROBLEM.cloud).forecast(1.0) is None
