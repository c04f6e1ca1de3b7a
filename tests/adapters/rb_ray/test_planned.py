import dataclasses

import pytest
from rb_ray.scheduling.ground import FixedGround
from rb_ray.scheduling.planned import PlannedAllotter
from rb_ray.scheduling.seen import Seen, Stint

from rb_core.errors import InvalidInput, NoFeasiblePlan
from rb_core.expectation import Batch
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import Objective, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec

EXPERIMENT = ExperimentSpec.successive_halving(n=9, r=10, R=90, eta=3)
"""9 trials to iteration 10, 3 to 30, 1 to 90."""

PROFILE = ScalingProfile(
    iteration_s={1: Latency(mean=10.0), 2: Latency(mean=6.0), 4: Latency(mean=4.0)},
    start_s=Latency(mean=5.0),
    save_s=Latency(mean=1.0),
)
BOX = InstanceType(name="box", slots=2, usd_per_hour=3.6)


class Rented:
    """Nodes that can be rented: those that the last stage was allotted are held, and usable since it began."""

    def __init__(self, *, max_nodes=8, kinds=(BOX,)):
        init_s = Latency(mean=20.0)
        self.offered = Cloud(instance_types=kinds, max_nodes=max_nodes, init_s=init_s, billing=Billing(minimum_s=0.0))
        self.instance_type = None
        self.held = ()
        self.spent_usd = 0.0
        self.told = []

    @property
    def cloud(self):
        return self.offered

    def hold(self, allocation, *, since_s):
        self.instance_type = self.offered.instance_type(allocation.instance_type)
        self.held = (Batch(count=allocation.nodes, running_s=-since_s, usable_s=-since_s),)

    def planned(self, problem, plan, *, remark=""):
        self.told.append(("planned", problem.objective, len(plan.chains[0]), remark))

    def replanned(self, stage, problem, course):
        self.told.append(("replanned", stage, bool(course.reason)))


class Fixed:
    """A fleet of nodes that stay."""

    def __init__(self, *nodes):
        self.nodes = nodes


def stints(stage, trials, slots, iteration_s, *, iterations=10):
    reports = ((iterations, iteration_s * iterations),)
    return tuple(
        Stint(trial=trial, stage=stage, slots=slots, from_iteration=0, start_s=5.0, reports=reports) for trial in trials
    )


class Run:
    """An allotter, and what it warned of."""

    def __init__(self, ground, objective, profile=PROFILE):
        self.ground = ground
        self.warnings = []
        self.allotter = PlannedAllotter(ground, objective, profile, warn=self.warnings.append)

    def allot(self, stage, alive, seen=Seen()):  # noqa: B008
        return self.allotter.allot(EXPERIMENT, stage, tuple(alive), seen)


def test_all_stages_are_planned_at_the_start():
    run = Run(Rented(), Objective(deadline_s=1e6))
    assert run.allot(0, range(9)) == StageAllocation(instance_type="box", nodes=1, slots_per_trial=1)
    assert run.ground.told == [("planned", Objective(deadline_s=1e6), 3, "")]
    in_a_hurry = Run(Rented(), Objective(deadline_s=700.0))
    assert in_a_hurry.allot(0, range(9)).nodes > 1


def test_what_cannot_be_done_in_time_is_refused_before_anything_runs():
    with pytest.raises(NoFeasiblePlan, match="raise the deadline or max_nodes"):
        Run(Rented(), Objective(deadline_s=60.0)).allot(0, range(9))


def test_a_multiple_of_the_fastest_plan_s_time_is_a_deadline():
    run = Run(Rented(), Objective(deadline_factor=1.5))
    run.allot(0, range(9))
    ((_, objective, *_),) = run.ground.told
    assert objective.deadline_s == pytest.approx(1.5 * (106.0 + 126.0 + 246.0), rel=0.2)


def test_a_run_that_is_as_planned_stays_so():
    run = Run(Rented(), Objective(deadline_s=700.0))
    first = run.allot(0, range(9))
    planned = dict(run.allotter._outlook._ahead)
    run.ground.hold(first, since_s=106.0)
    seen = Seen(elapsed_s=106.0, stints=stints(0, range(9), first.slots_per_trial, 10.0))
    assert run.allot(1, range(3), seen) == planned[1]
    assert run.warnings == []


def test_iterations_that_take_longer_are_made_up_for():
    def second(iteration_s):
        run = Run(Rented(), Objective(deadline_s=1100.0))
        first = run.allot(0, range(9))
        run.ground.hold(first, since_s=200.0)
        return run.allot(1, range(3), Seen(elapsed_s=200.0, stints=stints(0, range(9), 1, iteration_s)))

    as_planned, slower = second(10.0), second(18.0)
    assert slower.nodes * slower.slots_per_trial > as_planned.nodes * as_planned.slots_per_trial


