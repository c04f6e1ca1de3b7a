import dataclasses
import math

import numpy as np
import pytest
from model_reference import plan_of, worked_problem

from rb_core.plan import Objective
from rb_core.promise import promise
from rb_core.simulate import Estimate, simulate

PLAN = plan_of(("a", 2, 1), ("a", 2, 2), ("a", 2, 4))


def asking(*, cv, **objective):
    problem = worked_problem()
    profile = dataclasses.replace(problem.profile, trial_cv=cv)
    return dataclasses.replace(problem, profile=profile, objective=Objective(**objective))


def of(jct_s, cost_usd):
    return Estimate(jct_s=np.array(jct_s, dtype=float), cost_usd=np.array(cost_usd, dtype=float), stages=())


def test_the_share_of_the_samples_within_the_limit():
    told = promise(asking(cv=0.2, deadline_s=3, confidence=0.9), of([1, 2, 3, 4], [9, 9, 9, 9]))
    assert (told.wanted, told.probability, told.samples) == (0.9, 0.75, 4)
    assert told.standard_error == pytest.approx(math.sqrt(4 / 6 * 2 / 6 / 4))
    assert promise(asking(cv=0.2, budget_usd=2.5, confidence=0.9), of([9, 9], [2, 3])).probability == 0.5


def test_samples_that_all_keep_the_limit_leave_a_doubt_and_what_does_not_vary_none():
    assert promise(asking(cv=0.2, deadline_s=3, confidence=0.9), of([1] * 98, [1] * 98)).standard_error > 0.009
    told = promise(asking(cv=0.0, deadline_s=500, confidence=0.9), of([500.0], [1]))
    assert (told.probability, told.standard_error) == (1.0, 0.0)


def test_nothing_is_said_without_a_wanted_confidence():
    assert promise(asking(cv=0.2, deadline_s=3), of([1], [1])) is None


def test_the_error_is_that_of_the_samples():
    problem = asking(cv=0.3, deadline_s=560, confidence=0.9)
    told = [
        promise(problem, simulate(problem, PLAN, samples=200, rng=np.random.default_rng(seed))) for seed in range(60)
    ]
    spread = np.std([t.probability for t in told])
    assert spread == pytest.approx(np.mean([t.standard_error for t in told]), rel=0.3)
