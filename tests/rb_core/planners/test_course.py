import dataclasses

import pytest
from model_reference import plan_of, worked_problem
from rests import cases

from rb_core.expectation import Batch
from rb_core.hardware import InstanceType
from rb_core.plan import Objective
from rb_core.planners.course import course
from rb_core.planners.rest import Rest, evaluate, in_a_row, stages_left

PLAN = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))
"""Of the worked example: 300 s from the first barrier to the end, and 0.94 usd in all."""


def at_first_barrier(objective, *, usd_per_hour=3.6, plan=PLAN):
    problem = worked_problem()
    (node,) = problem.cloud.instance_types
    node = InstanceType(name=node.name, slots=node.slots, usd_per_hour=usd_per_hour)
    experiment, current = stages_left(zip(problem.experiment.chains[0][1:], in_a_row(plan)[1:], strict=True))
    cloud = dataclasses.replace(problem.cloud, instance_types=(node,), max_nodes=2)
    return Rest(
        problem=dataclasses.replace(problem, experiment=experiment, cloud=cloud, objective=objective),
        current=current,
        instance_type=node,
        held=(Batch(count=2, running_s=-170.0, usable_s=-110.0),),
    )


def widths(course):
    return [allocation.slots_per_trial for allocation in course.allocations]


def nodes(course):
    return [allocation.nodes for allocation in course.allocations]


def test_time_enough_makes_it_cheaper():
    # By hand: one node goes after 170 s, the other one stays 210 s for the two trials on a slot each, and 250 s for the
    # last one on both. Of 0.94 usd, 0.34 are spent anyway.
    got = course(at_first_barrier(Objective(deadline_s=600.0)))
    assert (nodes(got), widths(got)) == ([1, 1], [1, 2])
    assert (got.jct_s, got.cost_usd) == pytest.approx((460.0, 0.8))
    assert got.reason == "saves 0.1400 of 0.9400 usd"
    assert (got.late_s, got.over_usd) == (0.0, 0.0)


def test_a_plan_that_is_changed_leaves_a_margin():
    assert nodes(course(at_first_barrier(Objective(deadline_s=460.0)))) != [1, 1]


def test_where_there_is_just_time_enough_it_stays():
    got = course(at_first_barrier(Objective(deadline_s=300.0)))
    assert (got.allocations, got.reason, got.late_s) == (in_a_row(PLAN)[1:], "", 0.0)


def test_where_no_plan_is_in_time_it_says_by_how_much():
    got = course(at_first_barrier(Objective(deadline_s=100.0)))
    assert got.late_s == pytest.approx(got.jct_s - 100.0)
    assert got.jct_s >= 300.0


def test_without_an_objective_it_goes_on_as_cheaply_as_possible():
    got = course(at_first_barrier(None))
    assert (got.cost_usd, got.late_s) == (pytest.approx(0.8), 0.0)


def test_a_budget_that_cannot_be_kept_says_by_how_much():
    got = course(at_first_barrier(Objective(budget_usd=0.5)))
    assert got.over_usd == pytest.approx(got.cost_usd - 0.5)
    assert got.cost_usd == pytest.approx(0.8)


def test_on_nodes_that_cost_nothing_it_is_the_fastest_plan_whatever_time_there_is():
    slow = plan_of(("a", 2, 1), ("a", 2, 1), ("a", 2, 1))
    got = course(at_first_barrier(Objective(deadline_s=1e6), usd_per_hour=0.0, plan=slow))
    assert (widths(got), got.jct_s, got.cost_usd) == ([2, 4], pytest.approx(300.0), 0.0)


def test_it_says_what_its_own_plan_comes_to():
    for case in cases()[::7]:
        got = course(case.rest)
        shape = dataclasses.replace(case.rest.current, chains=_cut(got.allocations, case.rest.current.chains))
        assert (got.jct_s, got.cost_usd) == pytest.approx(evaluate(case.rest, shape), rel=1e-6, abs=1e-6), case.note


def _cut(allocations, chains):
    left = iter(allocations)
    return tuple(tuple(next(left) for _ in chain) for chain in chains)
