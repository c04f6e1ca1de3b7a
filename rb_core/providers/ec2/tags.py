"""The tags by which everything that a run rents is known to be the run's."""

from __future__ import annotations

from typing import Any

RUN = "rubberband:run"
"""Id of the run: the tag that ownership is read from."""

ATTEMPT = "rubberband:attempt"
"""Token of the renting call, which is also its client token."""

NODES = "rubberband:nodes"
"""The nodes that the call was for, for people."""

OWNER = "rubberband:owner"
"""Whose run it is."""

EXPIRES = "rubberband:expires"
"""When the instance ends itself at the latest: UTC, ISO 8601 with a ``Z``."""

NAME = "Name"
"""What the console shows."""

SHARED = "rubberband:shared"
"""What outlives runs, such as the security group: its value says what it is for."""

PREFIX = "rubberband:"
"""Tags that begin so are ours alone."""

LONGEST_VALUE = 256
"""Characters of a tag's value, EC2's limit."""


def filters(run: str | None) -> list[dict[str, Any]]:
    """What EC2's lists are asked for to show a run's; everything of ours where None.

    EC2 takes ``*`` and ``?`` in a value as wildcards, so whoever asks for a run's has to look at the tag of each row.
    """
    if run is None:
        return [{"Name": "tag-key", "Values": [f"{PREFIX}*"]}]
    return [{"Name": f"tag:{RUN}", "Values": [run]}]


def listed(tags: dict[str, str]) -> list[dict[str, str]]:
    """The form that EC2's calls take."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]
