from __future__ import annotations

import json
import multiprocessing
import stat

import pytest

from rb_core.clock import SystemClock
from rb_core.hardware import Cloud, InstanceType, Latency, Market, MarketPolicy
from rb_core.measurement import MeasuredSpeed
from rb_core.startups import NodeStart, Pool, Refusal, Startups
from rb_plugins import latencies
from rb_plugins.config.given import Given, Speeds
from rb_plugins.informed import with_latencies, with_speeds
from rb_plugins.latencies import LatencyBook

CLOUD = Cloud(
    instance_types=(InstanceType(name="a", slots=1, usd_per_hour=1.0), InstanceType(name="b", slots=1, usd_per_hour=2)),
    launch_s=Latency(mean=30.0, std=5.0), init_s=Latency(mean=60.0), provider="ec2", region="us-west-2",
)  # fmt: skip


def pool(kind="a", *, zone="us-west-2a", region="us-west-2", market="on_demand"):
    return Pool(provider="ec2", region=region, zone=zone, instance_type=kind, market=market)


def told(count, *, run="r", of=None, launch_s=50.0, init_s=100.0, day=1, first=0):
    return Startups(
        starts=tuple(
            NodeStart(
                pool=of or pool(), run=run, node=f"{run}-{number}", utc=f"2026-11-{day:02d}T00:00:{number:02d}+00:00",
                launch_s=launch_s, init_s=init_s,
            )
            for number in range(first, first + count)
        ),
        refusals=(),
    )  # fmt: skip


@pytest.fixture
def book(tmp_path):
    return LatencyBook(tmp_path)


def add(book, startups):
    book.add(startups, SystemClock())


def test_what_a_run_saw_is_there_for_the_next_plan(book, tmp_path):
    add(book, told(5, run="r1"))
    add(book, told(4, run="r2", day=9))
    informed = with_latencies(CLOUD, Given(), book.seen(CLOUD))
    assert informed.cloud.launch_s.mean == pytest.approx((9 * 50 + 3 * 30) / 12)
    assert informed.cloud.init_s.mean == pytest.approx((9 * 100 + 3 * 60) / 12)
    launch, init = informed.notes
    assert "from 9 starts of 2 runs, last 2026-11-09, in the place of 30 s (std 5 s)" in launch
    assert init.startswith("init_s is 90 s")
    assert stat.S_IMODE((tmp_path / "latencies.json").stat().st_mode) == 0o600


def test_what_the_file_says_by_hand_stays(book):
    add(book, told(20))
    informed = with_latencies(CLOUD, Given(launch_s=True, init_s=True), book.seen(CLOUD))
    assert (informed.cloud, informed.notes) == (CLOUD, ())


def test_too_few_starts_change_nothing(book):
    add(book, told(7))
    assert with_latencies(CLOUD, Given(), book.seen(CLOUD)).cloud == CLOUD


@pytest.mark.parametrize(
    "other", [pool("c"), pool(region="eu-west-1"), pool(market="spot")], ids=["type", "region", "market"]
)
def test_pools_that_the_cloud_does_not_use_do_not_count(book, other):
    add(book, told(20, of=other))
    assert book.seen(CLOUD).every == ()


def test_a_cloud_that_may_use_both_markets_learns_from_both(book):
    add(book, told(4, of=pool(market="spot")))
    add(book, told(4, of=pool(), run="s"))
    spot = InstanceType(name="a", slots=1, usd_per_hour=1.0, market=Market.SPOT, on_demand_usd_per_hour=2.0)
    both = Cloud(
        instance_types=(spot,), provider="ec2", region="us-west-2", market=MarketPolicy.SPOT_THEN_ON_DEMAND
    )  # fmt: skip
    assert len(book.seen(both).every) == 8


def test_types_that_start_differently_are_told_of(book):
    add(book, told(8))
    add(book, told(8, run="slow", of=pool("b"), launch_s=200.0))
    notes = with_latencies(CLOUD, Given(), book.seen(CLOUD)).notes
    assert any("launch_s of b was 3 min 20 s and of a 50 s" in note for note in notes)


def test_nodes_of_this_machine_start_when_the_file_says_so(book):
    add(book, told(20, of=Pool(provider="local", region="", zone="", instance_type="a", market="on_demand")))
    here = Cloud(instance_types=CLOUD.instance_types)
    assert book.seen(here).every == ()


def test_a_run_that_goes_on_tells_of_its_nodes_once(book):
    add(book, told(5))
    add(book, told(7))
    assert len(book.seen(CLOUD).every) == 7


def test_it_is_bounded_and_keeps_the_newest(book, monkeypatch):
    monkeypatch.setattr(latencies, "MOST_STARTS", 3)
    monkeypatch.setattr(latencies, "MOST_POOLS", 2)
    for day, zone in enumerate(("us-west-2a", "us-west-2b", "us-west-2c"), start=1):
        add(book, told(5, run=zone, of=pool(zone=zone), day=day))
    kept = book.seen(CLOUD).every
    assert [row.node for row in kept] == [f"{zone}-{n}" for zone in ("us-west-2b", "us-west-2c") for n in (2, 3, 4)]


def test_refusals_are_kept_with_their_pool(book):
    refusal = Refusal(pool=pool(), run="r", utc="2026-11-01T00:00:00+00:00", reason="InsufficientInstanceCapacity")
    for _ in range(2):
        add(book, Startups(starts=(), refusals=(refusal,)))
    (kept,) = book.seen(CLOUD).refused
    assert kept.reason == "InsufficientInstanceCapacity"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"pools": [{"provider": 3}]}', "\x00\x01"])
def test_a_damaged_file_is_begun_anew_and_stops_nothing(book, tmp_path, damage):
    (tmp_path / "latencies.json").write_text(damage)
    assert book.seen(CLOUD).every == ()
    add(book, told(3))
    assert len(book.seen(CLOUD).every) == 3


def test_a_file_of_a_later_version_is_left_alone(book, tmp_path):
    (tmp_path / "latencies.json").write_text('{"schema": 2, "pools": "other"}')
    add(book, told(3))
    assert book.seen(CLOUD).every == ()
    assert json.loads((tmp_path / "latencies.json").read_text())["schema"] == 2


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path, caplog):
    add(LatencyBook(tmp_path / "missing" / "home"), told(3))
    assert "could not be kept" in caplog.text


def _add(path, number):
    LatencyBook(path).add(told(4, run=f"r{number}"), SystemClock())


def test_runs_that_end_at_once_lose_nothing(book, tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(tmp_path, number)) for number in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(book.seen(CLOUD).every) == 24


def test_measured_speeds_take_the_place_of_defaults_and_not_of_what_was_said():
    speeds = Speeds(measured={"b": MeasuredSpeed(mean=1.5, std=0.1)}, reference="a")
    faster = with_speeds(CLOUD, Given(), speeds)
    assert [found.speed for found in faster.cloud.instance_types] == [1.0, 1.5]
    assert faster.notes == ("the speed of b is 1.5 (std 0.1) of that of a, as measured",)
    by_hand = with_speeds(CLOUD, Given(speeds=frozenset("b")), speeds)
    assert by_hand.cloud == CLOUD
    assert by_hand.notes == ("the speed of b is 1, as the file has it; measured was 1.5 (std 0.1)",)


def test_a_type_that_was_not_measured_is_told_of():
    (note,) = with_speeds(CLOUD, Given(), Speeds(reference="a")).notes
    assert note.startswith("the speed of b is not known and taken for that of a")
    assert with_speeds(CLOUD, Given(), Speeds()).notes == ()
