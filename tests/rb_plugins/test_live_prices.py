from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest
from click.testing import CliRunner
from faulty_ec2.pricing import PriceList, Product, Spot, disk, machine

from rb_core.clock import SystemClock
from rb_core.errors import InvalidInput, UnreadablePrices
from rb_core.hardware import Market
from rb_plugins.cli import main
from rb_plugins.config.problem import read_problem
from rb_plugins.ec2_prices import live_book
from rb_plugins.manager import make_manager
from rb_plugins.session import Session

RENEWED, STALE = "2026-12-02T10:00:00Z", "2026-12-01T10:00:00Z"


def products():
    return (
        machine("g5.xlarge", 1.006, gpu="1"),
        machine("g5.12xlarge", 5.672, gpu="4", vcpu=48, memory="192 GiB"),
        machine("g6f.large", 0.202, gpu="0.125", vcpu=2),
        machine("c5.xlarge", 0.17, memory="8 GiB"),
        machine("u-24tb1.112xlarge", 218.4, vcpu=448, memory="24,576 GiB"),
        machine("g5.xlarge", 1.258, region="eu-central-1", gpu="1"),
        disk(0.08),
        disk(0.0952, region="eu-central-1"),
    )


def on_spot():
    return [
        Spot(name="g5.xlarge", zone="us-east-1a", usd=0.9, at=STALE),
        Spot(name="g5.xlarge", zone="us-east-1b", usd=0.41, at=RENEWED),
        Spot(name="g5.xlarge", zone="us-east-1a", usd=0.45, at=RENEWED),
        Spot(name="g5.xlarge", zone="us-east-1d", usd=0.0, at=RENEWED),
        Spot(name="g5.xlarge", zone="us-east-1-bos-1a", usd=0.99, at=RENEWED),
        Spot(name="c5.xlarge", zone="us-east-1b", usd=0.07, at=RENEWED),
        Spot(name="x9.unpriced", zone="us-east-1b", usd=0.07, at=RENEWED),
    ]


@pytest.fixture(scope="module")
def server():
    with PriceList(*products()) as prices:
        yield prices


@pytest.fixture
def prices(server, monkeypatch):
    server.refusals.clear()
    for calls in (server.asked, server.history, server.files):
        calls.clear()
    server.spot[:] = on_spot()
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return server


def anonymous(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)


def priced(book, name, **where):
    return book.offering(name, region="us-east-1", **where).instance_type.usd_per_hour


def test_of_all_that_is_sold_under_a_name_the_plain_machine_is_taken(prices):
    book = live_book(region="us-east-1", instance_types=["g5.xlarge", "g5.12xlarge"])
    assert {o.instance_type.name for o in book.offerings} == {"g5.xlarge", "g5.12xlarge"}
    assert (priced(book, "g5.xlarge"), priced(book, "g5.12xlarge")) == (1.006, 5.672)
    big = book.offering("g5.12xlarge", region="us-east-1")
    assert (big.instance_type.slots, big.accelerator, big.memory_gib) == (4, "A10G", 192.0)
    assert (book.name, book.provider, book.dated) == ("aws", "ec2", SystemClock().utc().date().isoformat())
    filters = {each["Field"]: each["Value"] for each in prices.asked[0]["Filters"]}
    assert filters == {
        "regionCode": "us-east-1", "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
        "capacitystatus": "Used", "marketoption": "OnDemand", "instanceType": "g5.xlarge",
    }  # fmt: skip


def test_without_names_a_region_is_read_page_by_page(prices):
    book = live_book(region="us-east-1")
    assert {o.instance_type.name for o in book.offerings} == {
        "g5.xlarge", "g5.12xlarge", "g6f.large", "c5.xlarge", "u-24tb1.112xlarge"
    }  # fmt: skip
    assert [asked.get("NextToken") for asked in prices.asked[:2]] == [None, "3"]
    assert book.offering("g6f.large", region="us-east-1").instance_type.slots == 1
    assert book.offering("c5.xlarge", region="us-east-1").instance_type.slots == 4
    assert book.offering("u-24tb1.112xlarge", region="us-east-1").memory_gib == 24576


