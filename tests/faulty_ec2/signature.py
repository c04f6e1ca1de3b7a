"""Signature Version 4, checked as AWS checks it: whoever signs by hand is told when it is wrong."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote


def is_signed_by(environ: Mapping[str, Any], body: bytes, secret: str) -> bool:
    """Whether a request carries the signature that `secret` gives it.

    Args:
        environ: the request, as WSGI has it.
        body: its body.
        secret: secret access key.
    """
    fields = dict(
        part.strip().split("=", 1)
        for part in str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")[2].split(",")
        if "=" in part
    )
    if not {"Credential", "SignedHeaders", "Signature"} <= fields.keys():
        return False
    _, day, region, service, end = fields["Credential"].split("/")
    headers = "".join(f"{name}:{_header(environ, name)}\n" for name in fields["SignedHeaders"].split(";"))
    query = sorted(
        (quote(k, safe="-_.~"), quote(v, safe="-_.~"))
        for k, v in parse_qsl(str(environ.get("QUERY_STRING", "")), keep_blank_values=True)
    )
    request = "\n".join(
        (
            str(environ["REQUEST_METHOD"]),
            quote(str(environ["PATH_INFO"]), safe="/-_.~"),
            "&".join(f"{k}={v}" for k, v in query),
            headers,
            fields["SignedHeaders"],
            str(environ.get("HTTP_X_AMZ_CONTENT_SHA256") or hashlib.sha256(body).hexdigest()),
        )
    )
    scope = f"{day}/{region}/{service}/{end}"
    stamp = str(environ.get("HTTP_X_AMZ_DATE", ""))
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, end):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(hmac.new(key, text.encode(), "sha256").hexdigest(), fields["Signature"])


def _header(environ: Mapping[str, Any], name: str) -> str:
    key = name.upper().replace("-", "_")
    value = environ.get(key) if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else environ.get(f"HTTP_{key}")
    return " ".join(str(value or "").split())
