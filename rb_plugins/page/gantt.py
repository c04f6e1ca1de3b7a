"""Nodes and trials in time: a row each, and all of them together where there are too many for rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rb_core.report import duration
from rb_plugins.page.frame import chart, legend, path, percent, stretched, swatch, time_below
from rb_plugins.page.markup import Markup, element
from rb_plugins.page.scale import Axis, ticks, time_ticks
from rb_plugins.page.story import Doing, End, Row, Span, StageSpan, Story

ROWS = 40
"""Most rows of one chart; beyond them all rows are also counted together."""

_STRIP, _ROW, _GAP = 22.0, 14.0, 4.0
_SLICES = 240
_MARKS = {
    End.FINISHED: "\u2713", End.STOPPED: "\u00d7", End.FAILED: "!", End.LEFT: "\u2013", End.LOST: "!",
    End.OPEN: "\u2026",
}  # fmt: skip
_HINT = "Arrow keys go from row to row; tap a row to read it."


def nodes_chart(story: Story) -> Markup:
    """The nodes of a story."""
    return _gantt("nodes", "Nodes", story, story.nodes, "node", "in the order of their requests")


def trials_chart(story: Story) -> Markup:
    """The trials of a story."""
    return _gantt("trials", "Trials", story, story.trials, "trial", "those that went the furthest first")


def key() -> Markup:
    """What the colours, patterns and signs mean."""
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
    signs = [
        (swatch(element("text", _MARKS[end], x=11, y=11, class_="mark", text_anchor="middle")), name)
        for end, name in (
            (End.FINISHED, "finished"), (End.STOPPED, "stopped at a barrier"), (End.FAILED, "failed or lost"),
        )
    ]  # fmt: skip
    return legend(*boxes, *signs)


def _gantt(name: str, title: str, story: Story, rows: Sequence[Row], noun: str, order: str) -> Markup:
    shown = rows[:ROWS]
    axis = Axis(low=0.0, high=story.end_s)
    height = _STRIP + len(shown) * (_ROW + _GAP) + 2
    tops = [_STRIP + 2 + number * (_ROW + _GAP) for number in range(len(shown))]
    all_shown = len(shown) == len(rows)
    caption = (
        f"All {len(rows)} {noun}s, {order}."
        if all_shown
        else f"{len(shown)} of {len(rows)} {noun}s, {order}; the chart above this one counts all {len(rows)}."
    )
    below = time_below(axis, time_ticks(story.end_s))
    detail = chart(
        f"{name}-rows",
        title=f"{title} in time",
        description=f"{caption} " + " ".join(_words(row) for row in shown[:5]),
        height=height,
        labels=[(top + _ROW - 3, _short(row.name)) for top, row in zip(tops, shown, strict=True)],
        field=[
            *_strip(story.stages, axis, height),
            *(_drawn(row, axis, top) for top, row in zip(tops, shown, strict=True)),
        ],
        below=below,
        hint=_HINT,
        caption=caption,
    )
    if all_shown:
        return detail
    return Markup(_counted(name, title, story, rows, axis, below) + detail)


def _counted(
    name: str, title: str, story: Story, rows: Sequence[Row], axis: Axis, below: list[tuple[float, str]]
) -> Markup:
    times_s = np.linspace(0.0, story.end_s, _SLICES + 1)
    counts = {doing: _count(rows, doing, times_s) for doing in Doing}
    most = max(1.0, float(np.sum(list(counts.values()), axis=0).max()))
    height, floor, areas = 150.0, np.zeros(len(times_s)), []
    for doing in (Doing.TRAINING, Doing.SAVING, Doing.STARTING, Doing.LAUNCHING, Doing.IDLE):
        ceiling = floor + counts[doing]
        shares = (times_s / max(1e-9, story.end_s)).tolist()
        upper = list(zip(shares, (1 - ceiling / most).tolist(), strict=True))
        lower = list(zip(shares, (1 - floor / most).tolist(), strict=True))
        areas.append(element("path", d=path([*upper, *reversed(lower)], closed=True), class_=f"a-{doing}"))
        floor = ceiling
    whole = Axis(low=0.0, high=most)
    return chart(
        f"{name}-all",
        title=f"All {len(rows)} {title.lower()} together",
        description="How many do what, over time; the figures are in the table of stages.",
        height=_STRIP + height,
        labels=[(_STRIP + height * (1 - whole.at(n)) + 4, f"{n:g}") for n in ticks(0.0, most, most=4)],
        field=[stretched(height, *areas, top=_STRIP), *_strip(story.stages, axis, _STRIP + height)],
        below=below,
        caption=f"All {len(rows)} {title.lower()} by what they do, at {_SLICES + 1} times.",
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


def _strip(stages: Sequence[StageSpan], axis: Axis, height: float) -> list[Markup]:
    """The stages on top, and their barriers through the whole height."""
    lanes = len({stage.lane for stage in stages})
    drawn: list[Markup] = []
    for number, stage in enumerate(stages):
        left, right = axis.at(stage.start_s), axis.at(stage.end_s)
        if lanes == 1:
            box = element(
                "rect",
                element("title", f"stage {stage.name}: {stage.detail}, {duration(stage.end_s - stage.start_s)}"),
                x=percent(left), y=0, width=percent(right - left), height=_STRIP - 4,
                class_=f"stage s{number % 2}",
            )  # fmt: skip
            drawn.append(box)
            if right - left > 0.04:
                drawn.append(
                    element(
                        "text", stage.name, x=percent((left + right) / 2), y=13, class_="tick", text_anchor="middle"
                    )
                )
        drawn.append(element("line", x1=percent(right), x2=percent(right), y1=0, y2=height, class_="barrier"))
    return drawn


def _drawn(row: Row, axis: Axis, top: float) -> Markup:
    return element(
        "g",
        element("title", _words(row)),
        element("rect", x=0, y=top - 2, width="100%", height=_ROW + _GAP, class_="hit"),
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
    at = axis.at(row.end_s)
    late = at > 0.96
    sign = element(
        "text",
        _MARKS[row.end],
        x=percent(at),
        y=top + _ROW - 2,
        dx=-3 if late else 3,
        text_anchor="end" if late else "start",
        class_=f"mark e-{row.end}",
    )
    return [sign]


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
