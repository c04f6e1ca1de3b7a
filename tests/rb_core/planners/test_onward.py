"""Re-planning against every plan there is from the same held nodes."""

import dataclasses

import numpy as np
import pytest
from model_reference import plan_of, random_problem, release_usd, worked_problem
from rests import cases, shaped, under

from rb_core.errors import InvalidInput
from rb_core.expectation import Batch, ExpectedModel, expected
from rb_core.hardware import InstanceType, Latency
from rb_core.plan import Objective
from rb_core.planners.candidate import least_nodes, useful_nodes
from rb_core.planners.exact import Exact, front
from rb_core.planners.objective import resolve
from rb_core.planners.rest import LEAST_GAIN, SMALL_MISS, WORTH_HURRYING, Rest, Restart, evaluate, in_a_row, replanned
from rb_core.simulate import simulate
from rb_core.spec import Stage

CLOSE = 1e-6
"""Seconds or usd."""


def outcome(rest, change):
    """(jct_s, cost_usd) of what is followed from now on; what a change says of both plans is what the model says."""
    before = evaluate(rest, rest.current)
    if change is None:
        return before
    assert (change.before_jct_s, change.before_cost_usd) == pytest.approx(before, abs=CLOSE)
    assert (change.jct_s, change.cost_usd) == pytest.approx(evaluate(rest, change.plan), abs=CLOSE)
    return change.jct_s, change.cost_usd


def test_without_a_limit_it_is_the_cheapest():
    changes = 0
    for case in cases():
        change = replanned(case.rest, least_gain=0.0)
        assert outcome(case.rest, change)[1] == pytest.approx(min(usd for _, usd, _ in case.plans), abs=CLOSE), (
            case.note
        )
        changes += change is not None
    assert changes > 150


def test_once_the_deadline_has_passed_it_ends_no_later_than_it_would_have():
    dearer = 0
    for case in cases():
        rest = dataclasses.replace(case.rest, overdue=True)
        current_s, current_usd = evaluate(rest, rest.current)
        cheapest_usd = min(cost_usd for time_s, cost_usd, _ in case.plans if time_s <= current_s + CLOSE)
        time_s, cost_usd = outcome(rest, replanned(rest, least_gain=0.0))
        assert time_s <= current_s + CLOSE, case.note
        assert cost_usd == pytest.approx(cheapest_usd), case.note
        assert cost_usd <= current_usd + CLOSE, case.note
        dearer += cost_usd > min(cost_usd for _, cost_usd, _ in case.plans) + CLOSE
    assert dearer >= 50


def test_it_is_left_as_it_is_unless_enough_is_saved_of_what_is_still_to_be_paid():
    outcomes = []
    for case in cases():
        cheapest = sorted(case.plans, key=lambda plan: plan[1])
        _, before, current = cheapest[case.some(3).integers(min(30, len(cheapest)))]
        rest = dataclasses.replace(case.rest, current=shaped(case.rest.problem, current))
        saved = before - cheapest[0][1]
        least = LEAST_GAIN * (before - case.job.closed_usd - release_usd(case.rest.problem, case.job, case.job.held))
        if abs(saved - least) > CLOSE:
            change = replanned(rest)
            assert (change is not None) == (saved > least), case.note
            outcomes.append((saved > CLOSE, change is not None))
    assert min(outcomes.count(kind) for kind in [(False, False), (True, False), (True, True)]) >= 5


