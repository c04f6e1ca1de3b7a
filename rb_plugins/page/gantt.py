"""Nodes and trials in time: a row each, and all of them together where there are too many for rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rb_core.report import duration
from rb_plugins.page.frame import chart, legend, path, percent, stretched, swatch, time_below
from rb_plugins.page.marks import HINT, mark_lines, marks
from rb_plugins.page.markup import Markup, element
from rb_plugins.page.scale import Axis, ticks, time_ticks
from rb_plugins.page.story import Doing, End, Row, Span, Story
from rb_plugins.page.strips import Strips

ROWS = 40
"""Most rows of one chart; beyond them all rows are also counted together."""

_ROW, _GAP = 14.0, 4.0
_SLICES = 240
_STACKED = (Doing.TRAINING, Doing.SAVING, Doing.STARTING, Doing.LAUNCHING, Doing.IDLE)
_MARKS = {
    End.FINISHED: "\u2713", End.STOPPED: "\u00d7", End.FAILED: "!", End.LEFT: "\u2013", End.LOST: "!",
    End.OPEN: "\u2026",
}  # fmt: skip
_ENDS = {
    End.FINISHED: "finished", End.STOPPED: "stopped at a barrier", End.FAILED: "failed", End.LEFT: "left by itself",
    End.LOST: "lost", End.OPEN: "not over yet",
}  # fmt: skip
_HINT = "Arrow keys go from row to row; tap a row to read it."


def nodes_chart(story: Story) -> Markup:
    """The nodes of a story."""
    return _gantt("nodes", "Nodes", story, story.nodes, "node", "in the order of their requests")


def trials_chart(story: Story) -> Markup:
    """The trials of a story."""
    return _gantt("trials", "Trials", story, story.trials, "trial", "those that went the furthest first")


def key(story: Story) -> Markup:
    """What the colours, patterns and signs mean; of the signs, those that there are."""
    words = {
        Doing.LAUNCHING: "launching (not billed)",
        Doing.STARTING: "starting",
        Doing.TRAINING: "training",
        Doing.SAVING: "saving",
        Doing.IDLE: "idle, waiting",
    }
    boxes = [
        (swatch(element("rect", x=1, y=1, width=20, height=10, class_=f"d-{doing}")), name)
        for doing, name in words.items()
    ]
    ends = {row.end for row in (*story.nodes, *story.trials)}
    signs = [
        (swatch(element("text", sign, x=11, y=11, class_=f"mark e-{end}", text_anchor="middle")), _ENDS[end])
        for end, sign in _MARKS.items()
        if end in ends
    ]
    return legend(*boxes, *signs)


def _gantt(name: str, title: str, story: Story, rows: Sequence[Row], noun: str, order: str) -> Markup:
    axis = Axis(low=0.0, high=story.end_s)
    strips = Strips(story.stages, axis)
    shown = sorted(rows[:ROWS], key=lambda row: row.lane)
    height = strips.height + len(shown) * (_ROW + _GAP) + 2
    tops = [strips.height + 2 + number * (_ROW + _GAP) for number in range(len(shown))]
    all_shown = len(shown) == len(rows)
    by_chain = ", chain by chain" if strips.several else ""
    caption = (
        f"{f'All {len(rows)} {noun}s, {order}{by_chain}' if len(rows) > 1 else f'The only {noun}'}."
        if all_shown
        else f"{len(shown)} of {len(rows)} {noun}s, {order}{by_chain}; the chart above this one counts all {len(rows)}."
    )
    below = time_below(axis, time_ticks(story.end_s))
    detail = chart(
        f"{name}-rows",
        title=f"{title} in time",
        description=f"{caption} " + " ".join(_words(row) for row in shown[:5]),
        height=height,
        labels=[
            *strips.labels(),
            *((top + _ROW - 3, _short(row.name)) for top, row in zip(tops, shown, strict=True)),
        ],
        field=[
            *strips.drawn(height),
            *(
                _drawn(row, axis, top, strips.barriers(row.lane, top - 2, _ROW + _GAP))
                for top, row in zip(tops, shown, strict=True)
            ),
            *mark_lines(story.notes, axis, height),
        ],
        below=below,
        hint=f"{_HINT} {HINT}" if story.notes and all_shown else _HINT,
        caption=caption,
        above=marks(story.notes, axis) if all_shown else None,
    )
    if all_shown:
        return detail
    return Markup(_counted(name, title, story, rows, axis, below, idle=rows is story.nodes) + detail)


def _counted(
    name: str, title: str, story: Story, rows: Sequence[Row], axis: Axis, below: list[tuple[float, str]], *, idle: bool
) -> Markup:
    """All rows together; those that are idle too, if so said: many a trial waits, and hides those that do not."""
    strips = Strips(story.stages, axis)
    times_s = np.linspace(0.0, story.end_s, _SLICES + 1)
    counted = [doing for doing in _STACKED if doing is not Doing.IDLE or idle]
    counts = {doing: _count(rows, doing, times_s) for doing in counted}
    most = max(1.0, float(np.sum(list(counts.values()), axis=0).max()))
    height, floor, areas = 150.0, np.zeros(len(times_s)), []
    for doing in counted:
        ceiling = floor + counts[doing]
        shares = (times_s / max(1e-9, story.end_s)).tolist()
        upper = list(zip(shares, (1 - ceiling / most).tolist(), strict=True))
        lower = list(zip(shares, (1 - floor / most).tolist(), strict=True))
        areas.append(element("path", d=path([*upper, *reversed(lower)], closed=True), class_=f"a-{doing}"))
        floor = ceiling
    whole, top = Axis(low=0.0, high=most), strips.height
    return chart(
        f"{name}-all",
        title=f"All {len(rows)} {title.lower()} together",
        description="How many do what, over time; the figures are in the table of stages.",
        height=top + height,
        labels=[
            *strips.labels(),
            *((top + height * (1 - whole.at(n)) + 4, f"{n:g}") for n in ticks(0.0, most, most=4)),
        ],
        field=[
            stretched(height, *areas, top=top),
            *strips.drawn(top + height),
            *mark_lines(story.notes, axis, top + height),
        ],
        below=below,
        hint=HINT if story.notes else "",
        caption=f"All {len(rows)} {title.lower()} by what they do, at {_SLICES + 1} times, "
        "from below: training, saving, starting, launching"
        + (", idle." if idle else "; those that wait are left out."),
        above=marks(story.notes, axis),
    )


def _count(rows: Sequence[Row], doing: Doing, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many rows do it at each time, by their shares."""
    spans = [span for row in rows for span in row.spans if span.doing is doing]
    count = np.zeros(len(times_s))
    if spans:
        first = np.searchsorted(times_s, [span.start_s for span in spans])
        last = np.searchsorted(times_s, [span.end_s for span in spans])
        shares = [span.share for span in spans]
        change = np.zeros(len(times_s) + 1)
        np.add.at(change, first, shares)
        np.subtract.at(change, last, shares)
        count = np.cumsum(change)[:-1]
    return count


