from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from rb_core.errors import InvalidInput
from rb_core.space import check_space, distribution, sample

SPACE = {
    "lr": stats.loguniform(1e-4, 1e-1),
    "momentum": stats.uniform(0.5, 0.49),
    "layers": stats.randint(1, 4),
    "width": [16, 32, 64],
}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("method", ["random", "sobol"])
def test_values_are_plain_and_within_the_space(method):
    configs = sample(SPACE, 50, rng=rng(), method=method)
    assert len(configs) == 50
    assert json.loads(json.dumps(configs)) == list(configs)
    for config in configs:
        assert list(config) == list(SPACE)
        assert type(config["lr"]) is float
        assert 1e-4 <= config["lr"] <= 1e-1
        assert 0.5 <= config["momentum"] <= 0.99
        assert type(config["layers"]) is int
        assert config["layers"] in (1, 2, 3)
        assert type(config["width"]) is int
        assert config["width"] in SPACE["width"]
    assert {config["layers"] for config in configs} == {1, 2, 3}


@pytest.mark.parametrize("method", ["random", "sobol"])
def test_a_seed_repeats_and_the_order_of_names_is_of_no_consequence(method):
    once = sample(SPACE, 7, rng=rng(3), method=method)
    assert once == sample(dict(reversed(SPACE.items())), 7, rng=rng(3), method=method)
    assert once != sample(SPACE, 7, rng=rng(4), method=method)


def test_sobol_puts_one_draw_into_every_cell():
    configs = sample({"x": stats.uniform(0, 1)}, 64, rng=rng(1), method="sobol")
    assert sorted(int(config["x"] * 64) for config in configs) == list(range(64))


def test_random_follows_the_distribution():
    draws = [config["x"] for config in sample({"x": stats.norm(3, 2)}, 2000, rng=rng(5))]
    assert stats.kstest(draws, stats.norm(3, 2).cdf).pvalue > 0.01


def test_choices_alone_are_drawn_without_replacement():
    space = {"a": [1, 2, 3], "b": ["x", "y"]}
    first = sample(space, 6, rng=rng())
    assert len({tuple(config.items()) for config in first}) == 6
    again = [tuple(config.items()) for config in sample(space, 14, rng=rng())]
    assert sorted(again.count(config) for config in set(again)) == [2, 2, 2, 2, 3, 3]


def test_numpy_values_and_tuples_become_plain():
    space = {"a": np.array([1, 2]), "b": [np.float32(0.5)], "c": [(1, 2)]}
    config = sample(space, 1, rng=rng())[0]
    assert type(config["a"]) is int
    assert config["b"] == 0.5
    assert config["c"] == [1, 2]


@pytest.mark.parametrize(
    ("space", "key"),
    [
        ({}, "space"),
        ({"": [1]}, "space"),
        ({"a": 3}, "space.a"),
        ({"a": "abc"}, "space.a"),
        ({"a": []}, "space.a"),
        ({"a": [1, float("nan")]}, "space.a[1]"),
        ({"a": [print]}, "space.a[0]"),
        ({"a": [[1, object()]]}, "space.a[0][1]"),
    ],
)
def test_what_is_no_space_is_named(space, key):
    with pytest.raises(InvalidInput) as caught:
        check_space(space)
    assert caught.value.key == key


def test_a_distribution_without_finite_quantiles_is_refused():
    with pytest.raises(InvalidInput, match=r"^space\.a: "):
        sample({"a": stats.uniform(0, -1)}, 3, rng=rng())


def test_named_uniform_takes_low_and_high():
    assert distribution("uniform", [0.5, 0.75], key="k").ppf(1.0) == 0.75
    assert distribution("norm", [10, 2], key="k").ppf(0.5) == 10


@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [
        ("loguniformly", [1, 2], "k"),
        ("pearsonr", [1, 2], "k"),
        ("loguniform", [0, 1], "k[0]"),
        ("loguniform", [2, 1], "k"),
        ("loguniform", [1, "x"], "k[1]"),
        ("uniform", [1], "k"),
        ("uniform", [1, float("inf")], "k[1]"),
        ("randint", [1, 2.5], "k"),
        ("randint", [True, 3], "k[0]"),
        ("norm", [1, 2, 3], "k"),
        ("norm", [0, -1], "k"),
    ],
)
def test_a_bad_named_distribution_is_refused_under_its_key(name, arguments, key):
    with pytest.raises(InvalidInput) as caught:
        distribution(name, arguments, key="k")
    assert caught.value.key == key
