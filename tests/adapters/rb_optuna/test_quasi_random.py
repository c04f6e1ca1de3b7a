from __future__ import annotations

import pickle
from collections import Counter

import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from rb_optuna.quasi_random import QuasiRandom, quantile

UNIT = FloatDistribution(0.0, 1.0)
ALMOST_ONE = 1 - 2**-53


@pytest.mark.parametrize(
    ("distribution", "values"),
    [
        (CategoricalDistribution("abc"), ["a", "b", "c"]),
        (IntDistribution(-2, 2), [-2, -1, 0, 1, 2]),
        (IntDistribution(0, 8, step=4), [0, 4, 8]),
        (FloatDistribution(0.5, 2.0, step=0.5), [0.5, 1.0, 1.5, 2.0]),
        (IntDistribution(4, 4, log=True), [4]),
    ],
)
def test_every_value_has_an_equal_share(distribution, values):
    count = Counter(quantile(distribution, (k + 0.5) / 600) for k in range(600))
    assert list(count) == values
    assert set(count.values()) == {600 // len(values)}


def test_logarithmic():
    assert quantile(FloatDistribution(1e-4, 1.0, log=True), 0.5) == pytest.approx(1e-2)
    count = Counter(quantile(IntDistribution(1, 8, log=True), k / 10000) for k in range(10000))
    assert list(count) == list(range(1, 9))
    assert count[1] == pytest.approx(10000 * 0.3878, abs=2)  # log(1.5 / 0.5) / log(8.5 / 0.5)


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(0.1, 0.3),
        FloatDistribution(1e-7, 0.3, log=True),
        FloatDistribution(-10.2, 10.2, step=0.1),
        IntDistribution(1, 99, log=True),
        IntDistribution(-3, 7),
    ],
)
def test_ends_belong_to_it(distribution):
    assert quantile(distribution, 0.0) == pytest.approx(distribution.low)
    assert distribution.low <= quantile(distribution, 0.0)
    assert quantile(distribution, ALMOST_ONE) == pytest.approx(distribution.high)
    assert quantile(distribution, ALMOST_ONE) <= distribution.high


def test_unknown_distribution():
    class Other(BaseDistribution):
        def __init__(self): ...
        def to_internal_repr(self, value): ...
        def single(self): ...
        def _contains(self, value): ...

    with pytest.raises(NotImplementedError):
        quantile(Other(), 0.5)


def test_a_point_depends_on_its_number_alone():
    forward, backward = QuasiRandom(3), QuasiRandom(3)
    values = [forward.value(k, "x", UNIT) for k in range(200)]
    assert [backward.value(k, "x", UNIT) for k in reversed(range(200))] == values[::-1]
    assert QuasiRandom(4).value(0, "x", UNIT) != values[0]


def test_every_parameter_has_its_own_coordinate():
    sequence = QuasiRandom(3)
    points = [(sequence.coin(k), sequence.value(k, "x", UNIT), sequence.value(k, "y", UNIT)) for k in range(64)]
    for axis in range(3):
        assert sorted(int(point[axis] * 64) for point in points) == list(range(64))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert len({(int(point[a] * 8), int(point[b] * 8)) for point in points}) > 32


def test_more_parameters_than_coordinates():
    sequence = QuasiRandom(3)
    for k in range(200):
        sequence.value(0, f"p{k}", UNIT)
    values = [sequence.value(k, "p199", UNIT) for k in range(100)]
    assert len(set(values)) == 100
    assert 0.4 < sum(values) / 100 < 0.6
    assert sequence.value(50, "p199", UNIT) == values[50]


def test_pickled_it_is_the_same_and_small():
    sequence = QuasiRandom()
    values = [sequence.value(k, "x", UNIT) for k in range(1000)]
    data = pickle.dumps(sequence)
    assert len(data) < 1000
    copy = pickle.loads(data)
    assert [copy.value(k, "x", UNIT) for k in range(1000)] == values
    assert QuasiRandom().value(0, "x", UNIT) != values[0]
