"""Console sessions: commands and what they print, with ``...`` for what differs from time to time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a session.

    Attributes:
        line: its line within the block, from 0.
        words: what the shell is given.
        output: what is shown below it; empty where nothing is, which says nothing of what it prints.
    """

    line: int
    words: str
    output: str


def commands(text: str) -> Iterator[Command]:
    r"""The commands of a session. A line that ends with ``\`` is continued by the next one.

    Raises:
        ValueError: it does not begin with a command.
    """
    lines = text.rstrip("\n").split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].startswith("$ "):
            raise ValueError("a console block begins with a line `$ command`")
        first = at
        while lines[at].endswith("\\") and at + 1 < len(lines):
            at += 1
        words = "\n".join([lines[first].removeprefix("$ "), *lines[first + 1 : at + 1]])
        at += 1
        shown = at
        while at < len(lines) and not lines[at].startswith("$ "):
            at += 1
        yield Command(line=first, words=words, output="\n".join(lines[shown:at]).strip("\n"))


def matches(expected: str, printed: str) -> bool:
    """Whether an output is as shown: ``...`` alone on a line stands for any lines, within one for any part of it."""
    pattern = ""
    for line in expected.split("\n"):
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"\n"
    tidy = "\n".join(line.rstrip() for line in printed.strip("\n").split("\n")) + "\n"
    return re.fullmatch(pattern, tidy) is not None
