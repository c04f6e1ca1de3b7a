"""Nodes on spot are billed at what they cost in their zone, not at what was planned."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from ec2_world import CPU, REGION, RUN, SPOT, cloud_of, world
from test_ec2_launching import names

from rb_core.cluster import Cluster
from rb_core.hardware import Latency
from rb_core.learning import Learning
from rb_core.ledger import ledger
from rb_core.ports import NodeNews
from rb_core.profile import ScalingProfile

DISK_USD = 100 * 0.08 / 720
ADDRESS_USD = 0.005
PLANNED = replace(
    SPOT, usd_per_hour=0.31 + DISK_USD + ADDRESS_USD, disk_usd_per_hour=DISK_USD, address_usd_per_hour=ADDRESS_USD
)
PRICES = {(SPOT.name, f"{REGION}a"): 0.16, (SPOT.name, f"{REGION}b"): 0.29}
ROOM = {(SPOT.name, f"{REGION}a", "spot"): 2}


def running(w, seconds=30.0):
    return [notice for notice in w.wait(seconds) if notice.kind is NodeNews.RUNNING]


def test_the_ledger_of_nodes_in_two_zones_is_the_bill():
    with world(boot_s=20.0, spot_usd_per_hour=PRICES, capacity=ROOM) as w:
        cloud = replace(cloud_of(w.settings), instance_types=(PLANNED,))
        learning = Learning(ScalingProfile(iteration_s={1: Latency(mean=1.0)}), cloud)
        cluster = Cluster(
            w.provider, w.journal, w.clock, w.inbox, learning=learning, run=RUN,
            names=(f"{RUN}-{number}" for number in itertools.count()), admit=lambda count, kind: None,
        )  # fmt: skip
        with cluster:
            cluster.resize(PLANNED, 4, chain=0, stage=0)
            while (notice := w.inbox.get(1800.0)) is not None:
                cluster.took(notice)
            assert len(cluster.usable) == 4
        ours = ledger(w.journal.state, cloud)
        theirs = w.cloud.bill({(kind, zone, "spot"): usd for (kind, zone), usd in PRICES.items()})
        assert {node.zone for node in w.journal.state.nodes.values()} == {f"{REGION}a", f"{REGION}b"}
        assert ours.cost_usd == pytest.approx(theirs.total_usd, rel=0.01)
        assert ours.items.spot_usd == pytest.approx(theirs.of("instance"), rel=0.01)
        planned_usd = 4 * 0.5 * PLANNED.usd_per_hour
        assert ours.cost_usd < 0.8 * planned_usd
        assert w.cloud.counts()["DescribeSpotPriceHistory"] == 1


def test_a_type_is_asked_for_once_however_many_calls_and_looks_its_nodes_take():
    with world(boot_s=20.0, spot_usd_per_hour=PRICES, capacity=ROOM) as w:
        w.provider.launch(names(3), PLANNED, run=RUN)
        w.wait(30.0)
        w.provider.launch(names(3, 3), PLANNED, run=RUN)
        told = running(w, 60.0)
        assert [notice.usd_per_hour for notice in told] == [pytest.approx(0.29 + DISK_USD + ADDRESS_USD)] * 3
        assert w.cloud.counts()["DescribeSpotPriceHistory"] == 1


def test_what_runs_later_costs_what_spot_costs_then():
    with world(spot_usd_per_hour=PRICES) as w:
        w.provider.launch(names(1), PLANNED, run=RUN)
        (first,) = running(w)
        w.wait(1200.0)
        w.cloud.spot_usd_per_hour[SPOT.name, f"{REGION}a"] = 0.22
        w.provider.launch(names(1, 1), PLANNED, run=RUN)
        (second,) = running(w)
        assert second.usd_per_hour - first.usd_per_hour == pytest.approx(0.06)


def test_on_demand_the_planned_price_stands_and_nobody_is_asked():
    with world(spot_usd_per_hour=PRICES) as w:
        w.provider.launch(names(1), CPU, run=RUN)
        w.provider.launch(names(1, 1), replace(PLANNED, on_demand_usd_per_hour=0.55).on_demand(), run=RUN)
        assert [notice.usd_per_hour for notice in running(w)] == [None, None]
        assert w.cloud.counts()["DescribeSpotPriceHistory"] == 0


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "RequestLimitExceeded"])
def test_without_an_answer_the_planned_price_stands_and_a_warning_says_so(code):
    with world(spot_usd_per_hour=PRICES, boot_s=3.0) as w:
        w.cloud.fault("DescribeSpotPriceHistory", "error", code=code, times=None)
        w.provider.launch(names(1), PLANNED, run=RUN)
        w.provider.launch(names(1, 1), PLANNED, run=RUN)
        assert [notice.usd_per_hour for notice in running(w)] == [None, None]
        (warned,) = w.events("Warned")
        assert "billed at the planned price" in warned.text
        assert w.cloud.counts()["DescribeSpotPriceHistory"] == 1


def test_a_zone_without_a_price_is_told_of():
    with world(spot_usd_per_hour={(SPOT.name, f"{REGION}b"): 0.29}) as w:
        w.provider.launch(names(1), PLANNED, run=RUN)
        assert [notice.usd_per_hour for notice in running(w)] == [None]
        (warned,) = w.events("Warned")
        assert f"no spot price of {SPOT.name} in {REGION}a" in warned.text