def test_under_a_deadline_it_is_the_cheapest_in_time():
    kinds = []
    for case in cases():
        some = case.some(1)
        deadline_s = case.plans[some.integers(len(case.plans))][0] * some.choice([0.8, 0.93, 1.0001, 1.0001])
        rest = under(case.rest, deadline_s=deadline_s)
        change = replanned(rest, least_gain=0.0)
        jct_s, usd = outcome(rest, change)
        soonest_s = min(time_s for time_s, _, _ in case.plans)
        if soonest_s <= deadline_s:
            kind, within_s = "in time", deadline_s
        elif soonest_s <= deadline_s * (1 + SMALL_MISS):
            kind, within_s = "a little late", soonest_s
        else:
            kind, within_s = "late", evaluate(rest, rest.current)[0]
        if kind == "a little late" and not change:
            assert soonest_s - deadline_s >= WORTH_HURRYING * (jct_s - deadline_s) - CLOSE, case.note
        else:
            assert jct_s <= within_s + CLOSE, case.note
            least = min(usd for time_s, usd, _ in case.plans if time_s <= within_s + CLOSE)
            assert usd == pytest.approx(least, abs=CLOSE), case.note
        kinds.append((kind, change is not None))
    assert min(kinds.count((kind, True)) for kind in ("in time", "a little late", "late")) >= 5


def test_under_a_budget_it_is_the_fastest_within_it():
    kinds = []
    for case in cases():
        some = case.some(2)
        budget_usd = case.plans[some.integers(len(case.plans))][1] * some.choice([0.8, 1.0001, 1.0001])
        if budget_usd == 0:
            continue
        rest = under(case.rest, budget_usd=budget_usd)
        change = replanned(rest, least_gain=0.0)
        jct_s, usd = outcome(rest, change)
        within = [time_s for time_s, usd, _ in case.plans if usd <= budget_usd]
        if within:
            assert usd <= budget_usd + CLOSE, case.note
            assert jct_s == pytest.approx(min(within), abs=CLOSE), case.note
        else:
            assert usd == pytest.approx(min(usd for _, usd, _ in case.plans), abs=CLOSE), case.note
        kinds.append((bool(within), change is not None))
    assert min(kinds.count((kept, True)) for kept in (True, False)) >= 5


def test_time_is_bought_with_a_budget_only_if_enough_is_saved():
    outcomes = set()
    for case in cases():
        budget_usd = max(usd for _, usd, _ in case.plans)
        if budget_usd > 0:
            rest = under(case.rest, budget_usd=budget_usd)
            before, least = evaluate(rest, rest.current)[0], min(time_s for time_s, _, _ in case.plans)
            if abs(least - before * (1 - LEAST_GAIN)) > CLOSE:
                enough = least < before * (1 - LEAST_GAIN)
                assert (replanned(rest) is not None) == enough, case.note
                outcomes.add((enough, least < before))
    assert outcomes == {(True, True), (False, True), (False, False)}


def test_settled_stages_stay_as_they_are():
    changes = 0
    for case in cases():
        stages = in_a_row(case.rest.current)
        rest = dataclasses.replace(case.rest, settled=1)
        change = replanned(rest, least_gain=0.0)
        least = min(usd for _, usd, allocations in case.plans if allocations[0] == stages[0])
        assert outcome(rest, change)[1] == pytest.approx(least, abs=CLOSE), case.note
        if change:
            assert in_a_row(change.plan)[0] == stages[0], case.note
            changes += 1
        assert replanned(dataclasses.replace(rest, settled=len(stages)), least_gain=0.0) is None
    assert changes > 50


def test_from_nothing_it_is_the_exact_planner_s_plan():
    compared = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 23])
        problem = random_problem(rng, nodes=6, trials=12)
        if least_nodes(problem) is None:
            continue
        candidates = front(ExpectedModel(problem))
        some = candidates[rng.integers(len(candidates))]
        # The current plan is the one that is farthest from what is wanted: the slowest, or the dearest.
        for place, (limit, value, current) in enumerate(
            [("budget_usd", some.cost_usd, candidates[-1]), ("deadline_s", some.jct_s, candidates[0])]
        ):
            if value == 0:
                continue
            asked = dataclasses.replace(problem, objective=Objective(**{limit: value * 1.0001}))
            wanted = ExpectedModel(asked).evaluate(Exact().plan(asked, rng))
            rest = Rest(problem=asked, current=current.plan(problem))
            assert outcome(rest, replanned(rest, least_gain=0.0))[place] == pytest.approx(wanted[place], abs=CLOSE), (
                seed
            )
            compared += 1
    assert compared > 60


WORKED = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))


