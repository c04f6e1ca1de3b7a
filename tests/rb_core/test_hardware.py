import dataclasses

import pytest

from rb_core.errors import InvalidInput
from rb_core.hardware import Billing, Cloud, InstanceType, Latency, Market, Offering, PriceBook, PriceDate

A = InstanceType(name="a", slots=2, usd_per_hour=3.6)
BOOK = PriceBook(
    name="ec2",
    dated="2026-01-02",
    source="the price list",
    offerings=(
        Offering(instance_type=A, region="west"),
        Offering(instance_type=dataclasses.replace(A, usd_per_hour=1.0, market=Market.SPOT), region="east"),
        Offering(instance_type=InstanceType(name="0", slots=1, usd_per_hour=1.0), region="west"),
    ),
)


def test_prices_by_the_second():
    assert A.usd_per_s == pytest.approx(0.001)


def test_a_free_node_is_allowed():
    assert InstanceType(name="mine", slots=1, usd_per_hour=0).usd_per_s == 0


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"name": " "}, "name"),
        ({"slots": 0}, "slots"),
        ({"usd_per_hour": -1}, "usd_per_hour"),
        ({"speed": 0}, "speed"),
        ({"speed": float("inf")}, "speed"),
    ],
)
def test_an_instance_type_refuses_by_name(change, key):
    with pytest.raises(InvalidInput) as caught:
        dataclasses.replace(A, **change)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"instance_types": ()}, "instance_types"),
        ({"instance_types": (A, dataclasses.replace(A, slots=4))}, "instance_types[1].name"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"dataset_gib": -1}, "dataset_gib"),
        ({"transfer_usd_per_gib": float("nan")}, "transfer_usd_per_gib"),
        ({"provider": ""}, "provider"),
    ],
)
def test_a_cloud_refuses_by_name(change, key):
    with pytest.raises(InvalidInput) as caught:
        dataclasses.replace(Cloud(instance_types=(A,)), **change)
    assert caught.value.key == key


@pytest.mark.parametrize("change", [{"granularity_s": 0}, {"minimum_s": -1}])
def test_a_billing_rule_refuses_what_cannot_be(change):
    with pytest.raises(InvalidInput):
        Billing(**change)


def test_latencies_refuse_what_cannot_be():
    with pytest.raises(InvalidInput, match="mean"):
        Latency(mean=-1)
    with pytest.raises(InvalidInput, match="std"):
        Latency(mean=1, std=-1)


def test_an_unknown_type_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match=r"\(a\), got 'b'"):
        Cloud(instance_types=(A,)).instance_type("b")


def test_data_and_noise():
    cloud = Cloud(instance_types=(A,), dataset_gib=3, transfer_usd_per_gib=0.5)
    assert cloud.data_usd == 1.5
    assert not cloud.noisy
    assert dataclasses.replace(cloud, init_s=Latency(mean=1, std=0.1)).noisy
    assert dataclasses.replace(cloud, launch_s=Latency(mean=1, std=0.1)).noisy


def test_a_price_book_answers_what_it_knows():
    assert BOOK.offering("a", region="west").instance_type.usd_per_hour == 3.6
    assert BOOK.offering("a", region="east", market=Market.SPOT).instance_type.usd_per_hour == 1.0
    assert {name: len(rows) for name, rows in BOOK.by_name().items()} == {"0": 1, "a": 2}
    assert list(BOOK.by_name()) == ["0", "a"]


def test_a_price_book_refuses_what_it_does_not_know():
    with pytest.raises(InvalidInput, match="'b' is not in the ec2 price book of 2026-01-02"):
        BOOK.offering("b", region="west")
    with pytest.raises(InvalidInput, match="it has one in east/spot, west/on_demand"):
        BOOK.offering("a", region="east")


@pytest.mark.parametrize(
    "dated", ["", "July", "2026-7-20", "2026-13-01", "2026-07-32", "0000-07-20", "2026-07", "26-07-2026"]
)
def test_prices_have_a_date_that_is_one(dated):
    with pytest.raises(InvalidInput, match=r"^dated: must be a date such as 2026-07-20"):
        PriceDate(book="b", dated=dated)


def test_of_several_zones_the_dearest_that_may_be_used_counts():
    def spot(zone, usd):
        kind = InstanceType(name="a", slots=1, usd_per_hour=usd, market=Market.SPOT)
        return Offering(instance_type=kind, region="r", zone=zone)

    book = PriceBook(name="b", dated="", source="s", offerings=(spot("x", 1.0), spot("y", 3.0), spot("z", 2.0)))
    assert book.prices is None
    for zones, dearest in ({(): "y", ("x", "z"): "z", ("x", "gone"): "x"}).items():
        assert book.offering("a", region="r", market=Market.SPOT, zones=zones).zone == dearest
    with pytest.raises(InvalidInput, match=r"no spot price in q in the b price book; it has one in x, y, z"):
        book.offering("a", region="r", market=Market.SPOT, zones=["q"])
