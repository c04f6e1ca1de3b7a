"""Lists of AWS, which come in pages: a look at the first one alone misses what is on the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rb_core.providers.ec2.refusals import answering


def rows(client: Any, action: str, method: str, key: str, **arguments: Any) -> list[Mapping[str, Any]]:
    """All rows of a list, to its last page.

    Args:
        client: a client that repeats its calls.
        action: the right that it takes, such as ``ec2:DescribeVolumes``.
        method: the client's name of the call.
        key: what the rows are under in each page.
        **arguments: of the call.

    Raises:
        NoAnswer: AWS did not answer.
        CallRefused: it may not be asked.
    """
    with answering(action):
        return [row for page in client.get_paginator(method).paginate(**arguments) for row in page.get(key, ())]
