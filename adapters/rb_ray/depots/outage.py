"""How long a store may say nothing, and what is said when it does, or refuses."""

from __future__ import annotations

import re

from rb_core.oneline import first_line

CONNECT_S = 5.0
"""Longest wait for a connection."""

SILENCE_S = 6.0
"""How long a connection may say nothing."""

ATTEMPTS = 3
"""How often a request is made, the first time included, where no answer comes or one that says to come again."""

NO_BUCKET = "NO_SUCH_BUCKET"
"""Pyarrow's word for a bucket that there is not."""

_REMEDIES = (
    (
        NO_BUCKET,
        "there is no such bucket; make it, or name another one",
    ),
    (
        r"ACCESS_DENIED|ACCESS_KEY|TOKEN|SIGNATURE|HTTP status 40[13]|InvalidAccessKey|ExpiredToken|InvalidToken",
        "access is refused (403); let the credentials of this machine (AWS_ACCESS_KEY_ID, AWS_PROFILE or its role) "
        "put, get, list and delete objects there",
    ),
    (
        r"HTTP status 301|PermanentRedirect",
        "the bucket is in another region; set AWS_REGION to its own",
    ),
    (
        r"NETWORK_CONNECTION|REQUEST_TIMEOUT|HTTP status 5\d\d|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE",
        f"no answer of use came in {ATTEMPTS} attempts, each of which may wait {CONNECT_S:g} s for a connection and "
        f"{SILENCE_S:g} s for a word; see to the network, or to AWS_ENDPOINT_URL",
    ),
)
"""What is said before what pyarrow says, by a pattern in that."""


def in_words(error: OSError) -> str:
    """What an error of pyarrow means, and the remedy where there is one."""
    said = first_line(str(error)) or type(error).__name__
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, said)), "")
    return f"{remedy} ({said})" if remedy else said
