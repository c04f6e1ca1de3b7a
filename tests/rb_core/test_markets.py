"""The market that nodes are asked for in: whatever the times are, and at the edges by hand."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_reference import worked_problem

from rb_core.errors import InvalidInput
from rb_core.hardware import Market, MarketPolicy
from rb_core.markets import (
    MARGIN,
    Outlook,
    bought,
    changeover_s,
    check_markets,
    falls_back,
    latest_on_spot_s,
    market_for,
    on_demand,
    with_way_off_s,
)

seconds = st.floats(0.0, 1e6)
before = st.sampled_from(Market)
outlooks = st.builds(Outlook, left_s=seconds, spot_s=seconds, on_demand_s=seconds, changeover_s=st.floats(1.0, 1e4))


@given(outlooks, before, st.booleans())
def test_with_the_slack_used_up_it_is_on_demand_and_only_then_or_refused_and_late(outlook, market, refused):
    chosen = market_for(outlook, market, refused=refused)
    if outlook.slack_s <= 0:
        assert chosen is Market.ON_DEMAND
    elif market is Market.SPOT:
        late = outlook.spot_s > outlook.left_s
        assert chosen is (Market.ON_DEMAND if refused and late else Market.SPOT)


@given(outlooks, before, st.booleans(), seconds)
def test_more_time_never_leads_off_spot(outlook, market, refused, more_s):
    roomier = dataclasses.replace(outlook, left_s=outlook.left_s + more_s)
    if market_for(outlook, market, refused=refused) is Market.SPOT:
        assert market_for(roomier, market, refused=refused) is Market.SPOT


@given(outlooks, before)
def test_nobody_goes_back_and_forth_on_the_same_outlook(outlook, market):
    chosen = market_for(outlook, market)
    assert market_for(outlook, chosen) is chosen


@given(outlooks)
def test_who_has_left_spot_is_harder_to_bring_back_than_to_keep_there(outlook):
    if market_for(outlook, Market.ON_DEMAND) is Market.SPOT:
        assert market_for(outlook, Market.SPOT) is Market.SPOT
        assert outlook.spot_s + 2 * outlook.changeover_s <= outlook.left_s


@given(outlooks)
def test_on_demand_it_stays_while_nothing_but_time_goes_by(outlook):
    # On demand what is left to do and the time left shrink alike.
    if market_for(outlook, Market.SPOT) is Market.ON_DEMAND:
        later = dataclasses.replace(
            outlook, left_s=outlook.left_s - outlook.on_demand_s, on_demand_s=0.0, spot_s=outlook.spot_s
        )
        assert market_for(later, Market.ON_DEMAND) is Market.ON_DEMAND


def test_the_edges_by_hand():
    outlook = Outlook(left_s=1000.0, spot_s=900.0, on_demand_s=800.0, changeover_s=199.0)
    assert outlook.slack_s == 1.0
    assert market_for(outlook, Market.SPOT) is Market.SPOT
    assert market_for(dataclasses.replace(outlook, changeover_s=200.0), Market.SPOT) is Market.ON_DEMAND
    late = Outlook(left_s=1000.0, spot_s=1001.0, on_demand_s=500.0, changeover_s=100.0)
    assert market_for(late, Market.SPOT) is Market.SPOT
    assert market_for(late, Market.SPOT, refused=True) is Market.ON_DEMAND
    assert market_for(late, Market.ON_DEMAND) is Market.ON_DEMAND
    back = Outlook(left_s=1000.0, spot_s=800.0, on_demand_s=500.0, changeover_s=100.0)
    assert market_for(back, Market.ON_DEMAND) is Market.SPOT
    assert market_for(back, Market.ON_DEMAND, refused=True) is Market.ON_DEMAND


def spot_problem(policy=MarketPolicy.SPOT_THEN_ON_DEMAND, price=3.6):
    problem = worked_problem()
    kind = dataclasses.replace(
        problem.cloud.instance_types[0], usd_per_hour=1.2, market=Market.SPOT, interruptions_per_hour=0.5,
        on_demand_usd_per_hour=price,
    )  # fmt: skip
    cloud = dataclasses.replace(problem.cloud, instance_types=(kind,), market=policy)
    return dataclasses.replace(problem, cloud=cloud)


def test_the_way_off_spot_is_the_start_of_a_node_and_of_a_trial():
    problem = spot_problem()
    assert changeover_s(problem) == 30 + 60 + 5 + 1
    assert latest_on_spot_s(problem, 1000.0) == 1000 * (1 - MARGIN) - 96
    assert latest_on_spot_s(problem, with_way_off_s(problem, 700.0)) == pytest.approx(700.0)


def test_what_is_bought_on_demand_is_not_taken_away():
    problem = spot_problem()
    kind = problem.cloud.instance_types[0]
    assert bought(kind, Market.SPOT) is kind
    dear = bought(kind, Market.ON_DEMAND)
    assert (dear.name, dear.usd_per_hour, dear.interruptions_per_hour) == (kind.name, 3.6, 0.0)
    assert on_demand(problem).cloud.instance_types == (dear,)
    assert falls_back(problem)
    assert not falls_back(on_demand(problem))
    assert not falls_back(spot_problem(MarketPolicy.SPOT))


def test_a_fall_back_without_a_price_is_refused():
    check_markets(spot_problem(MarketPolicy.SPOT, price=None).cloud)
    with pytest.raises(InvalidInput, match="on_demand_usd_per_hour: of 'a' is not known; give it"):
        check_markets(spot_problem(price=None).cloud)
