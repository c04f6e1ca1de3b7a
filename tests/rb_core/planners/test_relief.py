import dataclasses

import numpy as np
import pytest
from model_reference import every_plan, random_problem, worked_problem

from rb_core.errors import NoFeasiblePlan
from rb_core.plan import Objective
from rb_core.planners.exact import Exact
from rb_core.planners.relief import Relief, relief


def under(problem, nodes, **objective):
    cloud = dataclasses.replace(problem.cloud, max_nodes=nodes)
    return dataclasses.replace(problem, cloud=cloud, objective=Objective(**objective) if objective else None)


def fastest_s(problem, nodes):
    return min((plan[0] for plan in every_plan(under(problem, nodes))), default=np.inf)


def found(problem, **objective):
    """What the planner's refusal and the relief say together."""
    asked = under(problem, problem.cloud.max_nodes, **objective)
    with pytest.raises(NoFeasiblePlan) as refused:
        Exact().plan(asked, np.random.default_rng(0))
    return relief(asked, refused.value.nearest[refused.value.limit], np.random.default_rng(0))


def test_the_fewest_nodes_that_would_do_are_found():
    helped = 0
    for seed in range(60):
        problem = under(random_problem(np.random.default_rng(seed), stages=2, trials=5), 1)
        at_one = fastest_s(problem, 1)
        times = [fastest_s(problem, nodes) for nodes in range(1, 5)]
        if not np.isfinite(at_one) or times[-1] > at_one * 0.999:
            continue
        told = found(problem, deadline_s=times[-1] * 1.0001)
        assert told.deadline_s == pytest.approx(at_one), seed
        assert told.max_nodes == 1 + next(n for n, time_s in enumerate(times) if time_s <= times[-1] * 1.0001), seed
        helped += 1
    assert helped >= 15


def test_where_no_number_of_nodes_would_do_that_is_said():
    told = found(under(worked_problem(), 1), deadline_s=10)
    assert (told.max_nodes, told.tried_nodes) == (None, 8)
    assert "more nodes alone would not do (up to 8 were tried)" in str(told)


def test_where_more_nodes_have_no_use_none_are_tried():
    told = found(under(worked_problem(), 64), deadline_s=10)
    assert (told.max_nodes, told.tried_nodes) == (None, None)
    assert "no use for more nodes" in str(told)


def test_a_deadline_or_budget_that_is_named_can_be_kept():
    problem = under(worked_problem(), 2)
    for objective, told in (
        ("deadline_s", found(problem, deadline_s=100, confidence=0.9).deadline_s),
        ("budget_usd", found(problem, budget_usd=0.1).budget_usd),
    ):
        Exact().plan(under(problem, 2, **{objective: told}), np.random.default_rng(0))


def test_what_is_written_is_rounded_up():
    assert str(Relief(deadline_s=100.01, max_nodes=3)) == (
        "nearest feasible: a deadline of 100.1 s with these nodes, or max_nodes 3 with this deadline"
    )
    assert str(Relief(budget_usd=2.00001)) == "nearest feasible: a budget of 2.0001 usd"
    assert str(Relief(budget_usd=0.0033611)) == "nearest feasible: a budget of 0.003362 usd"
