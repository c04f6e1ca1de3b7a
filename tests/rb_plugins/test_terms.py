from __future__ import annotations

import pytest

from rb_core.engine.request import OnDeadline
from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType
from rb_core.plan import Objective
from rb_core.spec import ExperimentSpec
from rb_core.target import Target
from rb_plugins.terms import Options, Terms
from rb_plugins.tuning import ON_DEADLINE, Tuning

TUNING = Tuning(
    target=Target(name="train.py:train"),
    space={"lr": [1]},
    experiment=ExperimentSpec.from_stages([(1, 1)]),
    cloud=Cloud(instance_types=(InstanceType(name="box", slots=1, usd_per_hour=1.0),)),
    objective=Objective(deadline_s=10.0, confidence=0.9),
    max_usd=3.0,
)


@pytest.mark.parametrize(
    ("text", "deadline_s"), [("90s", 90.0), ("1h30m", 5400.0), ("7200", 7200.0), ("2.5", 2.5)]
)  # fmt: skip
def test_a_deadline_is_given_in_words_or_seconds(text, deadline_s):
    assert Options(deadline=text).terms() == Terms(deadline_s=deadline_s)
    assert Options(deadline=text).of(TUNING).objective == Objective(deadline_s=deadline_s, confidence=0.9)


def test_a_run_that_begins_may_be_given_a_multiple_and_one_that_goes_on_may_not():
    assert Options(deadline="1.5x").of(TUNING).objective == Objective(deadline_factor=1.5, confidence=0.9)
    with pytest.raises(InvalidInput, match=r"^--deadline: must be a time since the run began, .*'1\.5x' is a multiple"):
        Options(deadline="1.5x").terms()


def test_the_choices_at_the_deadline_are_the_engines():
    assert set(ON_DEADLINE) == {choice.value for choice in OnDeadline}


def test_what_is_not_given_stays():
    assert Options().of(TUNING) == TUNING
    assert Options().terms() == Terms()
    assert Terms().objective(TUNING.objective) is TUNING.objective
    changed = Options(budget_usd=2.0, max_usd=4.0, on_deadline="stop").of(TUNING)
    assert changed.objective == Objective(budget_usd=2.0, confidence=0.9)
    assert (changed.max_usd, changed.on_deadline) == (4.0, "stop")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deadline": "soon"}, r"^--deadline: must be seconds or a duration"),
        ({"deadline": "nan"}, r"^--deadline: must be "),
        ({"deadline": "0"}, r"^--deadline: must be a finite number above 0"),
        ({"budget_usd": -1.0}, r"^--budget: must be a finite number above 0"),
        ({"max_usd": 0.0}, r"^--max-usd: must be a finite number above 0"),
        ({"on_deadline": "later"}, r"^--on-deadline: must be one of finish, stop"),
        ({"deadline": "1h", "budget_usd": 1.0}, r"must (be left out where a budget is given|set exactly one)"),
    ],
)
def test_a_wrong_term_is_refused_by_the_options_name(options, message):
    with pytest.raises(InvalidInput, match=message):
        Options(**options).terms()
    with pytest.raises(InvalidInput, match=message):
        Options(**options).of(TUNING)