def test_a_region_costs_what_it_costs_its_disks_included(prices):
    here, there = (live_book(region=name, instance_types=["g5.xlarge"]) for name in ("us-east-1", "eu-central-1"))
    assert there.offering("g5.xlarge", region="eu-central-1").instance_type.usd_per_hour == 1.258
    assert here.disk_usd_per_gib_hour == pytest.approx(0.08 / 720)
    assert there.disk_usd_per_gib_hour == pytest.approx(0.0952 / 720)
    assert here.address_usd_per_hour == there.address_usd_per_hour == 0.005


def test_spot_is_the_newest_price_of_each_zone_and_of_the_dearest_that_may_be_used(prices):
    book = live_book(region="us-east-1", instance_types=["g5.xlarge", "c5.xlarge"])
    zones = {o.zone: o.instance_type.usd_per_hour for o in book.offerings if o.instance_type.name == "g5.xlarge"}
    assert zones == {"": 1.006, "us-east-1a": 0.45, "us-east-1b": 0.41}
    assert priced(book, "g5.xlarge", market=Market.SPOT) == 0.45
    assert priced(book, "g5.xlarge", market=Market.SPOT, zones=["us-east-1b", "us-east-1c"]) == 0.41
    assert priced(book, "g5.xlarge", zones=["us-east-1b"]) == 1.006
    with pytest.raises(InvalidInput, match=r"no spot price in us-east-1c in the aws price book .*; it has one in us"):
        book.offering("g5.xlarge", region="us-east-1", market=Market.SPOT, zones=["us-east-1c"])
    assert [asked.get("NextToken") for asked in prices.history] == [None, "3", "6"][: len(prices.history)]
    assert prices.history[0]["ProductDescription.1"] == "Linux/UNIX"
    assert prices.history[0]["StartTime"].startswith(book.dated)


def test_what_has_no_price_is_refused_and_never_free(prices):
    book = live_book(region="us-east-1", instance_types=["g5.12xlarge", "p9.huge"])
    with pytest.raises(InvalidInput, match=r"'p9\.huge' is not in the aws price book"):
        book.offering("p9.huge", region="us-east-1")
    with pytest.raises(InvalidInput, match=r"'g5\.12xlarge' has no spot price in 'us-east-1'.*us-east-1/on_demand"):
        book.offering("g5.12xlarge", region="us-east-1", market=Market.SPOT)
    assert all(o.instance_type.usd_per_hour > 0 for o in book.offerings)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AccessDeniedException", r"may not do pricing:GetProducts .*grant that right.*catalog = \"ec2\""),
        ("ExpiredTokenException", r"credentials have expired .*aws sso login"),
        ("UnrecognizedClientException", r"does not accept the credentials"),
    ],
)
def test_a_refusal_says_which_right_is_missing(prices, code, words):
    prices.refusals["GetProducts"] = code
    with pytest.raises(InvalidInput, match=words):
        live_book(region="us-east-1", instance_types=["g5.xlarge"])


def test_without_the_right_to_see_spot_prices_those_on_demand_are_there_and_spot_says_why_not(prices, caplog):
    prices.refusals["DescribeSpotPriceHistory"] = "UnauthorizedOperation"
    book = live_book(region="us-east-1", instance_types=["g5.xlarge"])
    assert priced(book, "g5.xlarge") == 1.006
    assert "may not do ec2:DescribeSpotPriceHistory" in caplog.text
    with pytest.raises(InvalidInput, match=r"no spot price .*may not do ec2:DescribeSpotPriceHistory"):
        book.offering("g5.xlarge", region="us-east-1", market=Market.SPOT)


