import pytest
from rb_ray.scheduling.ground import FixedGround
from rb_ray.scheduling.learned import LearnedAllotter
from rb_ray.scheduling.outlook import UNKNOWN
from rb_ray.scheduling.seen import Seen, Stint
from test_planned import EXPERIMENT, Fixed
from test_planned import Rented as RentedOfAnyKind

from rb_core.hardware import InstanceType
from rb_core.plan import Objective, StageAllocation

BOX = InstanceType(name="box", slots=1, usd_per_hour=1.8)


class Rented(RentedOfAnyKind):
    """Nodes of one slot each."""

    def __init__(self, *, max_nodes=16, kinds=(BOX,)):
        super().__init__(max_nodes=max_nodes, kinds=kinds)


def stint(trial, stage, slots, *reports, first=(1, 14.0), start_s=5.0):
    return Stint(
        trial=trial,
        stage=stage,
        slots=slots,
        from_iteration=0,
        start_s=start_s,
        first=first,
        reports=reports,
        save_s=1.0,
    )


def first_stage(iteration_s=10.0, trials=range(9)):
    return tuple(stint(trial, 0, 1, *[(1, iteration_s)] * 9) for trial in trials)


class Run:
    """An allotter, what it warned of, and what it measured."""

    def __init__(self, ground, objective, most_slots=1):
        self.ground = ground
        self.warnings, self.kept = [], []
        self.allotter = LearnedAllotter(
            ground, objective, most_slots=most_slots, keep=self.kept.append, warn=self.warnings.append
        )

    def allot(self, stage, alive, seen=Seen()):  # noqa: B008
        allocation = self.allotter.allot(EXPERIMENT, stage, tuple(alive), seen)
        if isinstance(self.ground, Rented):
            self.ground.hold(allocation, since_s=100.0)
        return allocation


def test_the_first_stage_runs_on_all_nodes_that_it_can_use_one_slot_a_trial():
    run = Run(Rented(max_nodes=3), Objective(deadline_s=1e6))
    assert run.allot(0, range(9)) == StageAllocation(instance_type="box", nodes=3, slots_per_trial=1)
    assert Run(Rented(max_nodes=64), Objective(deadline_s=1e6)).allot(0, range(9)).nodes == 9
    assert run.ground.told == [("planned", None, 3, UNKNOWN)]
    assert (run.kept, run.warnings) == ([], [])


def test_the_others_are_planned_by_what_it_measured():
    run = Run(Rented(), Objective(deadline_s=1e6))
    run.allot(0, range(9))
    # Nine nodes are held. Three can be used, and one after another costs no less; the last trial takes one.
    assert run.allot(1, range(3), Seen(elapsed_s=110.0, stints=first_stage())).nodes == 3
    assert run.allot(2, [0], Seen(elapsed_s=320.0, stints=first_stage())).nodes == 1
    assert run.ground.told[1:] == [("replanned", 1, False), ("replanned", 2, False)]


def test_what_it_measured_is_kept():
    run = Run(Rented(), Objective(deadline_s=1e6))
    run.allot(0, range(9))
    run.allot(1, range(3), Seen(elapsed_s=110.0, stints=first_stage()))
    (measured,) = run.kept
    assert {slots: latency.mean for slots, latency in measured.profile.iteration_s.items()} == {1: pytest.approx(10.0)}
    assert (measured.profile.start_s.mean, measured.profile.save_s.mean) == pytest.approx((5.0, 1.0))
    assert (len(measured.measurements), len(measured.configs), measured.seconds) == (9, 9, 0.0)


def test_wider_trials_are_tried_where_one_slot_does_not_suffice():
    # On one slot each the last two stages take 206 and 606 s, on two about 131 and 381 s.
    run = Run(Rented(), Objective(deadline_s=110.0 + 530.0), most_slots=4)
    run.allot(0, range(9))
    second = run.allot(1, range(3), Seen(elapsed_s=110.0, stints=first_stage()))
    assert second.slots_per_trial == 2
    unhurried = Run(Rented(), Objective(deadline_s=1e6), most_slots=4)
    unhurried.allot(0, range(9))
    assert unhurried.allot(1, range(3), Seen(elapsed_s=110.0, stints=first_stage())).slots_per_trial == 1


