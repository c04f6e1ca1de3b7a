from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from rb_core.errors import InvalidInput
from rb_core.ports import Bootstrap
from rb_core.providers.ec2.parameter import Secret, SecretEntry, entry_name


@pytest.fixture
def ssm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        client = boto3.client("ssm", region_name="us-east-1")
        yield client
        client.close()


def secret(address: str = "10.0.0.1:5", **bootstraps: Bootstrap) -> Secret:
    return Secret.of(key=b"k" * 32, address=address, bootstraps=bootstraps)


def test_it_is_encrypted_tagged_replaced_and_removed(ssm):
    entry = SecretEntry(ssm, entry_name("run-a"), {"rubberband:run": "run-a"})
    entry.put(secret())
    entry.put(secret("10.0.0.2:6"))
    found = ssm.get_parameter(Name="/rubberband/run-a", WithDecryption=True)["Parameter"]
    assert found["Type"] == "SecureString"
    assert json.loads(found["Value"])["address"] == "10.0.0.2:6"
    tags = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=entry.name)["TagList"]
    assert tags == [{"Key": "rubberband:run", "Value": "run-a"}]
    entry.delete()
    entry.delete()
    assert ssm.describe_parameters()["Parameters"] == []


def test_variables_that_all_nodes_have_alike_are_kept_once():
    a = Bootstrap(argv=("python",), env={"RAY_AUTH_TOKEN": "t", "A": "1"})
    b = Bootstrap(argv=("python",), env={"RAY_AUTH_TOKEN": "t", "A": "2"})
    assert secret(a=a, b=a).own == {}
    both = secret(a=a, b=b)
    assert both.env == {"RAY_AUTH_TOKEN": "t"}
    assert both.own == {"a": {"A": "1"}, "b": {"A": "2"}}


def test_it_is_shown_nowhere():
    shown = repr(secret(a=Bootstrap(argv=("python",), env={"RAY_AUTH_TOKEN": "hush"})))
    assert "hush" not in shown
    assert "kkk" not in shown


def test_what_an_entry_cannot_hold_is_refused():
    with pytest.raises(InvalidInput, match="holds 4096"):
        secret(a=Bootstrap(argv=("python",), env={"LONG": "x" * 4096})).text()
