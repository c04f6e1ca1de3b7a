"""Calls as they come over HTTP, and answers as AWS's services write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

STATUS = {
    "AuthFailure": 401,
    "DryRunOperation": 412,
    "EC2ThrottledException": 503,
    "InsufficientInstanceCapacity": 500,
    "InternalError": 500,
    "RequestLimitExceeded": 503,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "Unavailable": 503,
    "UnauthorizedOperation": 403,
    "AccessDenied": 403,
    "InvalidAccessKeyId": 403,
    "InvalidClientTokenId": 403,
    "SignatureDoesNotMatch": 403,
}
"""HTTP statuses of error codes as AWS has them; all others are 400. Capacity is a 500, which SDKs retry unasked."""


class Refusal(Exception):
    """An answer that is an error of AWS's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent back."""

    status: int = 200
    body: bytes = b""
    kind: str = "text/xml"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, kw_only=True)
class Call:
    """One call, for the log and for the `when` of a fault.

    Attributes:
        at_s: the clock's time when it came.
        service: `ec2`, `ssm`, `s3`, `sts`, ...; `imds` for an instance's metadata.
        action: the API's name of it; for S3 the method and path, for metadata the path.
        region: from the signature.
        key: access key id of the signature; empty where unsigned.
        params: the form's fields, or the JSON's top level; `path` for metadata.
        outcome: an error code, `ok`, `lost` (applied, the answer was dropped), `dropped` or `hung`.
    """

    at_s: float
    service: str
    action: str
    region: str
    key: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""
    outcome: str = "ok"

    def listed(self, name: str) -> list[str]:
        """The values `name.1`, `name.2`, ... of a form, in order."""
        found = {}
        for key, value in self.params.items():
            head, _, number = key.rpartition(".")
            if head == name and number.isdigit():
                found[int(number)] = value
        return [found[number] for number in sorted(found)]


def read_call(environ: Mapping[str, Any], body: bytes, at_s: float, region: str) -> Call:
    """What was called, by whom and where. An unsigned call is of the default `region`."""
    key, service = "", ""
    credential = str(environ.get("HTTP_AUTHORIZATION", "")).partition("Credential=")[2].partition(",")[0].split("/")
    if len(credential) == 5:
        key, _, region, service, _ = credential
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    params: Mapping[str, Any] = {}
    if target:
        action = target.partition(".")[2]
        params = json.loads(body or b"{}")
    elif str(environ.get("CONTENT_TYPE", "")).startswith("application/x-www-form-urlencoded"):
        params = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        action = params.get("Action", "")
    else:
        action = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
    return Call(at_s=at_s, service=service, action=action, region=region, key=key, params=params, body=body)


def error(service: str, code: str, message: str) -> Answer:
    """An error in the protocol of a service: XML of EC2's, of S3's or of the query services', or JSON."""
    status = STATUS.get(code, 400)
    if service == "ssm" or service == "pricing" or service == "servicequotas":
        body = json.dumps({"__type": code, "message": message}).encode()
        return Answer(status=status, body=body, kind="application/x-amz-json-1.1")
    inner = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
    if service == "s3":
        xml = f"<Error>{inner}<RequestId>shim</RequestId></Error>"
    elif service == "ec2":
        xml = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>shim</RequestID></Response>"
    else:
        xml = f"<ErrorResponse><Error><Type>Sender</Type>{inner}</Error><RequestId>shim</RequestId></ErrorResponse>"
    return Answer(status=status, body=f'<?xml version="1.0" encoding="UTF-8"?>{xml}'.encode())


def ec2_xml(action: str, inner: str) -> Answer:
    """A good answer of EC2's."""
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?><{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<requestId>shim</requestId>{inner}</{action}Response>"
    )
    return Answer(body=body.encode())
