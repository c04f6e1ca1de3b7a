"""Money: over time against the forecast, and by what it did."""

from __future__ import annotations

import numpy as np

from rb_core.report import Table, duration, money
from rb_plugins.page.frame import chart, legend, levels, path, percent, stretched, swatch, time_below
from rb_plugins.page.marks import HINT, mark_lines, marks, marks_key
from rb_plugins.page.markup import Markup, element
from rb_plugins.page.scale import Axis, money_ticks, time_ticks
from rb_plugins.page.story import Source, Story

_HEIGHT = 260.0
_SHOWN_USD = 5e-7
"""What is less would be written as nothing."""


def money_chart(story: Story) -> Markup:
    """What it cost over time, in the band of the forecast."""
    end_s = max(story.end_s, *(band.t_s for band in story.forecast), 1e-9)
    if story.limit_s is not None and story.limit_s < 1.25 * end_s:
        end_s = max(end_s, 1.02 * story.limit_s)
    most = [line.usd for line in story.spent] + [band.high for band in story.forecast]
    high = 1.06 * max(max(most, default=0.0), 1e-9)
    if story.limit_usd is not None and story.limit_usd < 1.5 * high:
        high = max(high, 1.06 * story.limit_usd)
    across, up = Axis(low=0.0, high=end_s), Axis(low=0.0, high=high)
    lower = [(across.at(b.t_s), 1 - up.at(b.low)) for b in story.forecast]
    upper = [(across.at(b.t_s), 1 - up.at(b.high)) for b in story.forecast]
    middle = [(across.at(b.t_s), 1 - up.at(b.middle)) for b in story.forecast]
    actual = [(across.at(line.t_s), 1 - up.at(line.usd)) for line in story.spent]
    shapes = []
    if story.forecast:
        shapes.append(element("path", d=path([*upper, *reversed(lower)], closed=True), class_="band"))
        shapes.append(element("path", d=path(middle), class_="median"))
    if actual:
        shapes.append(element("path", d=path(actual), class_="spent"))
    steps = money_ticks(high)
    limits = _limits(story, across, up)
    field = [
        *levels(_HEIGHT, (up.at(v) for v, _ in steps)),
        stretched(_HEIGHT, *shapes),
        *limits,
        *mark_lines(story.notes, across, _HEIGHT),
    ]
    return Markup(
        chart(
            "money-chart",
            title="Cost in usd over time",
            description=_described(story),
            height=_HEIGHT,
            labels=[(max(10.0, _HEIGHT * (1 - up.at(v)) + 4), words) for v, words in steps],
            field=field,
            below=time_below(across, time_ticks(end_s)),
            caption=(
                "The bill, had everything been given back at that time; what is paid by the start of a node (minimum) "
                "or of a granule (rounding) makes steps. The forecast spreads each stage's money evenly over it."
            ),
            hint=HINT if story.notes else "",
            above=marks(story.notes, across),
        )
        + _key(story, limited=bool(limits))
        + marks_key(story.notes)
    )


def money_table(story: Story) -> Table:
    """The chart in figures, at eleven times."""
    end_s = max([band.t_s for band in story.forecast[-1:]] + [line.t_s for line in story.spent[-1:]], default=0.0)
    at = [band.t_s for band in story.forecast]
    percentiles = [[getattr(band, name) for band in story.forecast] for name in ("low", "middle", "high")]
    spent_s, spent = [line.t_s for line in story.spent], [line.usd for line in story.spent]
    rows = []
    for t_s in np.linspace(0.0, end_s, 11).tolist():
        promised = (money(float(np.interp(t_s, at, values))) for values in percentiles) if at else ("", "", "")
        paid = money(float(np.interp(t_s, spent_s, spent))) if spent and t_s <= spent_s[-1] + 1e-9 else ""
        rows.append((duration(t_s), *promised, paid))
    return Table(title="Cost over time", columns=("at", "p05", "p50", "p95", _actual(story)), rows=tuple(rows))


def shares_chart(story: Story) -> Markup:
    """The bill as bars, one for each thing that the money did."""
    total = sum(share.usd for share in story.shares)
    if total <= 0:
        return element("p", "Nothing has been paid for.", class_="none")
    rows = [
        element(
            "tr",
            element("th", share.name, scope="row"),
            element("td", money(share.usd)),
            element("td", f"{share.usd / total:.1%}"),
            element(
                "td",
                element(
                    "svg",
                    element("rect", x=0, y=2, width=percent(share.usd / total), height=10, class_="bar"),
                    width="100%", height=14, aria_hidden="true",
                ),
                class_="bars",
            ),
        )
        for share in story.shares
        if share.usd >= _SHOWN_USD
    ]  # fmt: skip
    head = element("tr", *(element("th", word, scope="col") for word in ("what it did", "cost", "share", "")))
    foot = element("tr", element("th", "all", scope="row"), element("td", money(total)), element("td"), element("td"))
    return element(
        "div",
        element(
            "table", element("caption", element("span", "By what the money did")), element("thead", head),
            element("tbody", *rows, foot),
            id="shares",
        ),
        class_="scroll", tabindex="0", role="group", aria_label="By what the money did",
    )  # fmt: skip


def _actual(story: Story) -> str:
    return {Source.RUN: "actual", Source.REHEARSAL: "rehearsed", Source.PLAN: "at means"}[story.source]


def _limits(story: Story, across: Axis, up: Axis) -> list[Markup]:
    drawn = []
    if story.limit_s is not None and story.limit_s <= across.high:
        x = percent(across.at(story.limit_s))
        drawn.append(element("line", x1=x, x2=x, y1=0, y2=_HEIGHT, class_="limit"))
        drawn.append(element("text", "deadline", x=x, dx=-4, y=12, class_="tick", text_anchor="end"))
    if story.limit_usd is not None and story.limit_usd <= up.high:
        y = _HEIGHT * (1 - up.at(story.limit_usd))
        drawn.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="limit"))
        drawn.append(element("text", "budget", x=4, y=y - 4, class_="tick"))
    return drawn


def _key(story: Story, *, limited: bool) -> Markup:
    def line(kind: str) -> Markup:
        return swatch(element("line", x1=0, x2=22, y1=6, y2=6, class_=kind))

    entries = [
        (line("spent"), _actual(story)),
        (line("median"), "forecast, median"),
        (swatch(element("rect", x=0, y=1, width=22, height=10, class_="band")), "forecast, p05 to p95"),
    ]
    if limited:
        entries.append((line("limit"), "limit"))
    return legend(*entries)


def _described(story: Story) -> str:
    words = []
    if story.spent:
        words.append(f"{_actual(story)}: {money(story.spent[-1].usd)} at {duration(story.spent[-1].t_s)}.")
    if story.forecast:
        last = story.forecast[-1]
        words.append(f"Forecast: {money(last.low)} to {money(last.high)}, median {money(last.middle)}.")
    return " ".join(words)
