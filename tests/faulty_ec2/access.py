"""Who may call what: wrong and expired credentials, denied actions, and the little that a node may."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from faulty_ec2.signature import is_signed_by
from faulty_ec2.wire import Call, Refusal

NODE_RIGHTS = ("ssm:GetParameter", "ssm:GetParameters", "s3:*", "sts:GetCallerIdentity")
"""What the credentials of an instance may call. Of EC2, nothing."""

_EXPIRED = {"ec2": "RequestExpired", "ssm": "ExpiredTokenException"}
_WRONG = {"ec2": "AuthFailure", "sts": "InvalidClientTokenId", "s3": "InvalidAccessKeyId"}
_DENIED = {"ec2": "UnauthorizedOperation", "ssm": "AccessDeniedException"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCredentials:
    """What an instance gets from its metadata."""

    key: str
    secret: str
    session: str


class Access:
    """Rules for credentials.

    Attributes:
        denied: actions that the driver may not call, `ec2:RunInstances` or with `*`; `ec2:CreateTags/volume` denies
            tags on new volumes, and with them the launch that asks for such.
        expires_s: when the driver's credentials expire, by the clock; None never.
        wrong: whether AWS does not know them.
        node_rights: what instances may call.
    """

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.expires_s: float | None = None
        self.wrong = False
        self.node_rights = NODE_RIGHTS
        self._nodes: dict[str, NodeCredentials] = {}

    def for_node(self, instance: str, role: str) -> NodeCredentials:
        """The credentials of an instance; always the same."""
        if instance not in self._nodes:
            digest = hashlib.sha256(f"{instance}/{role}".encode()).hexdigest().upper()
            self._nodes[instance] = NodeCredentials(
                key=f"ASIA{digest[:16]}", secret=secrets.token_urlsafe(30), session=secrets.token_urlsafe(60)
            )
        return self._nodes[instance]

    def check(self, call: Call, environ: Mapping[str, Any]) -> None:
        """Refuse what the caller may not. Of instances the signature is checked too, for their secrets are known.

        Raises:
            Refusal: with the code that the service has for it.
        """
        names = _names(call)
        node = next((node for node in self._nodes.values() if node.key == call.key), None)
        if node is not None:
            if environ.get("HTTP_X_AMZ_SECURITY_TOKEN") != node.session:
                raise Refusal(_WRONG.get(call.service, "UnrecognizedClientException"), "The security token is invalid.")
            if not is_signed_by(environ, call.body, node.secret):
                code = "SignatureDoesNotMatch" if call.service in ("s3", "sts") else "InvalidSignatureException"
                raise Refusal(code, "The request signature we calculated does not match the signature you provided.")
            if not all(any(fnmatchcase(name, right) for right in self.node_rights) for name in names):
                raise _denial(call)
            return
        if self.wrong and call.key:
            raise Refusal(
                _WRONG.get(call.service, "UnrecognizedClientException"),
                "AWS was not able to validate the provided access credentials",
            )
        if self.expires_s is not None and call.key and call.at_s >= self.expires_s:
            code = _EXPIRED.get(call.service, "ExpiredToken")
            raise Refusal(code, "The security token included in the request is expired")
        if any(fnmatchcase(name, rule) for name in names for rule in self.denied):
            raise _denial(call)


def _names(call: Call) -> list[str]:
    """The rights that a call needs, by their names in IAM."""
    if call.service == "s3":
        method = call.action.partition(" ")[0].title()
        has_object = call.action.count("/") > 1
        return [f"s3:{'Get' if method == 'Head' else method}{'Object' if has_object else 'Bucket'}"]
    names = [f"{call.service}:{call.action}"]
    if call.service == "ec2" and not call.action.startswith("CreateTags"):
        tagged = [value for name, value in call.params.items() if name.endswith(".ResourceType")]
        names += [f"ec2:CreateTags/{resource}" for resource in tagged]
    return names


def _denial(call: Call) -> Refusal:
    code = _DENIED.get(call.service, "AccessDenied")
    return Refusal(code, f"You are not authorized to perform this operation: {call.service}:{call.action}.")