def worked(*, nodes=4, held=(), current=WORKED, **objective):
    """The worked example (500 s for 0.94 usd under its first plan) from its beginning, with (count, since) held."""
    problem = worked_problem()
    problem = dataclasses.replace(
        problem,
        cloud=dataclasses.replace(problem.cloud, max_nodes=nodes),
        objective=Objective(**objective) if objective else None,
    )
    return Rest(
        problem=problem,
        current=current,
        instance_type=problem.cloud.instance_types[0] if held else None,
        held=tuple(Batch(count=count, running_s=-since_s, usable_s=60.0 - since_s) for count, since_s in held),
    )


def test_the_reason_says_what_is_gained():
    assert replanned(worked(deadline_s=800.0)).reason.startswith("saves ")
    assert replanned(worked(deadline_s=450.0)).reason == "the current plan would end 50 s late"
    assert replanned(worked(budget_usd=2.0)).reason.endswith(" s sooner")
    assert replanned(worked(budget_usd=0.9)).reason == "the current plan would cost 0.0400 usd too much"
    assert replanned(worked(deadline_s=10.0)) is None
    assert "no plan keeps the budget" in replanned(worked(budget_usd=0.01)).reason


def test_a_current_plan_that_needs_too_many_nodes_is_left_for_whatever_serves():
    for limits in ({}, {"deadline_s": 2000.0}, {"budget_usd": 2.0}):
        gone = worked(nodes=1, **limits)
        change = replanned(gone)
        assert change.reason == "the current plan needs more nodes than may be held"
        assert outcome(gone, change) == pytest.approx(evaluate(gone, change.plan))
        assert {allocation.nodes for allocation in in_a_row(change.plan)} == {1}


def test_held_nodes_of_a_type_that_is_no_longer_offered_are_given_back():
    other = InstanceType(name="b", slots=2, usd_per_hour=3.6)
    rest = dataclasses.replace(worked(held=[(3, 100.0)], deadline_s=2000.0), instance_type=other)
    without = replanned(worked(deadline_s=2000.0))
    change = replanned(rest)
    assert change.plan == without.plan
    assert change.cost_usd == pytest.approx(without.cost_usd + 3 * 0.1)


def test_where_no_trial_fits_there_is_nothing_to_change_to():
    rest = worked(deadline_s=2000.0)
    wide = dataclasses.replace(rest.problem.profile, iteration_s={16: Latency(mean=1.0)})
    assert replanned(dataclasses.replace(rest, problem=dataclasses.replace(rest.problem, profile=wide))) is None


def test_a_current_plan_on_a_type_that_is_not_offered_is_refused():
    with pytest.raises(InvalidInput, match="instance_type"):
        replanned(worked(current=plan_of(*[("b", 2, 1)] * 3), deadline_s=2000.0))


def noisy(rest, cv):
    problem = rest.problem
    return dataclasses.replace(
        rest, problem=dataclasses.replace(problem, profile=dataclasses.replace(problem.profile, trial_cv=cv))
    )


def test_a_confidence_keeps_a_margin_from_the_deadline():
    bills = []
    for confidence in (None, 0.9, 0.99):
        rest = noisy(worked(deadline_s=700.0, **({"confidence": confidence} if confidence else {})), 0.2)
        change = replanned(rest, least_gain=0.0)
        plan = change.plan if change else rest.current
        times = simulate(rest.problem, plan, samples=4000, rng=np.random.default_rng(0)).jct_s
        assert np.mean(times <= 700.0) >= (confidence or 0.5) - 0.03
        bills.append(evaluate(rest, plan)[1])
    assert bills == sorted(bills)
    assert bills[0] < bills[2]


def test_with_noise_it_is_close_to_the_exact_planner():
    for factor in (1.3, 1.6, 2.2):
        rest = noisy(worked(), 0.2)
        problem = resolve(dataclasses.replace(rest.problem, objective=Objective(deadline_factor=factor)))
        wanted = expected(problem, Exact().plan(problem, np.random.default_rng(0)))
        rest = dataclasses.replace(rest, problem=problem)
        change = replanned(rest, least_gain=0.0)
        got = expected(problem, change.plan if change else rest.current)
        assert got[0] <= problem.objective.deadline_s * 1.02
        assert got[1] <= wanted[1] * 1.03