def _drawn(row: Row, axis: Axis, top: float, barriers: Sequence[Markup]) -> Markup:
    return element(
        "g",
        element("title", _words(row)),
        element("rect", x=0, y=top - 2, width="100%", height=_ROW + _GAP, class_="hit"),
        *barriers,
        *_bars(row.spans, axis, top),
        *_sign(row, axis, top),
        class_="row",
        data_words=_words(row),
    )


def _bars(spans: Sequence[Span], axis: Axis, top: float) -> list[Markup]:
    """Spans from left to right; where a node does several things at once, they stand on one another."""
    bars, floors = [], dict[float, float]()
    for span in spans:
        height = _ROW * span.share
        if span.doing is Doing.IDLE and span.share == 1.0:
            height = _ROW / 2
        floor = floors.get(span.start_s, 0.0)
        floors[span.start_s] = floor + height
        left = axis.at(span.start_s)
        bars.append(
            element(
                "rect",
                x=percent(left),
                y=top + _ROW - floor - height,
                width=percent(axis.at(span.end_s) - left),
                height=height,
                class_=f"d-{span.doing}",
            )
        )
    return bars


def _sign(row: Row, axis: Axis, top: float) -> list[Markup]:
    if row.end not in _MARKS:
        return []
    # At the end of the axis it stands beside the field, where the page's margin has room for it.
    x, y = percent(axis.at(row.end_s)), top + _ROW - 2
    return [element("text", _MARKS[row.end], x=x, y=y, dx=3, class_=f"mark e-{row.end}")]


def _words(row: Row) -> str:
    doing = ", ".join(f"{name} {duration(s)}" for name in Doing if (s := row.total_s(name)) > 0)
    reason = f" ({row.reason})" if row.reason else ""
    return f"{row.name}: {row.detail}; {doing}; {row.end} at {duration(row.end_s)}{reason}."


def _short(name: str) -> str:
    """A name as it fits the gutter: nodes are called after their run, and differ in their numbers alone."""
    run, _, number = name.rpartition("-")
    if run and number.isdigit():
        return f"node {number}"
    return name if len(name) <= 10 else f"\u2026{name[-9:]}"
