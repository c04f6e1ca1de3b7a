"""The metadata service (IMDSv2) of each instance, under /imds/<instance id>/latest/."""

from __future__ import annotations

import json
import secrets
from datetime import timedelta

from faulty_ec2 import moto_side
from faulty_ec2.access import Access
from faulty_ec2.instances import Record
from faulty_ec2.wire import Answer
from faulty_ec2.world import World

CREDENTIALS_S = 6 * 3600.0
"""How long an instance's credentials last."""


class Metadata:
    """What instances are told about themselves.

    Attributes:
        notices: further entries by instance id and path below `meta-data/`, such as `spot/instance-action`.
    """

    def __init__(self, world: World, access: Access) -> None:
        self._world = world
        self._access = access
        self._sessions: dict[str, tuple[str, float]] = {}
        self.notices: dict[str, dict[str, str]] = {}

    def answer(self, method: str, instance: str, path: str, token: str, lives_s: str) -> Answer:
        """One request.

        Args:
            method: HTTP method.
            instance: whose metadata.
            path: from `latest/` on.
            token: the session token that came with it.
            lives_s: for how long a new one is asked, in seconds.
        """
        record = self._world.records.get(instance)
        if record is None or record.state not in ("running", "shutting-down"):
            return _text(404)
        if path == "latest/api/token":
            if method != "PUT" or not lives_s.isdigit() or not 1 <= int(lives_s) <= 21600:
                return _text(400)
            made = secrets.token_urlsafe(24)
            self._sessions[made] = (instance, self._world.now() + float(lives_s))
            return Answer(body=made.encode(), kind="text/plain", headers=((_TTL, lives_s),))
        whose, until_s = self._sessions.get(token, ("", 0.0))
        if whose != instance or self._world.now() >= until_s:
            return _text(401)
        if method != "GET":
            return _text(405)
        if path == "latest/user-data":
            return Answer(body=record.user_data, kind="text/plain") if record.user_data else _text(404)
        if path == "latest/dynamic/instance-identity/document":
            return _text(200, json.dumps(_identity(record)))
        if not path.startswith("latest/meta-data/"):
            return _text(404)
        value = self._entry(record, path.removeprefix("latest/meta-data/"))
        return _text(404) if value is None else _text(200, value)

    def _entry(self, record: Record, path: str) -> str | None:
        noticed = self.notices.get(record.id, {})
        if path in noticed:
            return noticed[path]
        plain = {**_plain(record), **_network(record)}
        if path in plain:
            return plain[path]
        credentials = "iam/security-credentials/"
        if record.role and path in (credentials, credentials.rstrip("/")):
            return record.role
        if record.role and path == credentials + record.role:
            until = self._world.clock.utc() + timedelta(seconds=CREDENTIALS_S)
            given = self._access.for_node(record.id, record.role)
            return json.dumps(
                {
                    "Code": "Success",
                    "LastUpdated": self._world.clock.utc().strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "Type": "AWS-HMAC",
                    "AccessKeyId": given.key,
                    "SecretAccessKey": given.secret,
                    "Token": given.session,
                    "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            )
        return None


_TTL = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"


def _text(status: int, body: str = "") -> Answer:
    return Answer(status=status, body=body.encode(), kind="text/plain")


def _plain(record: Record) -> dict[str, str]:
    made = record.made
    known = {
        "ami-id": made.image_id,
        "ami-launch-index": str(made.ami_launch_index),
        "hostname": made.private_dns_name,
        "instance-id": record.id,
        "instance-life-cycle": "spot" if record.market == "spot" else "on-demand",
        "instance-type": record.type,
        "local-hostname": made.private_dns_name,
        "local-ipv4": made.private_ip,
        "placement/availability-zone": record.zone,
        "placement/region": record.region,
        "security-groups": "\n".join(group.name for group in made.security_groups),
        "services/domain": "amazonaws.com",
    }
    if record.public:
        known["public-ipv4"] = made.public_ip
    return known


def _network(record: Record) -> dict[str, str]:
    interface = record.made.nics[0]
    mac = interface.mac_address
    groups = [*record.made.security_groups] or [*interface.group_set]
    below = f"network/interfaces/macs/{mac}"
    return {
        "mac": mac,
        "network/interfaces/macs/": f"{mac}/",
        f"{below}/device-number": "0",
        f"{below}/interface-id": interface.id,
        f"{below}/local-ipv4s": record.made.private_ip,
        f"{below}/owner-id": moto_side.ACCOUNT,
        f"{below}/security-group-ids": "\n".join(group.id for group in groups),
        f"{below}/subnet-id": interface.subnet.id,
        f"{below}/vpc-id": interface.subnet.vpc_id,
        f"{below}/vpc-ipv4-cidr-block": record.made.ec2_backend.get_vpc(interface.subnet.vpc_id).cidr_block,
    }


def _identity(record: Record) -> dict[str, str]:
    return {
        "accountId": moto_side.ACCOUNT,
        "availabilityZone": record.zone,
        "imageId": record.made.image_id,
        "instanceId": record.id,
        "instanceType": record.type,
        "privateIp": record.made.private_ip,
        "region": record.region,
    }
