"""Tables of a page, as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from rb_core.report import Table, duration
from rb_plugins.page.marks import SIGNS
from rb_plugins.page.markup import Markup, element
from rb_plugins.page.story import Doing, Note, Row, Story

MOST_ROWS = 2000
"""Longest table of a page."""

_LONG = 240
"""Longest text of a cell."""


def table(content: Table, *, rows_named: str = "", longest: int = _LONG) -> Markup:
    """A table that scrolls by itself where it is too wide.

    Args:
        content: the table.
        rows_named: with their numbers, the ids of the rows; none when empty.
        longest: most letters of a cell.
    """
    shown = content.rows[:MOST_ROWS]
    title = content.title + (
        "" if len(shown) == len(content.rows) else f" (the first {len(shown)} of {len(content.rows)})"
    )
    head = element(
        "tr",
        *(
            element("th", name, scope="col", class_="w" if content.is_left(number) else None)
            for number, name in enumerate(content.columns)
        ),
    )
    body = [
        element(
            "tr",
            *(_cell(content, number, cell, longest) for number, cell in enumerate(row)),
            id=f"{rows_named}{place}" if rows_named else None,
        )
        for place, row in enumerate(shown)
    ]
    return element(
        "div",
        element("table", element("caption", element("span", title)), element("thead", head), element("tbody", *body)),
        class_="scroll",
        tabindex="0",
        role="group",
        aria_label=title,
    )


def folded(words: str, *content: Markup) -> Markup:
    """Something that is opened when it is wanted."""
    return element("details", element("summary", words), *content)


def rows_table(title: str, noun: str, rows: Sequence[Row]) -> Table:
    """Nodes or trials with the time that each spent on everything."""
    doings = [doing for doing in Doing if any(span.doing is doing for row in rows for span in row.spans)]
    return Table(
        title=title,
        columns=(noun, "", *doings, "until", "end", "reason"),
        rows=tuple(
            (
                row.name,
                row.detail,
                *(duration(s) if (s := row.total_s(doing)) > 0 else "" for doing in doings),
                duration(row.end_s),
                row.end.value,
                row.reason,
            )
            for row in rows
        ),
        words=("", "end", "reason"),
    )


def notes_table(notes: Sequence[Note]) -> Table:
    """Everything that went otherwise."""
    return Table(
        title="What went otherwise",
        columns=("at", "what", "of", "why, and what was done"),
        rows=tuple(
            (duration(note.t_s), f"{SIGNS[note.sort]} {note.kind}", note.subject, note.reason) for note in notes
        ),
        words=("what", "of", "why, and what was done"),
    )


def stages_table(story: Story) -> Table:
    """The stages in time."""
    return Table(
        title="Stages",
        columns=("stage", "what runs in it", "from", "to", "time"),
        rows=tuple(
            (s.name, s.detail, duration(s.start_s), duration(s.end_s), duration(s.end_s - s.start_s))
            for s in story.stages
        ),
        words=("what runs in it",),
    )


def curves_table(story: Story) -> Table:
    """Where each trial's curve ends."""
    return Table(
        title="Last scores",
        columns=("trial", "iterations", story.metric, "end"),
        rows=tuple(
            (str(c.trial), str(c.points[-1][0]), f"{c.points[-1][1]:.5g}", c.end.value)
            for c in story.curves
            if c.points
        ),
        words=("end",),
    )


def _cell(content: Table, number: int, cell: str, longest: int) -> Markup:
    shown = cell if len(cell) <= longest else f"{cell[:longest]}\u2026"
    if number == 0:
        return element("th", shown, scope="row")
    if content.is_left(number):
        return element("td", shown, class_="w")
    figure, *beside = shown.split("\n")
    return element("td", figure, *(element("small", line) for line in beside))
