import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_reference import node_usd

from rb_core.billing import bill, billed_s
from rb_core.hardware import Billing, BillingMode


@pytest.mark.parametrize(
    ("granularity", "minimum", "held", "billed"),
    [
        (1, 60, 0, 60),
        (1, 60, 60, 60),
        (1, 60, 60.4, 61),
        (60, 60, 60.0000005, 60),
        (60, 60, 60.00001, 120),
        (3600, 0, 1, 3600),
        (3600, 0, 3601, 7200),
        (60, 90, 61, 120),
        (60, 90, 59, 90),
        (0.25, 0, 0.3, 0.5),
        (1, 0, 0, 0),
    ],
)
def test_seconds_are_rounded_up_and_at_least_the_minimum(granularity, minimum, held, billed):
    assert float(billed_s(Billing(granularity_s=granularity, minimum_s=minimum), held)) == pytest.approx(billed)


def test_a_tenth_three_times_costs_three_tenths():
    # 0.1 + 0.2 is a little above 0.3 in binary.
    assert float(billed_s(Billing(granularity_s=0.1, minimum_s=0), 0.1 + 0.2)) == pytest.approx(0.3)


def test_a_cancelled_request_is_free_even_of_its_data():
    prices = bill(Billing(), usd_per_s=1.0, running_s=[10.0, 10.0, math.inf], released_s=[9.999, 10.0, 5.0], data_usd=2)
    assert prices.tolist() == [0.0, 62.0, 0.0]


def test_functions_are_paid_by_the_trained_second_unrounded():
    rule = Billing(mode=BillingMode.PER_FUNCTION, granularity_s=60, minimum_s=600)
    prices = bill(rule, usd_per_s=2.0, running_s=0.0, released_s=100.0, trained_s=[0.0, 7.25], data_usd=1.0)
    assert prices.tolist() == [1.0, 15.5]


def test_the_result_has_the_broadcast_shape():
    prices = bill(Billing(), usd_per_s=0.001, running_s=np.zeros((3, 1)), released_s=np.full(5, 470.0))
    assert prices.shape == (3, 5)
    assert prices[2, 4] == pytest.approx(0.47)


@given(
    running=st.floats(0, 1e5),
    life=st.floats(-100, 1e5),
    granularity=st.sampled_from([1.0, 60.0, 3600.0]),
    minimum=st.sampled_from([0.0, 60.0, 3600.0]),
    mode=st.sampled_from(BillingMode),
)
def test_one_node_costs_what_the_definition_says(running, life, granularity, minimum, mode):
    rule = Billing(mode=mode, granularity_s=granularity, minimum_s=minimum)
    price = bill(rule, usd_per_s=0.01, running_s=running, released_s=running + life, data_usd=0.3)
    assert float(price) == pytest.approx(node_usd(rule, 0.01, 0.3, running, running + life))


@pytest.mark.parametrize(
    ("held_s", "reclaimed", "usd"),
    [
        (3599.0, True, 359.9),
        (3600.0, True, 3600.0),
        (3601.0, True, 3601.0),
        (3599.0, False, 3599.0),
        (1.0, True, 6.0),
        (1.0, False, 60.0),
    ],
)
def test_what_is_reclaimed_in_its_first_hour_pays_for_its_disk_and_address_alone(held_s, reclaimed, usd):
    priced = {"usd_per_s": 1.0, "beside_usd_per_s": 0.1, "running_s": 50.0, "released_s": 50.0 + held_s}
    assert float(bill(Billing(), **priced, reclaimed=reclaimed)) == pytest.approx(usd)


def test_data_is_due_in_the_first_hour_too_and_a_reclaimed_request_stays_free():
    costs = bill(Billing(), usd_per_s=1.0, running_s=[0.0, 9.0], released_s=5.0, data_usd=2.0, reclaimed=True)
    assert costs.tolist() == [2.0, 0.0]


def test_by_function_what_trained_is_paid_whoever_ended_the_node():
    rule = Billing(mode=BillingMode.PER_FUNCTION)
    cost = bill(rule, usd_per_s=2.0, running_s=0.0, released_s=100.0, trained_s=7.0, reclaimed=True)
    assert float(cost) == 14.0
