"""One machine on the real EC2, for cents: rented on spot, seen by its tags, ended, and collected.

    RB_AWS=1 RB_AWS_MAX_USD=0.05 RB_AWS_REGION=us-east-1 pytest -m aws tests/aws

Without both variables nothing is contacted, and the test fails rather than pass for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from rb_core.clock import SystemClock, pause
from rb_core.collecting import collect
from rb_core.estate import Known, Life
from rb_core.hardware import Cloud, InstanceType, Market
from rb_core.ports import NodeNews
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.estate import Ec2Estate
from rb_core.providers.ec2.provider import Ec2Provider

USD = 0.02
"""More than a t3.micro with 8 GiB and an address costs in half an hour, at any price that it has had."""

SETTINGS = {
    "image": "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64",
    "volume_gib": 8,
    "lifetime_s": 1800.0,
}


def budget(environment: Mapping[str, str]) -> float:
    """The budget that the environment allows. Raises ValueError where it allows none, or too little."""
    if environment.get("RB_AWS") != "1":
        raise ValueError("set RB_AWS=1 to rent on the real EC2")
    allowed = float(environment.get("RB_AWS_MAX_USD") or 0.0)
    if not allowed >= USD:
        raise ValueError(f"set RB_AWS_MAX_USD to at least {USD}, got {allowed:g}")
    return allowed


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RB_AWS": "1"},
        {"RB_AWS_MAX_USD": "1"},
        {"RB_AWS": "1", "RB_AWS_MAX_USD": "0.001"},
        {"RB_AWS": "1", "RB_AWS_MAX_USD": "nan"},
    ],
)
def test_nothing_is_rented_without_leave_and_budget(environment):
    with pytest.raises(ValueError, match="set RB_AWS"):
        budget(environment)
    assert budget({"RB_AWS": "1", "RB_AWS_MAX_USD": "0.05"}) == 0.05


@pytest.mark.aws
@pytest.mark.timeout(1200)
def test_one_machine_is_rented_seen_ended_and_collected():
    budget(os.environ)
    region = os.environ.get("RB_AWS_REGION", "us-east-1")
    clock = SystemClock()
    inbox = clock.inbox()
    micro = InstanceType(name="t3.micro", slots=1, usd_per_hour=0.0104, market=Market.SPOT)
    cloud = Cloud(instance_types=(micro,), region=region, provider="ec2", settings=SETTINGS)
    run = f"smoke-{clock.utc():%Y%m%d-%H%M%S}"
    provider, estate = Ec2Provider(cloud=cloud, clock=clock, inbox=inbox), Ec2Estate(Clients(region))
    closed = {run: Known(life=Life.CLOSED)}
    try:
        provider.launch([f"{run}-0"], micro, run=run)
        notice = inbox.get(clock.now() + 300.0)
        assert notice is not None
        assert notice.kind is NodeNews.RUNNING
        (seen,) = estate.look(region, run=run).belongings
        assert (seen.run, seen.market, seen.shape) == (run, "spot", "t3.micro")
        assert seen.expires is not None
        provider.release([f"{run}-0"])
        for _ in range(60):
            if not provider.owned(run):
                break
            pause(clock, 5.0)
        assert not provider.owned(run)
    finally:
        collected = collect(estate, [region], lambda: closed, clock, run=run)
        provider.close()
        estate.close()
    assert (collected.troubles, collected.left) == ((), ())
