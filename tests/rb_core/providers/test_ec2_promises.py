"""Settings that would weaken a promise, or that EC2 would refuse, are refused before anything is asked of it."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType
from rb_core.providers.ec2.settings import Ec2Settings


def settings(**own: object) -> Ec2Settings:
    kind = InstanceType(name="c5.large", slots=1, usd_per_hour=0.1)
    return Ec2Settings.of(
        Cloud(instance_types=(kind,), provider="ec2", region="us-east-1", settings=MappingProxyType(own))
    )


@pytest.mark.parametrize("grace_s", [0, 9.9])
def test_a_grace_that_may_leak_nodes_has_to_be_asked_for_by_name(grace_s):
    with pytest.raises(InvalidInput, match=r"cloud\.settings\.grace_s: must be at least 10.*short_grace = true"):
        settings(grace_s=grace_s)
    assert settings(grace_s=grace_s, short_grace=True).grace_s == grace_s
    assert settings(grace_s=10).grace_s == 10


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ({"tags": {"a\nb": "c"}}, "tags"),
        ({"tags": {"team": "a\x00b"}}, "tags.team"),
        ({"owner": "me\x07"}, "owner"),
    ],
)
def test_control_characters_are_refused_before_ec2_does(own, key):
    with pytest.raises(InvalidInput, match="must have no control characters") as refused:
        settings(**own)
    assert refused.value.key == f"cloud.settings.{key}"
    assert settings(tags={"team": "größe 1 / a"}).tags == {"team": "größe 1 / a"}
