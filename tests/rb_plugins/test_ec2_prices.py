from __future__ import annotations

import math
from datetime import UTC, date, datetime

import pytest

from rb_core.clock import ManualClock
from rb_core.errors import InvalidInput
from rb_core.hardware import Market
from rb_plugins.ec2_prices import price_book
from rb_plugins.manager import make_manager
from rb_plugins.session import Session


def test_the_snapshot_is_dated_and_names_its_source():
    book = price_book()
    assert date.fromisoformat(book.dated) == date(2026, 7, 20)
    assert "AWS Price List API" in book.source


@pytest.mark.parametrize(
    ("name", "region", "market", "slots", "usd_per_hour", "accelerator"),
    [
        ("p3.8xlarge", "us-east-1", Market.ON_DEMAND, 4, 12.24, "V100"),
        ("p3.8xlarge", "us-west-2", Market.SPOT, 4, 3.0794, "V100"),
        ("g5.12xlarge", "us-east-1", Market.ON_DEMAND, 4, 5.672, "A10G"),
        ("c5.xlarge", "us-east-1", Market.ON_DEMAND, 4, 0.17, ""),
    ],
)
def test_rows(name, region, market, slots, usd_per_hour, accelerator):
    offering = price_book().offering(name, region=region, market=market)
    assert (offering.instance_type.slots, offering.accelerator) == (slots, accelerator)
    assert offering.instance_type.usd_per_hour == usd_per_hour


def test_no_row_is_there_twice_and_spot_is_never_dearer():
    offerings = price_book().offerings
    rows = {(o.instance_type.name, o.region, o.instance_type.market): o.instance_type for o in offerings}
    assert len(rows) == len(offerings) > 70
    for (name, region, market), instance_type in rows.items():
        assert instance_type.usd_per_hour > 0
        if market is Market.SPOT:
            assert instance_type.usd_per_hour <= rows[name, region, Market.ON_DEMAND].usd_per_hour


def test_what_the_snapshot_does_not_know_is_refused_with_what_it_knows():
    with pytest.raises(InvalidInput, match=r"'p9\.huge' is not in the ec2 price book of 2026-07-20"):
        price_book().offering("p9.huge", region="us-east-1")
    with pytest.raises(InvalidInput, match=r"no spot price in 'us-east-1'.*us-east-1/on_demand"):
        price_book().offering("m5.large", region="us-east-1", market=Market.SPOT)


def test_init_latency_is_the_lognormal_that_it_claims_to_be():
    init = price_book().init_s
    variance = math.log(1 + (init.std / init.mean) ** 2)
    median = init.mean / math.sqrt(1 + (init.std / init.mean) ** 2)
    assert median == pytest.approx(150, rel=0.01)
    assert median * math.exp(1.6449 * math.sqrt(variance)) == pytest.approx(300, rel=0.01)


@pytest.mark.parametrize(("today", "warned"), [(datetime(2027, 1, 16), False), (datetime(2027, 1, 17), True)])
def test_a_book_older_than_180_days_is_warned_of(today, warned, caplog):
    session = Session(manager=make_manager(autoload=False), clock=ManualClock(epoch=today.replace(tzinfo=UTC)))
    assert session.price_book("ec2") == price_book()
    assert ("'ec2' are of 2026-07-20, 181 days ago" in caplog.text) is warned
