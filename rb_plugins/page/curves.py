"""Learning curves: who was stopped where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rb_plugins.page.frame import Point, chart, legend, levels, path, percent, stretched, swatch
from rb_plugins.page.markup import Markup, element
from rb_plugins.page.scale import Axis, ticks
from rb_plugins.page.story import Curve, End, Story

DRAWN = 40
"""Most curves that are drawn each by itself; the others are within the bands."""

_HEIGHT = 280.0
_WIDE = 16.0
"""From this ratio of the last to the first iterations on, the axis is logarithmic."""

_FAR = 1e300
"""Scores beyond it are drawn there: twice as much is still a number."""

_MARKS = {End.FINISHED: "\u25cf", End.STOPPED: "\u00d7", End.FAILED: "!", End.LEFT: "\u2013", End.OPEN: "\u2026"}
_ENDS = {
    End.FINISHED: "finished", End.STOPPED: "stopped here", End.FAILED: "failed", End.LEFT: "left by itself",
    End.OPEN: "not over yet",
}  # fmt: skip


def curves_chart(story: Story) -> Markup:
    """The curves of a story; a sentence where there are none."""
    curves = [curve for curve in story.curves if curve.points]
    if not curves:
        return element("p", "No scores yet.", class_="none")
    across = _across(curves)
    up, clipped = _up(curves)
    drawn = curves[:DRAWN]
    shapes = [*_bands(curves, across, up)] if len(curves) > len(drawn) else []
    shapes += [_line(curve, across, up, best=number == 0) for number, curve in reversed(list(enumerate(drawn)))]
    steps = ticks(up.low, up.high)
    caption = (
        f"All {len(curves)} trials."
        if len(curves) == len(drawn)
        else f"The {len(drawn)} trials that went the furthest; the bands hold all {len(curves)} "
        "(every tenth is below the wide band and every tenth above it, the line within is the median)."
    )
    scale = ", on a logarithmic scale" if across.log else ""
    return Markup(
        chart(
            "curves-chart",
            title=f"{story.metric} by iterations",
            description=f"{caption} " + " ".join(map(_words, drawn[:5])),
            height=_HEIGHT,
            labels=[(_HEIGHT * (1 - up.at(value)) + 4, f"{value:.4g}") for value in steps],
            field=[
                *levels(_HEIGHT, map(up.at, steps)),
                stretched(_HEIGHT, *shapes),
                *(_mark(curve, across, up) for curve in drawn),
            ],
            below=[(across.at(value), f"{value:g}") for value in _rungs(curves, across)],
            caption=f"{caption} Iterations to the right{scale}."
            + (" Scores beyond the axis lie on its edge." if clipped else ""),
        )
        + _key(curves, banded=len(curves) > len(drawn))
    )


def _across(curves: Sequence[Curve]) -> Axis:
    iterations = [point[0] for curve in curves for point in curve.points]
    low, high = min(iterations), max(iterations)
    if low > 0 and high / low >= _WIDE:
        return Axis(low=low, high=high, log=True)
    return Axis(low=0.0, high=max(1.0, high))


def _up(curves: Sequence[Curve]) -> tuple[Axis, bool]:
    """The axis of the scores, and whether a few that lie far out are beyond it."""
    scores = np.clip([score for curve in curves for _, score in curve.points], -_FAR, _FAR)
    low, high = float(scores.min()), float(scores.max())
    first, last = (float(value) for value in np.quantile(scores, [0.05, 0.95]))
    reach = 3.0 * (last - first)
    if reach > 0:
        low, high = max(low, first - reach), min(high, last + reach)
    margin = 0.04 * (high - low) or 0.5
    return Axis(low=low - margin, high=high + margin), bool(low > scores.min() or high < scores.max())


def _rungs(curves: Sequence[Curve], across: Axis) -> list[float]:
    """Where the axis is labelled: where trials ended, if that leaves room; round numbers else."""
    ends = sorted({curve.points[-1][0] for curve in curves if curve.end in (End.STOPPED, End.FINISHED)})
    kept: list[float] = []
    for value in reversed(ends):
        if not kept or across.at(kept[-1]) - across.at(value) > 0.09:
            kept.append(float(value))
    return sorted(kept) if kept else ticks(across.low, across.high)


def _points(curve: Curve, across: Axis, up: Axis) -> list[Point]:
    return [(across.at(iterations), 1 - up.at(score)) for iterations, score in curve.points]


def _line(curve: Curve, across: Axis, up: Axis, *, best: bool) -> Markup:
    points = _points(curve, across, up)
    first = points if len(points) > 1 else [(max(0.0, points[0][0] - 0.01), points[0][1]), *points]
    return element(
        "path",
        element("title", _words(curve)),
        d=path(first),
        class_=f"curve c-{'best' if best else curve.end}",
        data_trial=str(curve.trial),
    )


def _mark(curve: Curve, across: Axis, up: Axis) -> Markup:
    x, y = _points(curve, across, up)[-1]
    return element(
        "text", element("title", _words(curve)), _MARKS[curve.end],
        x=percent(x), y=_HEIGHT * y + 4, class_=f"mark e-{curve.end}", text_anchor="end" if x > 0.98 else "middle",
    )  # fmt: skip


def _bands(curves: Sequence[Curve], across: Axis, up: Axis) -> list[Markup]:
    """The middle eight tenths of the scores, and their median, wherever most trials that came so far reported."""
    at: dict[int, list[float]] = {}
    for curve in curves:
        for iterations, score in curve.points:
            at.setdefault(iterations, []).append(score)
    lasts = np.array([curve.points[-1][0] for curve in curves])
    rows = [
        (n, np.quantile(found, [0.1, 0.5, 0.9]))
        for n, found in sorted(at.items())
        if len(found) > 1 and 2 * len(found) > np.count_nonzero(lasts >= n)
    ]
    lower, middle, upper = ([(across.at(n), 1 - up.at(float(q[i]))) for n, q in rows] for i in range(3))
    if len(rows) < 2:
        return []
    return [
        element("path", d=path([*upper, *reversed(lower)], closed=True), class_="band"),
        element("path", d=path(middle), class_="median"),
    ]


def _key(curves: Sequence[Curve], *, banded: bool) -> Markup:
    def line(kind: str) -> Markup:
        return swatch(element("line", x1=0, x2=22, y1=6, y2=6, class_=kind))

    def mark(end: End) -> Markup:
        return swatch(element("text", _MARKS[end], x=11, y=11, class_=f"mark e-{end}", text_anchor="middle"))

    ends = {curve.end for curve in curves}
    entries = [(line("curve c-best"), "the best of those that went the furthest")]
    entries += [(mark(end), _ENDS[end]) for end in _MARKS if end in ends]
    if banded:
        entries += [
            (swatch(element("rect", x=0, y=1, width=22, height=10, class_="band")), "tenth to ninetieth percentile"),
            (line("median"), "median"),
        ]
    return legend(*entries)


def _words(curve: Curve) -> str:
    iterations, score = curve.points[-1]
    return f"trial {curve.trial}: {score:.5g} after {iterations} iterations, {curve.end}."
