"""Marks on an axis of time: what went otherwise, each a sign in words too, that leads to its reason below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rb_core.report import duration
from rb_plugins.page.frame import legend, percent
from rb_plugins.page.markup import Markup, element, join
from rb_plugins.page.scale import Axis
from rb_plugins.page.story import Note, Sort

NOTE = "note-"
"""With the number of a note, the id of its row in the table below."""

SIGNS = {
    Sort.FAULT: "!",
    Sort.BREAK: "\u25a0",
    Sort.RESUMED: "\u00bb",
    Sort.CHANGE: "\u21bb",
    Sort.WARNING: "\u25b2",
}
"""The gravest first."""

HINT = "Left and right arrow keys go from mark to mark; a mark leads to its reason."

_LANES = (("fine", 32), ("coarse", 10))
"""Most marks side by side on a screen, and on a phone: a finger needs 24 pixels."""

_MOST_LINES = 12
"""With more marks than these, lines from each through the whole chart would hide it."""

_TOLD = 3
"""Of a mark that stands for several, so many are told in words."""


def marks(notes: Sequence[Note], axis: Axis) -> Markup:
    """Signs where the notes are in time; those that would overlap are one, with their number. Empty without notes."""
    if not notes:
        return Markup()
    return join(_lane(notes, axis, size, most) for size, most in _LANES)


def mark_lines(notes: Sequence[Note], axis: Axis, height: float) -> list[Markup]:
    """Lines down from the signs, where they are few."""
    groups = gathered(notes, axis, _LANES[0][1])
    if len(groups) > _MOST_LINES:
        return []
    lines = []
    for group in groups:
        x = percent(axis.at(notes[group[0]].t_s))
        sort = _gravest([notes[number] for number in group])
        lines.append(element("line", x1=x, x2=x, y1=0, y2=height, class_=f"event v-{sort.name.lower()}"))
    return lines


def marks_key(notes: Sequence[Note]) -> Markup:
    """What the signs mean, of the sorts that there are."""
    found = {note.sort for note in notes}
    entries = [(_badge(sort), sort.value) for sort in SIGNS if sort in found]
    return legend(*entries) if entries else Markup()


def gathered(notes: Sequence[Note], axis: Axis, most: int) -> list[list[int]]:
    """Numbers of the notes, together where they are nearer to the first of a group than a `most`-th of the axis."""
    groups: list[list[int]] = []
    for number, note in enumerate(notes):
        if groups and axis.at(note.t_s) - axis.at(notes[groups[-1][0]].t_s) < 1 / most:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _lane(notes: Sequence[Note], axis: Axis, size: str, most: int) -> Markup:
    counts = Counter(note.sort for note in notes)
    said = ", ".join(f"{sort.value}: {counts[sort]}" for sort in SIGNS if counts[sort])
    return element(
        "div",
        *(_mark([notes[number] for number in group], group[0], axis) for group in gathered(notes, axis, most)),
        class_=f"marks {size}", role="group", aria_label=f"What went otherwise ({said}). {HINT}",
    )  # fmt: skip


def _mark(group: Sequence[Note], first: int, axis: Axis) -> Markup:
    sort = _gravest(group)
    words = "; ".join(f"{duration(n.t_s)}: {n.kind}, {n.subject}: {n.reason}" for n in group[:_TOLD])
    more = f"; and {len(group) - _TOLD} more until {duration(group[-1].t_s)}" if len(group) > _TOLD else ""
    several = f"{len(group)} together, " if len(group) > 1 else ""
    return element(
        "a",
        SIGNS[sort],
        *([element("sub", str(len(group)))] if len(group) > 1 else []),
        class_=f"v v-{sort.name.lower()}",
        style=f"left:{percent(axis.at(group[0].t_s))}",
        href=f"#{NOTE}{first}",
        title=f"{words}{more}",
        aria_label=f"{sort.value} at {duration(group[0].t_s)}: {several}{group[0].kind}",
        data_words=f"{words}{more}",
    )


def _badge(sort: Sort) -> Markup:
    return element("span", SIGNS[sort], class_=f"v v-{sort.name.lower()}", aria_hidden="true")


def _gravest(group: Sequence[Note]) -> Sort:
    sorts = {note.sort for note in group}
    return next(sort for sort in SIGNS if sort in sorts)
