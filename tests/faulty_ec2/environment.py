"""The environment in which an SDK talks to the shim and to nothing else."""

from __future__ import annotations

import pytest

from faulty_ec2.server import FaultyEC2

CREDENTIALS = {"aws_access_key_id": "AKIATESTING", "aws_secret_access_key": "testing"}
"""Made-up credentials, as arguments of `boto3.client`."""


def use(monkeypatch: pytest.MonkeyPatch, cloud: FaultyEC2) -> None:
    """Let every SDK client of this process, and of those it starts, reach the shim: endpoint, credentials, region."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": cloud.url,
        "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
        "AWS_DEFAULT_REGION": cloud.region,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