def test_a_stage_that_has_begun_goes_on_as_it_is_or_begins_anew_after_its_restart():
    kinds = []
    for case in cases()[::3]:
        first, stages = case.rest.current.chains[0][0], case.rest.problem.experiment.chains[0]
        anew = Stage(trials=stages[0].trials, iterations=max(1, stages[0].iterations - 1))
        rest = dataclasses.replace(case.rest, restart=Restart(after_s=25.0, stage=anew))
        earlier = tuple(
            dataclasses.replace(batch, running_s=batch.running_s - 25.0, usable_s=batch.usable_s - 25.0)
            for batch in rest.start.held
        )
        experiment = dataclasses.replace(
            rest.problem.experiment, chains=((anew, *stages[1:]), *rest.problem.experiment.chains[1:])
        )
        moved = dataclasses.replace(
            case.rest, problem=dataclasses.replace(rest.problem, experiment=experiment), held=earlier
        )
        kind, held = rest.start.instance_type, sum(batch.count for batch in rest.start.held)
        useful = useful_nodes(rest.problem, rest.problem.cloud.instance_type(first.instance_type))
        most = min(useful, rest.problem.cloud.max_nodes)
        least = min(held if kind and kind.name == first.instance_type else 1, most)
        steady, begun_anew = [], []
        for _, _, allocations in case.plans:
            plan = shaped(rest.problem, allocations)
            same = (allocations[0].instance_type, allocations[0].slots_per_trial)
            if same == (first.instance_type, first.slots_per_trial) and allocations[0].nodes >= least:
                steady.append(evaluate(case.rest, plan)[1])
            begun_anew.append(evaluate(moved, plan)[1])
        before = evaluate(case.rest, case.rest.current)[1]
        change = replanned(rest, least_gain=0.0)
        best = min([before, *steady, *begun_anew])
        assert (before if change is None else change.cost_usd) == pytest.approx(best, abs=CLOSE), case.note
        kinds.append("as it is" if change is None else "steady" if best in steady else "anew")
    assert min(kinds.count(kind) for kind in ("as it is", "steady", "anew")) >= 5


def test_a_change_leaves_a_reserve_where_it_can_and_the_current_plan_need_not():
    kinds = []
    for case in cases():
        times = sorted({time_s for time_s, _, _ in case.plans})
        before_s, _ = evaluate(case.rest, case.rest.current)
        for deadline_s in (before_s, before_s - 1.0):
            if deadline_s <= times[0]:
                continue
            rest = dataclasses.replace(under(case.rest, deadline_s=deadline_s), reserve_s=deadline_s / 4)
            change = replanned(rest, least_gain=0.1)
            if change is None:
                assert before_s <= deadline_s, case.note
                kinds.append("stays")
            elif times[0] <= deadline_s * 0.75:
                assert change.jct_s <= deadline_s * 0.75 + CLOSE, case.note
                kinds.append("with reserve")
            else:
                assert change.jct_s <= deadline_s + CLOSE, case.note
                kinds.append("without")
    assert min(kinds.count(kind) for kind in ("stays", "with reserve", "without")) >= 5


def test_how_small_a_miss_is_worth_hurrying_for_can_be_told():
    hurried = []
    for case in cases()[::3]:
        times_s = [time_s for time_s, _, _ in case.plans]
        rest = under(case.rest, deadline_s=0.8 * min(times_s))
        told_s = [
            outcome(rest, replanned(dataclasses.replace(rest, worth_missing_s=worth_s), least_gain=0.0))[0]
            for worth_s in (0.0, max(times_s))
        ]
        current_s, _ = evaluate(rest, rest.current)
        assert any(abs(told_s[1] - time_s) < CLOSE for time_s in (min(times_s), current_s)), case.note
        hurried.append(told_s[1] < told_s[0] - CLOSE)
    assert sum(hurried) >= 5