def test_where_the_deadline_cannot_be_kept_any_more_it_goes_on_with_a_warning():
    run = Run(Rented(), Objective(deadline_s=700.0))
    run.ground.hold(run.allot(0, range(9)), since_s=650.0)
    run.allot(1, range(3), Seen(elapsed_s=650.0, stints=stints(0, range(9), 1, 60.0)))
    (text,) = run.warnings
    assert text.startswith("no plan keeps the deadline of 11 min 40 s any more")


def test_after_the_deadline_it_goes_on_as_cheaply_as_possible():
    run = Run(Rented(), Objective(deadline_s=700.0))
    run.ground.hold(run.allot(0, range(9)), since_s=800.0)
    cheapest = run.allot(1, range(3), Seen(elapsed_s=800.0))
    # Two slots of a node that is paid for anyway: three times 126 s, and no node more than one at a time is needed.
    assert cheapest.slots_per_trial == 2
    assert len(run.warnings) == 1


def test_fewer_trials_than_were_planned_for_need_fewer_nodes():
    run = Run(Rented(), Objective(deadline_s=520.0))
    first = run.allot(0, range(9))
    run.ground.hold(first, since_s=106.0)
    seen = Seen(elapsed_s=106.0, stints=stints(0, range(9), first.slots_per_trial, 10.0))
    assert run.allot(1, [0], seen).nodes < run.allot(1, [0, 1, 2], seen).nodes


def test_a_budget_is_kept_with_what_was_spent():
    run = Run(Rented(), Objective(budget_usd=3.0))
    first = run.allot(0, range(9))
    run.ground.hold(first, since_s=106.0)
    run.ground.spent_usd = 100.0
    run.allot(1, range(3), Seen(elapsed_s=106.0))
    (text,) = run.warnings
    assert "no plan keeps the budget of" in text


def test_a_budget_needs_prices():
    with pytest.raises(InvalidInput, match="needs nodes that have a price"):
        Run(FixedGround(Fixed(2, 2)), Objective(budget_usd=1.0)).allot(0, range(9))


def test_it_goes_on_after_a_restore_without_its_plan():
    run = Run(Rented(), Objective(deadline_factor=1.5))
    run.ground.hold(StageAllocation(instance_type="box", nodes=5, slots_per_trial=1), since_s=106.0)
    restored = run.allot(1, range(3), Seen(elapsed_s=106.0, stints=stints(0, range(9), 1, 10.0)))
    whole = Run(Rented(), Objective(deadline_factor=1.5))
    first = whole.allot(0, range(9))
    whole.ground.hold(StageAllocation(instance_type="box", nodes=5, slots_per_trial=1), since_s=106.0)
    seen = Seen(elapsed_s=106.0, stints=stints(0, range(9), first.slots_per_trial, 10.0))
    assert restored == whole.allot(1, range(3), seen)
    assert run.warnings == []


def test_widths_that_the_profile_does_not_know_are_passed_over():
    run = Run(Rented(), Objective(deadline_s=700.0))
    run.ground.hold(run.allot(0, range(9)), since_s=106.0)
    run.allot(1, range(3), Seen(elapsed_s=106.0, stints=stints(0, range(9), 3, 1.0)))


@pytest.mark.parametrize(
    ("nodes", "stage", "alive", "width"),
    [((2, 2), 0, 9, 1), ((2, 2), 1, 3, 1), ((2, 2), 2, 1, 4), ((4, 4), 1, 3, 2), ((4,), 2, 1, 4), ((1, 3), 2, 1, 4)],
)
def test_on_a_cluster_that_stays_freed_slots_go_to_the_survivors_whatever_time_there_is(nodes, stage, alive, width):
    run = Run(FixedGround(Fixed(*nodes)), Objective(deadline_s=1e6))
    run.allot(0, range(9))
    assert run.allot(stage, range(alive), Seen(elapsed_s=100.0)).slots_per_trial == width


def test_nodes_of_different_sizes_count_as_parts_of_one():
    cloud = FixedGround(Fixed(8, 4, 0)).offered
    assert (cloud.instance_types[0].slots, cloud.max_nodes) == (4, 3)


def test_a_cluster_that_is_gone_is_planned_with_as_it_was():
    fleet = Fixed(2, 2)
    ground = FixedGround(fleet)
    assert ground.offered.max_nodes == 2
    fleet.nodes = ()
    assert (ground.offered.max_nodes, ground.held[0].count) == (2, 2)


def test_only_the_type_that_a_stage_ran_on_says_how_fast_it_is():
    fast = dataclasses.replace(BOX, name="fast", speed=2.0)
    run = Run(Rented(kinds=(BOX, fast)), Objective(deadline_s=700.0))
    first = run.allot(0, range(9))
    run.ground.hold(first, since_s=106.0)
    speed = run.ground.offered.instance_type(first.instance_type).speed
    seen = Seen(elapsed_s=106.0, stints=stints(0, range(9), first.slots_per_trial, 10.0 / speed))
    run.allot(1, range(3), seen)
    assert run.warnings == []
