"""The driver of a run on EC2 is killed, and the run resumed or collected: nothing of it is left, and the bill is right.

`./dev crash` kills it 1,000 times by chance, or at every step.
"""

from __future__ import annotations

import pytest
from crash_ec2 import After, Case, Condition, case_of, kill_points, outcome, relay_of

from rb_core.providers.ec2 import estate

FIRST_RENTED = 22
"""Number of the step after the first call that rents."""

RENTING = ("before run_instances", "after run_instances", "while LaunchAttempted is written")


@pytest.mark.parametrize("number", range(8))
def test_nothing_is_left_of_drivers_that_are_killed_one_after_another(number):
    told = outcome(relay_of(number))
    assert told.problems == ()
    assert len(told.killed_at) == 6


@pytest.mark.long
@pytest.mark.parametrize("number", range(50))
def test_nothing_is_left_of_a_driver_that_is_killed_by_chance(number):
    assert outcome(case_of(number)).problems == ()


@pytest.mark.long
@pytest.mark.parametrize("condition", Condition)
@pytest.mark.parametrize("after", After)
def test_nothing_is_left_of_a_driver_that_is_killed_at_a_call_that_rents(condition, after):
    steps = kill_points(Case(condition=condition))
    for number in [number for number, step in enumerate(steps) if step in RENTING]:
        told = outcome(Case(condition=condition, after=after, fatal=(number,)))
        assert (told.problems, len(told.killed_at)) == ((), 1), steps[number]


def test_without_the_grace_time_a_kill_leaks(monkeypatch):
    case = Case(condition=Condition.SLOW, after=After.COLLECT, fatal=(FIRST_RENTED,), away_s=1.0)
    sound = outcome(case)
    assert (sound.killed_at, sound.problems) == (("after run_instances",), ())
    monkeypatch.setattr(estate, "SETTLING_S", 0.0)
    leaking = outcome(case)
    assert len(leaking.problems) == 3
    assert all(problem.endswith((" is pending", " is running")) for problem in leaking.problems)
