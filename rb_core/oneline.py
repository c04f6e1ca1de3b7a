"""The one line of a longer text that says what it is about."""

from __future__ import annotations


def first_line(text: str) -> str:
    """What a text begins with, such as the reason that a trial gives; empty where there is nothing in it."""
    return (text.strip().splitlines() or [""])[0].strip()


def last_line(text: str) -> str:
    """What a text ends with, such as the name of what was raised; empty where there is nothing in it."""
    return (text.strip().splitlines() or [""])[-1].strip()
