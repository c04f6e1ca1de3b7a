"""How AWS is asked: one session, and a client for each way of asking."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import InvalidDefaultsMode

from rb_core.errors import InvalidInput
from rb_core.providers.ec2.refusals import answering

CONNECT_S = 5.0
"""A connection that is not made by then is given up."""

LAUNCH_READ_S = 60.0
"""Renting many instances at once may take EC2 that long to answer."""

CONTROL_READ_S = 15.0
"""Other calls are repeated after that: the engine's thread waits for them."""


class Clients:
    """Clients of one region, made when they are first used. May be used from several threads.

    Using one raises `InvalidInput` where the environment or the profile sets what boto3 does not take.

    Attributes:
        region: whose.
        session: what they are made of; its own region is not looked at.
    """

    def __init__(
        self, region: str, *, max_attempts: int = 3, session: boto3.Session | None = None, endpoint: str | None = None
    ) -> None:
        """Contacts nobody.

        Args:
            region: region of all clients.
            max_attempts: tries of a call that is safe to repeat.
            session: where credentials come from; None for boto3's own chain.
            endpoint: address of all services, in the place of AWS's.

        Raises:
            InvalidInput: AWS_PROFILE names no profile.
        """
        self.region = region
        self._endpoint = endpoint
        try:
            with answering("credentials"):
                self.session = boto3.Session() if session is None else session
        except Exception as error:
            raise InvalidInput(
                "", f"AWS credentials cannot be read: {error}; mend the files of ~/.aws, or set AWS_PROFILE"
            ) from error
        self._control = Config(
            connect_timeout=CONNECT_S,
            read_timeout=CONTROL_READ_S,
            retries={"mode": "standard", "total_max_attempts": max_attempts},
        )
        # EC2 says "no capacity" with a status that botocore would retry, and a repeated launch must be ours to decide.
        self._launch = Config(
            connect_timeout=CONNECT_S,
            read_timeout=LAUNCH_READ_S,
            retries={"mode": "standard", "total_max_attempts": 1},
        )
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def launch(self) -> Any:
        """EC2, for calls that rent: each is made once."""
        return self._client("launch", "ec2", self._launch)

    @property
    def control(self) -> Any:
        """EC2, for all other calls: they are repeated, a few times."""
        return self._client("control", "ec2", self._control)

    def service(self, name: str) -> Any:
        """Another service, such as ``sts``, ``ssm`` or ``pricing``, asked as `control` is."""
        return self._client(name, name, self._control)

    def close(self) -> None:
        """Let connections go; a later use makes new ones. Idempotent."""
        with self._lock:
            made, self._made = self._made, {}
        for client in made.values():
            client.close()

    def check(self) -> None:
        """Raise `InvalidInput` unless there are credentials and boto3 knows the region. Changes nothing."""
        if self.region not in _regions(self.session):
            raise InvalidInput(
                "cloud.region",
                f"must be a region of AWS, such as 'us-east-1', got {self.region!r}; "
                f"a newer boto3 than {boto3.__version__} may know more",
            )
        with answering("credentials"):
            found = self.session.get_credentials()
        if found is None:
            raise InvalidInput(
                "",
                "there are no AWS credentials; set AWS_PROFILE, run `aws sso login`, or set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY",
            )

    def _client(self, key: str, service: str, config: Config) -> Any:
        with self._lock:
            if key not in self._made:
                try:
                    self._made[key] = self.session.client(
                        service, region_name=self.region, config=config, endpoint_url=self._endpoint
                    )
                except (ValueError, InvalidDefaultsMode) as error:
                    raise InvalidInput(
                        "",
                        f"the SDK takes no such settings ({error}); look at the region, AWS_ENDPOINT_URL, "
                        "AWS_DEFAULTS_MODE and the profile",
                    ) from error
            return self._made[key]


def _regions(session: boto3.Session) -> frozenset[str]:
    partitions = session.get_available_partitions()
    return frozenset(region for name in partitions for region in session.get_available_regions("ec2", name))
