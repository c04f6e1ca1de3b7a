"""Elements of HTML and SVG as text: the one place where text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

_VOID = frozenset({"meta", "br", "hr"})
_EMPTY = frozenset({"rect", "line", "path", "circle", "polyline", "use"})
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
"""What HTML has no place for, and what turns the direction of the text around it."""


class Markup(str):
    """Text that is markup already, and is not escaped again. Made by this module, and of constants."""

    __slots__ = ()


def text(content: str) -> Markup:
    """Any text, such as a name or an error of somebody else's, fit for elements and attributes."""
    return Markup(escape(_CONTROLS.sub("\ufffd", content), quote=True))


def join(parts: Iterable[str]) -> Markup:
    """Parts one after the other; those that are no markup are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else text(part) for part in parts))


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element.

    Args:
        tag: its name, a constant.
        children: markup, or text, which is escaped.
        attributes: their names with ``_`` for ``-`` and at the end where Python has a keyword; a None is left out,
            and an empty string stands for itself.
    """
    given = join(
        Markup(f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"')
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    if tag in _EMPTY and not children:
        return Markup(f"<{tag}{given}/>")
    return Markup(f"<{tag}{given}>{join(children)}</{tag}>")


def number(value: float) -> str:
    """A coordinate, to two digits after the point and no longer than needed."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _value(value: str | float) -> Markup:
    return text(value) if isinstance(value, str) else Markup(number(value))