@pytest.mark.parametrize(("two_s", "width"), [(5.5, 4), (10.5, 1)])
def test_what_was_taken_on_trust_is_corrected_at_the_next_barrier(two_s, width):
    fixed = FixedGround(Fixed(4, 4))
    run = Run(fixed, Objective(deadline_s=1e6), most_slots=4)
    run.allot(0, range(9))
    assert run.allot(1, range(3), Seen(elapsed_s=110.0, stints=first_stage())).slots_per_trial == 2
    second = tuple(stint(trial, 1, 2, *[(1, two_s)] * 19) for trial in range(3))
    third = run.allot(2, [0], Seen(elapsed_s=240.0, stints=(*first_stage(), *second)))
    # Where a second slot makes it slower, four are taken to be slower still.
    assert third.slots_per_trial == width
    assert run.kept[-1].profile.iteration_s[2].mean == pytest.approx(two_s)


def test_trials_that_report_once_tell_of_their_iterations_with_the_warm_up():
    run = Run(Rented(), Objective(deadline_s=1e6))
    run.allot(0, range(9))
    once = tuple(stint(trial, 0, 1, first=(1, 12.0)) for trial in range(9))
    run.allot(1, range(3), Seen(elapsed_s=20.0, stints=once))
    assert run.kept[-1].profile.iteration_s[1].mean == pytest.approx(12.0)
    more = (*once, *(stint(trial, 1, 1, *[(1, 9.0)] * 19) for trial in range(3)))
    run.allot(2, [0], Seen(elapsed_s=220.0, stints=more))
    assert run.kept[-1].profile.iteration_s[1].mean == pytest.approx(9.0)


def test_where_nothing_was_measured_the_stage_runs_as_the_first_one_did():
    run = Run(Rented(max_nodes=3), Objective(deadline_s=1e6))
    run.allot(0, range(9))
    assert run.allot(1, range(3), Seen(elapsed_s=20.0)) == StageAllocation(
        instance_type="box", nodes=3, slots_per_trial=1
    )
    assert "nothing can be planned yet" in run.warnings[0]


def test_a_deadline_that_cannot_be_kept_is_warned_of():
    run = Run(Rented(), Objective(deadline_s=120.0))
    run.allot(0, range(9))
    run.allot(1, range(3), Seen(elapsed_s=110.0, stints=first_stage()))
    assert "no plan keeps the deadline" in run.warnings[0]


def test_a_multiple_of_the_fastest_plan_s_time_is_the_same_after_a_restore():
    def deadline_s(*sittings):
        for stage, alive, seen in sittings:
            run.allot(stage, alive, seen)
        return run.allotter.deadline_s

    second = tuple(stint(trial, 1, 1, *[(1, 30.0)] * 19) for trial in range(3))
    run = Run(Rented(), Objective(deadline_factor=2.0))
    whole = deadline_s((0, range(9), Seen()), (1, range(3), Seen(elapsed_s=110.0, stints=first_stage())))
    run = Run(Rented(), Objective(deadline_factor=2.0))
    restored = deadline_s((2, [0], Seen(elapsed_s=700.0, stints=(*first_stage(), *second))))
    assert restored == pytest.approx(whole)
    assert whole == pytest.approx(2 * (20.0 + 106.0 + 206.0 + 606.0))


def test_seconds_are_those_of_the_type_that_speeds_refer_to():
    fast = InstanceType(name="fast", slots=2, usd_per_hour=3.6, speed=2.0)
    run = Run(Rented(kinds=(fast,)), Objective(deadline_s=1e6))
    run.allot(0, range(9))
    run.allot(1, range(3), Seen(elapsed_s=60.0, stints=first_stage(5.0)))
    assert run.kept[-1].profile.iteration_s[1].mean == pytest.approx(10.0)
