import math

import pytest

from rb_core import check
from rb_core.errors import InvalidInput


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, math.nan])
def test_a_positive_int_is_a_real_integer_from_one_up(value):
    with pytest.raises(InvalidInput, match=r"^trials: must be a positive integer, got "):
        check.positive_int("trials", value)


def test_good_values_come_back():
    assert check.positive_int("k", 3) == 3
    assert check.non_negative("k", 0) == 0.0
    assert check.positive("k", 1e-9) == 1e-9
    assert check.between("k", 0.5, 0.5, 0.9) == 0.5
    assert check.non_empty("k", " a ") == " a "
    assert check.one_of("k", "a", {"a", "b"}) == "a"


@pytest.mark.parametrize("value", [-1e-9, math.inf, math.nan, "0", None, False])
def test_a_non_negative_number_is_finite_and_no_bool(value):
    with pytest.raises(InvalidInput, match="at least 0"):
        check.non_negative("k", value)


@pytest.mark.parametrize("value", [0, -0.0, -2, math.inf, -math.inf, math.nan, True])
def test_a_positive_number_is_finite_and_above_zero(value):
    with pytest.raises(InvalidInput, match="above 0"):
        check.positive("k", value)


def test_an_integer_beyond_floats_is_told_by_its_length():
    with pytest.raises(InvalidInput, match="got an integer of 401 digits"):
        check.positive("k", 10**400)


@pytest.mark.parametrize("value", [0.4999, 0.9001, math.nan])
def test_between_includes_its_ends_only(value):
    with pytest.raises(InvalidInput, match=r"from 0\.5 to 0\.9"):
        check.between("k", value, 0.5, 0.9)


@pytest.mark.parametrize("value", ["", " \n", None, 3])
def test_a_non_empty_string_has_something_to_read(value):
    with pytest.raises(InvalidInput, match="non-empty"):
        check.non_empty("k", value)


def test_one_of_names_what_is_known():
    with pytest.raises(InvalidInput, match="must be one of a, b; got 'c'"):
        check.one_of("k", "c", ["b", "a"])


def test_an_error_seen_from_above_has_the_whole_path():
    error = InvalidInput("trials", "is bad").under("stages[2]").under("experiment")
    assert str(error) == "experiment.stages[2].trials: is bad"
    assert InvalidInput("[2].trials", "is bad").under("stages").key == "stages[2].trials"
    assert InvalidInput("", "is bad").under("stages").key == "stages"
