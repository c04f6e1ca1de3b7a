from __future__ import annotations

import pytest

from rb_core.condition import Condition, condition
from rb_core.events import RunEnding


@pytest.mark.parametrize("ending", RunEnding)
@pytest.mark.parametrize("lives", [True, False])
def test_a_run_that_ended_is_in_the_condition_of_its_ending_whoever_is_still_there(ending, lives):
    found = condition(began=True, ending=ending, lives=lives)
    assert (found.value, found.ended, found.goes_on) == (ending.value, True, False)


@pytest.mark.parametrize(
    ("began", "lives", "wanted"),
    [
        (False, False, Condition.UNBEGUN),
        (False, True, Condition.STARTING),
        (True, True, Condition.RUNNING),
        (True, False, Condition.KILLED),
    ],
)
def test_a_run_that_has_not_ended_is_what_its_process_makes_it(began, lives, wanted):
    assert condition(began=began, ending=None, lives=lives) is wanted


@pytest.mark.parametrize("ending", [None, *RunEnding])
def test_a_process_that_has_written_nothing_yet_is_about_to_go_on_with_what_is_not_done(ending):
    found = condition(began=True, ending=ending, lives=True, silent=True)
    assert found is (Condition.DONE if ending is RunEnding.DONE else Condition.STARTING)
    assert found.goes_on is not found.ended
