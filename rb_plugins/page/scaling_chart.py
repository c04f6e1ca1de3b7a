"""The chart and the tables of how a training function scales."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rb_core.report import Table, seconds
from rb_plugins.page.frame import chart, legend, path, percent, stretched, swatch
from rb_plugins.page.markup import Markup, element, join
from rb_plugins.page.scale import Axis, ticks
from rb_plugins.page.scaling import Scaling
from rb_plugins.page.tables import folded, table

_HEIGHT = 260.0
_CURVE = 80
"""Points of the fitted curve."""

_TELLING = 20
"""Iterations of one start that are told one by one."""


def scaling_section(scaling: Scaling) -> Markup:
    """Chart and tables."""
    parts = [_chart(scaling), _key(scaling), table(_latencies(scaling))]
    if scaling.coefficients:
        a, b, c, d = (f"{factor:.3g}" for factor in scaling.coefficients)
        parts.append(element("p", f"The curve, in seconds on w slots: {a} + {b}/w + {c} log2(w) + {d} w."))
    parts += [element("p", f"Warning: {warning}", class_="notice") for warning in scaling.warnings]
    if scaling.starts:
        parts.append(folded(f"all {len(scaling.starts)} measurements", table(_measurements(scaling))))
    return join(parts)


def _chart(scaling: Scaling) -> Markup:
    means = {slots: latency.mean for slots, latency in scaling.iteration_s.items()}
    first, last = min(means), max([*means, *scaling.sizes, scaling.largest_slots])
    perfect = [(first, means[first]), (last, means[first] * first / last)]
    heights = [*means.values(), *(s for _, s in scaling.points), perfect[1][1]]
    across = Axis(low=first / 1.25, high=last * 1.25, log=True)
    up = Axis(low=min(heights) / 1.2, high=max(heights) * 1.2, log=True)

    def line(points: Sequence[tuple[float, float]], kind: str) -> Markup:
        return element("path", d=path([(across.at(w), 1 - up.at(s)) for w, s in points]), class_=kind)

    shapes, beyond = [line(perfect, "median")], []
    if scaling.coefficients:
        grid = np.geomspace(first, max(scaling.largest_slots, first * 1.0001), _CURVE).tolist()
        shapes.append(line([(w, scaling.fitted_s(w)) for w in grid], "spent"))
    if scaling.sizes and scaling.largest_slots > max(scaling.sizes):
        left, right = across.at(max(scaling.sizes)), across.at(scaling.largest_slots)
        beyond.append(element("rect", x=percent(left), y=0, width=percent(right - left), height=_HEIGHT, class_="band"))
    drawn = [
        _dot(across.at(slots), _HEIGHT * (1 - up.at(mean)), _kind(scaling, slots), f"{slots} slots: {seconds(mean)}")
        for slots, mean in means.items()
    ]
    drawn += [
        _dot(across.at(w), _HEIGHT * (1 - up.at(s)), "start", f"one start on {w} slots: {seconds(s)}")
        for w, s in scaling.points
    ]
    steps = _steps(up)
    return chart(
        "scaling-chart",
        title="Seconds of an iteration by slots per trial",
        description="; ".join(f"{slots} slots: {seconds(mean)}" for slots, mean in means.items())
        + f". Vouched for up to {scaling.largest_slots} slots.",
        height=_HEIGHT,
        labels=[(_HEIGHT * (1 - up.at(s)) + 4, seconds(s)) for s in steps],
        field=[
            *beyond,
            *(
                element(
                    "line", x1=0, x2="100%", y1=_HEIGHT * (1 - up.at(s)), y2=_HEIGHT * (1 - up.at(s)), class_="grid"
                )
                for s in steps
            ),
            stretched(_HEIGHT, *shapes),
            *drawn,
        ],
        below=[(across.at(slots), str(slots)) for slots in means],
        caption="Slots per trial to the right, seconds of an iteration up, both on logarithmic scales. "
        + (
            f"Planned with up to {max(means)} slots; the curve is vouched for up to {scaling.largest_slots}."
            if scaling.starts
            else "Given, not measured by rb-tune."
        ),
    )


def _kind(scaling: Scaling, slots: int) -> str:
    return "mean" if not scaling.sizes or slots in scaling.sizes else "predicted"


def _dot(x: float, y: float, kind: str, words: str) -> Markup:
    title = element("title", words)
    if kind == "predicted":
        return element("text", title, "\u25c7", x=percent(x), y=y + 5, class_="mark", text_anchor="middle")
    return element("circle", title, cx=percent(x), cy=y, r=6 if kind == "mean" else 2.5, class_=f"p-{kind}")


def _steps(axis: Axis) -> list[float]:
    """Ticks of a logarithmic axis: 1, 2 and 5 times powers of ten, or their like where these are few or many."""
    powers = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    steps = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    shown = [step for step in steps if axis.low <= step <= axis.high]
    if len(shown) < 3:
        return ticks(axis.low, axis.high)
    return shown if len(shown) <= 7 else [step for step in shown if math.log10(step).is_integer()]


def _key(scaling: Scaling) -> Markup:
    def line(kind: str) -> Markup:
        return swatch(element("line", x1=0, x2=22, y1=6, y2=6, class_=kind))

    entries = [(swatch(element("circle", cx=11, cy=6, r=5, class_="p-mean")), "planned with")]
    if scaling.starts:
        entries = [
            (swatch(element("circle", cx=11, cy=6, r=2.5, class_="p-start")), "one start, its warm-up left out"),
            (swatch(element("circle", cx=11, cy=6, r=5, class_="p-mean")), "mean of what was measured"),
        ]
    if any(_kind(scaling, slots) == "predicted" for slots in scaling.iteration_s):
        diamond = element("text", "\u25c7", x=11, y=11, class_="mark", text_anchor="middle")
        entries.append((swatch(diamond), "not measured, by the curve"))
    if scaling.coefficients:
        entries.append((line("spent"), "fitted curve"))
    entries.append((line("median"), "perfect scaling"))
    return legend(*entries)


def _latencies(scaling: Scaling) -> Table:
    first = min(scaling.iteration_s)
    rows = []
    for slots, latency in scaling.iteration_s.items():
        speed = scaling.iteration_s[first].mean / latency.mean
        residual = scaling.residuals.get(slots)
        rows.append(
            (
                str(slots),
                seconds(latency.mean),
                seconds(latency.std),
                f"{speed:.2f}x",
                f"{speed * first / slots:.0%}",
                "" if residual is None else f"{residual:+z.2%}",
                "by the curve" if _kind(scaling, slots) == "predicted" else "measured" if scaling.sizes else "given",
            )
        )
    return Table(
        title="What is planned with",
        columns=("slots a trial", "iteration", "std", "speed", "of perfect", "fit misses by", "from"),
        words=("from",),
        rows=tuple(rows),
    )


def _measurements(scaling: Scaling) -> Table:
    rows = []
    for start in scaling.starts:
        config = ", ".join(f"{name} = {value!r}" for name, value in start["config"].items())
        times_s = start["iterations_s"]
        told = " ".join(f"{time_s:.3g}" for time_s in times_s[:_TELLING])
        more = f" and {len(times_s) - _TELLING} more" if len(times_s) > _TELLING else ""
        rows.append(
            (
                str(start["slots"]), str(start["from_iteration"]), seconds(start["start_s"]), seconds(start["save_s"]),
                f"{told}{more}", config,
            )
        )  # fmt: skip
    return Table(
        title="Every start that ran to its end; the first iteration holds the warm-up",
        columns=("slots", "from iteration", "start", "save", "iterations, seconds", "configuration"),
        words=("iterations, seconds", "configuration"),
        rows=tuple(rows),
    )
