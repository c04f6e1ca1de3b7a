"""Durations of recorded iterations: when each start's iterations end, and what the engine makes of them."""

import pytest

from rb_core.errors import InvalidInput
from rb_core.events import TrialSaved
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.sim.durations import EvenPace, RecordedDurations, UnevenPace
from rb_core.sim.recorded import RecordedCurves
from rb_core.sim.rehearsal import rehearse_once, rehearsed_log
from rb_core.spec import ExperimentSpec
from rb_core.state import fold

TABLE = {0: {1: (10.0, 20.0, 40.0), 2: (6.0, 12.0, 24.0)}, 1: {1: (30.0, 30.0, 30.0)}}


def test_what_was_recorded():
    durations = RecordedDurations(TABLE)
    assert durations.iterations_s(0, 1, 3, 2) == (12.0, 24.0)
    assert durations.iterations_s(1, 0, 1, 1) == (30.0,)


@pytest.mark.parametrize(("trial", "end", "slots", "held"), [(0, 4, 1, 3), (1, 1, 2, 0), (2, 1, 1, 0)])
def test_what_was_not(trial, end, slots, held):
    told = f"must hold {end} iterations of trial {trial} on {slots} slots, got {held}"
    with pytest.raises(InvalidInput, match=told):
        RecordedDurations(TABLE).iterations_s(trial, 0, end, slots)


def test_paces():
    even, uneven = EvenPace(4, 20.0), UnevenPace((1.0, 2.0, 4.0))
    assert [even.end_s(done) for done in (0, 1, 4)] == [0.0, 5.0, 20.0]
    assert [uneven.end_s(done) for done in (0, 1, 2, 3)] == [0.0, 1.0, 3.0, 7.0]
    assert (even.took_s(2), uneven.took_s(2)) == (5.0, 2.0)
    assert [even.done_at(at_s) for at_s in (4.9, 5.0, 19.0)] == [0, 1, 3]
    assert [uneven.done_at(at_s) for at_s in (0.9, 1.0, 6.9, 7.0)] == [0, 1, 2, 3]
    assert EvenPace(3, 0.0).done_at(1.0) == 0


def problem(**profile):
    box = InstanceType(name="box", slots=2, usd_per_hour=3600.0)
    start = {"start_s": Latency(mean=5.0), "save_s": Latency(mean=1.0), "sync_s": 2.0}
    return Problem(
        experiment=ExperimentSpec.from_stages([(2, 1), (1, 2)]),
        profile=ScalingProfile(iteration_s={1: Latency(mean=1.0), 2: Latency(mean=1.0)}, **start, **profile),
        cloud=Cloud(instance_types=(box,), billing=Billing(minimum_s=0.0)),
    )


PLAN = AllocationPlan(
    chains=(tuple(StageAllocation(instance_type="box", nodes=1, slots_per_trial=width) for width in (1, 2)),)
)
CURVES = RecordedCurves({0: [(1, 0.5), (3, 0.9)], 1: [(1, 0.4)]})


@pytest.mark.parametrize("profile", [{}, {"trial_cv": 0.5}])
def test_a_rehearsal_takes_as_long_as_was_recorded_whatever_the_profile_says(profile):
    """Stage 0 waits for trial 1: 5 + 30 + 1 + 2; then trial 0 on two slots: 5 + 12 + 24 + 1 + 2."""
    run = rehearse_once(problem(**profile), PLAN, seed=3, curves=CURVES, durations=RecordedDurations(TABLE))
    assert run.state.jct_s == pytest.approx(38.0 + 44.0)
    assert run.bill.cost_usd == pytest.approx(82.0)


def test_a_slower_type_stretches_them():
    slow = InstanceType(name="box", slots=2, usd_per_hour=3600.0, speed=0.5)
    asked = problem()
    asked = Problem(experiment=asked.experiment, profile=asked.profile, cloud=Cloud(instance_types=(slow,)))
    run = rehearse_once(asked, PLAN, seed=3, curves=CURVES, durations=RecordedDurations(TABLE))
    assert run.state.jct_s == pytest.approx(38.0 + 30.0 + 44.0 + 36.0)


def test_checkpoints_come_where_iterations_end():
    """An iteration takes longer than two checkpoints may lie apart: each is saved, when it ends."""
    log = rehearsed_log(
        problem(), PLAN, seed=3, curves=CURVES, durations=RecordedDurations(TABLE), checkpoint_every_s=15.0
    )
    saved = [event for event in log if type(event) is TrialSaved and event.trial == 0]
    assert [event.iterations for event in saved] == [1, 2, 3]
    assert [event.t_s for event in saved] == pytest.approx([16.0, 38.0 + 5.0 + 12.0, 38.0 + 5.0 + 36.0 + 1.0])
    assert fold(log).best().score == 0.9
