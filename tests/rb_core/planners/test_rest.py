import dataclasses

import pytest
from model_reference import plan_of, worked_problem
from rests import cases, shaped, under

from rb_core.errors import InvalidInput
from rb_core.expectation import Batch
from rb_core.plan import AllocationPlan, ChainOrder
from rb_core.planners.rest import Rest, evaluate, in_a_row, stages_left
from rb_core.spec import Stage

PLAN = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))


def held(*batches):
    """A rest of the worked example's last two stages with (count, running_s, usable_s) held."""
    experiment, current = stages_left(zip(worked_problem().experiment.chains[0][1:], in_a_row(PLAN)[1:], strict=True))
    return Rest(
        problem=dataclasses.replace(worked_problem(), experiment=experiment),
        current=current,
        instance_type=worked_problem().cloud.instance_types[0],
        held=tuple(
            Batch(count=count, running_s=running_s, usable_s=usable_s) for count, running_s, usable_s in batches
        ),
    )


def test_every_plan_is_evaluated_from_what_is_held():
    for case in cases():
        for number in case.some(0).integers(len(case.plans), size=5):
            jct_s, usd, allocations = case.plans[number]
            got = evaluate(case.rest, shaped(case.rest.problem, allocations))
            assert got == pytest.approx((jct_s, usd), abs=1e-6), case.note


def test_from_a_barrier_it_is_what_the_whole_job_would_have_been():
    # By hand: at 200 s both nodes have run since 30 s; the job ends at 500 s with a bill of 470 s of each.
    jct_s, usd = evaluate(held((2, -170.0, -110.0)), held().current)
    assert (jct_s, usd) == pytest.approx((300.0, 0.94))


def test_what_was_spent_is_part_of_the_bill():
    rest = dataclasses.replace(held((2, -170.0, -110.0)), spent_usd=1.0)
    assert evaluate(rest, rest.current)[1] == pytest.approx(1.94)


def test_held_nodes_may_be_given_in_any_order_of_their_readiness():
    one, other = (1, -10.0, 50.0), (1, -100.0, -40.0)
    rest = dataclasses.replace(held(one, other), current=plan_of(("a", 1, 1), ("a", 1, 2)))
    assert evaluate(rest, rest.current) == evaluate(held(other, one), rest.current)
    # The one that is usable is kept, the other one given back at once for the minimum of 60 s.
    assert evaluate(rest, rest.current)[1] == pytest.approx(evaluate(held(other), rest.current)[1] + 0.06)


def test_a_node_that_is_overdue_takes_as_long_as_a_new_one_and_no_longer():
    new = evaluate(held(), held().current)[0]
    assert evaluate(held((2, -1000.0, 5000.0)), held().current)[0] == pytest.approx(new)


def test_chains_are_taken_one_after_another_whatever_their_order_was():
    rest = held()
    beside = AllocationPlan(chains=rest.current.chains, order=ChainOrder.PARALLEL)
    assert evaluate(rest, beside) == evaluate(rest, rest.current)


def test_stages_with_more_trials_than_before_begin_a_chain():
    trials = [2, 8, 4, 4, 9, 1]
    stages = [Stage(trials=n, iterations=k + 1) for k, n in enumerate(trials)]
    allocations = in_a_row(plan_of(*[("a", k + 1, 1) for k in range(6)]))
    experiment, plan = stages_left(zip(stages, allocations, strict=True))
    assert [[stage.trials for stage in chain] for chain in experiment.chains] == [[2], [8, 4, 4], [9, 1]]
    plan.check_fits(experiment)
    assert in_a_row(plan) == allocations


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"instance_type": None}, "instance_type"),
        ({"spent_usd": -1.0}, "spent_usd"),
        ({"settled": -1}, "settled"),
        ({"current": PLAN}, "stages"),
    ],
)
def test_a_rest_that_cannot_be_is_refused(wrong, key):
    with pytest.raises(InvalidInput, match=key):
        dataclasses.replace(held((1, 0.0, 0.0)), **wrong)


def test_a_deadline_that_is_a_multiple_of_something_is_refused():
    with pytest.raises(InvalidInput, match="deadline_s"):
        under(held(), deadline_factor=2.0)


def test_a_plan_of_another_shape_is_refused():
    with pytest.raises(InvalidInput, match="stages"):
        evaluate(held(), PLAN)
