"""Ernest's form: recovery of known curves, published scaling tables, and the refusal to guess."""

import pytest

from rb_core.ernest import ernest_s, fit_ernest
from rb_core.errors import InvalidInput

# Throughput of ResNets on 1, 2, 4 and 8 V100s of one p3.16xlarge, relative to one (HyperSched, SoCC 2019).
RESNET_18 = {1: 1.0, 2: 1 / 1.854, 4: 1 / 3.426, 8: 1 / 5.398}
RESNET_101 = {1: 1.0, 2: 1 / 1.892, 4: 1 / 3.632, 8: 1 / 6.672}


def curve(a, b, c, d):
    return lambda w: ernest_s((a, b, c, d), w)


@pytest.mark.parametrize(
    "coefficients", [(2.0, 8.0, 0.0, 0.0), (0.0, 10.0, 0.5, 0.0), (1.0, 6.0, 0.0, 0.2), (3.0, 0.0, 0.0, 1.0)]
)
@pytest.mark.parametrize("unit_s", [1e-4, 1.0, 1e4])
def test_a_curve_on_the_edge_of_the_form_is_recovered(coefficients, unit_s):
    coefficients = tuple(x * unit_s for x in coefficients)
    fit = fit_ernest({w: ernest_s(coefficients, w) for w in (1, 2, 4, 8)})
    assert fit.coefficients == pytest.approx(coefficients, abs=1e-6 * unit_s)
    assert fit.largest_residual < 1e-6
    for w, seconds in fit.predictions.items():
        assert seconds == pytest.approx(ernest_s(coefficients, w), rel=1e-6)


@pytest.mark.parametrize("table", [RESNET_18, RESNET_101])
def test_a_published_table_is_extrapolated_from_half_of_it(table):
    three = {w: table[w] for w in (1, 2, 4)}
    fit = fit_ernest(three)
    assert {3, 6} <= set(fit.predictions)
    whole = fit_ernest(table)
    assert fit.predictions[6] == pytest.approx(whole.predictions[6], rel=0.06)
    assert fit.largest_slots <= 8


def test_it_never_speaks_beyond_twice_the_largest_measured_size():
    perfect = {w: 16.0 / w for w in (1, 2, 4, 8)}
    fit = fit_ernest(perfect)
    assert fit.largest_slots == 16
    assert max(fit.predictions) == 16


def test_two_sizes_determine_nothing_beyond_the_larger():
    fit = fit_ernest({1: 1.0, 2: 0.5})
    assert fit.predictions == {}
    assert fit.largest_slots == 2


def test_two_distant_sizes_do_not_determine_what_lies_between():
    assert 4 not in fit_ernest({1: 1.0, 16: 0.5}).predictions


def test_noisy_measurements_are_vouched_for_less_far():
    quiet = fit_ernest(RESNET_101)
    noisy = fit_ernest(RESNET_101, dict.fromkeys(RESNET_101, 0.15))
    assert quiet.largest_slots > noisy.largest_slots == 8


def test_super_linear_scaling_is_stated_as_residual():
    fit = fit_ernest({1: 1.0, 2: 0.4, 4: 0.15})
    assert fit.largest_residual > 0.1
    assert min(fit.coefficients) >= 0


def test_sizes_that_get_slower_are_fitted_too():
    bad = {1: 0.055, 2: 0.075, 4: 0.180}
    fit = fit_ernest(bad)
    assert fit.coefficients[3] > 0
    assert fit.predictions[3] > bad[2]


def test_one_size_determines_no_curve():
    assert fit_ernest({2: 1.0}) is None


def test_impossible_measurements_are_refused():
    with pytest.raises(InvalidInput, match=r"measured_s\.2: must be a finite number above 0"):
        fit_ernest({1: 1.0, 2: 0.0})
    with pytest.raises(InvalidInput, match="positive integer"):
        fit_ernest({0: 1.0, 2: 1.0})