def test_no_network_is_said_with_the_way_out(prices, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(UnreadablePrices, match=r"cannot be had now .*127\.0\.0\.1:9.*catalog = \"ec2\""):
        live_book(region="us-east-1", instance_types=["g5.xlarge"])


def test_without_credentials_the_public_file_gives_the_same_prices_on_demand(prices, monkeypatch, caplog):
    known = live_book(region="us-east-1")
    prices.asked.clear()
    anonymous(monkeypatch)
    book = live_book(region="us-east-1", offers_url=prices.url)
    assert prices.asked == []
    assert prices.files == ["us-east-1"]
    assert book.offerings == tuple(o for o in known.offerings if o.instance_type.market is Market.ON_DEMAND)
    assert book.disk_usd_per_gib_hour == known.disk_usd_per_gib_hour
    assert "no AWS credentials are found" in caplog.text
    with pytest.raises(InvalidInput, match=r"no spot price .*spot prices need AWS credentials"):
        book.offering("g5.xlarge", region="us-east-1", market=Market.SPOT)


def test_a_public_file_that_is_not_there_is_said(prices, monkeypatch):
    anonymous(monkeypatch)
    with pytest.raises(UnreadablePrices, match=r"public prices of 'us-west-1' cannot be read .*404.*catalog = \"ec2\""):
        live_book(region="us-west-1", offers_url=prices.url)


def test_a_public_file_without_a_column_is_not_guessed_at(monkeypatch, prices):
    anonymous(monkeypatch)
    monkeypatch.setattr("faulty_ec2.pricing.COLUMNS", {"instanceType": "Instance Type", "regionCode": "Region Code"})
    with pytest.raises(UnreadablePrices, match=r"it has no column 'CapacityStatus'"):
        live_book(region="us-east-1", offers_url=prices.url)


def test_a_price_that_is_not_in_usd_is_none(monkeypatch, prices):
    yuan = tuple(replace(p, currency="CNY") for p in prices.products if isinstance(p, Product))
    monkeypatch.setattr(prices, "products", yuan)
    assert live_book(region="us-east-1").offerings == ()


def test_the_region_is_that_of_the_environment_or_asked_for(prices, monkeypatch):
    with pytest.raises(InvalidInput, match=r"^region: is required by the catalogue aws"):
        live_book()
    with pytest.raises(InvalidInput, match=r"^region: must be a region of AWS, such as us-east-1; got 'moon'"):
        live_book(region="moon")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert {o.region for o in live_book(instance_types=["g5.xlarge"]).offerings} == {"eu-central-1"}


def test_a_cloud_of_the_live_catalogue_is_rented_from_ec2_and_keeps_the_date(prices):
    session = Session(manager=make_manager(autoload=False))
    data = {
        "experiment": {"stages": [{"trials": 2, "iterations": 1}]},
        "profile": {"iteration_s": {"1": 1.0}},
        "cloud": {
            "catalog": "aws",
            "region": "us-east-1",
            "instance_types": ["g5.xlarge"],
            "market": "spot_then_on_demand",
            "settings": {"zones": ["us-east-1b"], "volume_gib": 90},
        },
    }
    cloud = read_problem(data, folder=session.directory, price_books=session.price_book).cloud
    (found,) = cloud.instance_types
    assert cloud.provider == "ec2"
    assert cloud.prices is not None
    assert date.fromisoformat(cloud.prices.dated) == SystemClock().utc().date()
    assert found.usd_per_hour == pytest.approx(0.41 + 0.01 + 0.005)
    assert found.on_demand_usd_per_hour == pytest.approx(1.006 + 0.01 + 0.005)
    assert [len(prices.asked), len(prices.history)] == [2, 2]


def test_the_catalog_command_lists_what_is_wanted_with_the_spread_of_its_zones(prices):
    arguments = ["catalog", "aws", "--region", "us-east-1", "--gpu", "--max-usd-per-hour", "2"]
    told = CliRunner().invoke(main, [*arguments, "--json"])
    assert told.exit_code == 0, told.output
    rows = json.loads(told.stdout)["offerings"]
    assert [(row["instance_type"], row["market"], row["usd_per_hour"]) for row in rows] == [
        ("g6f.large", "on_demand", 0.202),
        ("g5.xlarge", "spot", 0.45),
        ("g5.xlarge", "on_demand", 1.006),
    ]
    assert rows[1]["zones"] == {"us-east-1a": 0.45, "us-east-1b": 0.41}
    shown = CliRunner().invoke(main, [*arguments, "--market", "spot"]).stdout
    assert "us-east-1b 0.4100, us-east-1a 0.4500" in shown
    assert "g6f.large" not in shown
