import json
import pickle

import numpy as np
import pytest

from rb_core.training.configuration import Configuration


def take(**options):
    return options


@pytest.mark.parametrize(
    ("read", "keys"),
    [
        (lambda c: c["a"], ("a",)),
        (lambda c: c.get("b", 0), ("b",)),
        (lambda c: c.get("missing", 0), ()),
        (lambda c: "a" in c, ("a",)),
        (lambda c: (c["a"], c["b"]), ("a", "b")),
        (lambda c: take(**c), ("a", "b")),
        (lambda c: dict(c), ("a", "b")),
        (lambda c: {**c}, ("a", "b")),
        (lambda c: list(c), ("a", "b")),
        (lambda c: list(c.items()), ("a", "b")),
        (lambda c: list(c.values()), ("a", "b")),
        (lambda c: c.copy(), ("a", "b")),
        (lambda c: json.dumps(c), ("a", "b")),
        (lambda c: print(c, len(c), c == {}), ()),
    ],
)
def test_it_knows_which_keys_were_read(read, keys):
    config = Configuration({"a": 1, "b": 2})
    read(config)
    assert config.keys_read() == keys


def test_it_is_a_dict_of_plain_values():
    config = Configuration({"lr": np.float64(0.5), "n": np.int64(3), "name": "x"})
    assert config == {"lr": 0.5, "n": 3, "name": "x"}
    assert [type(value) for value in config.values()] == [float, int, str]
    assert take(**config) == config
    restored = pickle.loads(pickle.dumps(config))
    assert type(restored) is dict
    assert restored == config


def test_taking_a_value_out_counts_as_reading():
    config = Configuration({"a": 1})
    assert config.pop("a") == 1
    assert config.pop("b", 2) == 2


def test_a_key_that_was_taken_out_counts_as_read():
    config = Configuration({"lr": 0.1, "width": 3})
    assert config.pop("lr") == 0.1
    config["added"] = 1
    assert config["added"] == 1
    assert config.keys_read() == ("lr",)
