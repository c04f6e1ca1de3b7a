from __future__ import annotations

import pytest

from rb_core.clock import ManualClock
from rb_core.events import (
    NodeReady,
    NodeReleased,
    NodeRequested,
    NodeRunning,
    RunEnded,
    RunEnding,
    RunStarted,
    StageEnded,
    StageStarted,
    TrialCreated,
    TrialFailed,
    TrialPaused,
    TrialReported,
    TrialStarted,
    Warned,
)
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import Objective, Problem
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_plugins.config.problem import problem_table
from rb_plugins.forecast import forecast
from rb_plugins.manager import make_manager
from rb_plugins.progress import Progress

PROBLEM = Problem(
    experiment=ExperimentSpec.from_stages([(2, 5), (1, 10)]),
    profile=ScalingProfile(iteration_s={1: Latency(mean=2.0)}),
    cloud=Cloud(
        instance_types=(InstanceType(name="box", slots=2, usd_per_hour=3600.0),),
        max_nodes=1,
        billing=Billing(minimum_s=0),
    ),
    objective=Objective(deadline_s=100.0),
)


@pytest.fixture
def told(capsys):
    """A progress on a manual clock, with a function that tells it an event at a time and gives what it said."""
    clock = ManualClock()
    planned = forecast(PROBLEM, make_manager(autoload=False).planners(), samples=10)
    assert planned.expected == (30.0, 30.0)
    progress = Progress(planned.problem, planned.plan, planned.estimate, clock)

    def told(kind, t_s, **values):
        clock.advance(t_s)
        progress(kind(t_s=t_s, utc="2026-01-01T00:00:00+00:00", **values))
        return capsys.readouterr().err.strip()

    told.progress, told.clock, told.planned = progress, clock, planned
    return told


def begin(told) -> None:
    told(RunStarted, 0, run="r", problem=problem_table(PROBLEM), plan=told.planned.plan.record(PROBLEM.experiment),
         metric="accuracy", mode="max", seed=0, target="t", environment={})  # fmt: skip
    for trial in (0, 1):
        told(TrialCreated, 0, trial=trial, chain=0, config={})
    told(StageStarted, 0, chain=0, stage=0, trials=(0, 1), instance_type="box", nodes=1, slots_per_trial=1)
    told(NodeRequested, 0, node="r-0", chain=0, stage=0, instance_type="box", slots=2, usd_per_hour=3600.0)
    told(NodeRunning, 0, node="r-0", since_s=0.0)
    told(NodeReady, 0, node="r-0")
    for trial in (0, 1):
        told(TrialStarted, 0, trial=trial, chain=0, stage=0, nodes=("r-0",), slots=1, from_iteration=0)


def test_money_and_time_go_on_between_events(told):
    assert told.progress.text() == (
        "stage 1 of 2 | 0.0 s of 30.0 s, 30.0 s left | 0.00 usd of 30.00 usd | 0 nodes | 0 trials run, 0 wait"
    )
    begin(told)
    told.clock.advance(4.0)
    assert told.progress.text() == (
        "stage 1 of 2 | 4.0 s of 30.0 s, 26.0 s left | 4.000 usd of 30.00 usd | 1 nodes | 2 trials run, 0 wait"
    )
    told(TrialReported, 5, trial=1, iterations=2, score=0.75)
    assert told.progress.text().endswith("| best accuracy 0.75 (trial 1)")


def test_a_stage_that_takes_longer_does_not_make_the_rest_shorter(told):
    begin(told)
    told.clock.advance(25.0)
    assert "25.0 s of 30.0 s, 20.0 s left" in told.progress.text()


@pytest.mark.parametrize(("stage", "going"), [(0, "2 go on"), (1, "2 are through")])
def test_who_goes_on_where_nobody_is_stopped(told, stage, going):
    begin(told)
    if stage == 1:
        told(StageEnded, 9, chain=0, stage=0, survivors=(0, 1), stopped=())
        told(StageStarted, 9, chain=0, stage=1, trials=(0, 1), instance_type="box", nodes=1, slots_per_trial=1)
    assert f"stage {stage} ended: {going}" in told(StageEnded, 10, chain=0, stage=stage, survivors=(0, 1), stopped=())


def test_steps_that_matter_are_said(told):
    begin(told)
    for trial in (0, 1):
        told(TrialReported, 9, trial=trial, iterations=5, score=0.5 + trial)
        assert told(TrialPaused, 10, trial=trial, stage=0, iterations=5) == ""
    said = told(StageEnded, 10, chain=0, stage=0, survivors=(1,), stopped=(0,))
    assert said == "[    10.0 s] stage 0 ended: 1 go on; best accuracy 1.5 (trial 1)"
    said = told(StageStarted, 10, chain=0, stage=1, trials=(1,), instance_type="box", nodes=1, slots_per_trial=1)
    assert said == "[    10.0 s] stage 1: 1 trials x 10 iterations on 1 box, 1 slots each"
    assert told(Warned, 11, text="careful") == "[    11.0 s] warning: careful"
    # The engine warns of it as well, with what becomes of the run.
    assert told(TrialFailed, 12, trial=1, stage=1, rank=0, cause="ValueError: boom") == ""
    said = told(NodeReleased, 12, node="r-0", reason="the run ended")
    assert said == (
        "[    12.0 s] node 0 given back (the run ended), 0 held; 12.00 usd so far, 30.00 usd expected in all"
    )
    said = told(RunEnded, 12, ending=RunEnding.FAILED, reason="no trial is left\nmore")
    assert said == "[    12.0 s] run failed: no trial is left"
