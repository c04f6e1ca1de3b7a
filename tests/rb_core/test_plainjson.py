import json
import math
from pathlib import PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rb_core.plainjson import dumps, loads, plain

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_every_plain_value_survives_and_is_json_for_everybody(value):
    text = dumps(value)
    json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    assert repr(loads(text)) == repr(plain(value))


def test_what_json_has_no_word_for_becomes_plain():
    value = {1: (np.int64(3), np.float32(0.5)), "set": {"b", "a"}, "class": int, "path": PurePosixPath("x")}
    assert plain(value) == {
        "1": [3, 0.5],
        "set": ["a", "b"],
        "class": "<class 'int'>",
        "path": "PurePosixPath('x')",
    }


def test_numbers_of_numpy_become_those_of_python():
    assert type(plain(np.float64(1.5))) is float
    assert type(plain(np.bool_(True))) is bool


def test_a_dictionary_that_only_looks_like_a_tagged_float_stays_one():
    assert loads('{"$float": "other"}') == {"$float": "other"}
    assert math.isnan(loads('{"$float": "NaN"}'))


def test_the_constants_of_python_are_not_json():
    with pytest.raises(ValueError, match="NaN is not JSON"):
        loads('{"score": NaN}')
