"""What all charts share: a field with a gutter of labels, an axis of time, a legend, and words in their place.

Widths are in percent, so that a chart fills a phone as it fills a screen and its letters stay as large as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rb_plugins.page.markup import Markup, element, join
from rb_plugins.page.scale import Axis, Tick

GUTTER = 76
"""Width of the column of labels in pixels."""

AXIS = 24
"""Height of the axis in pixels."""

Point = tuple[float, float]
"""Right and down, as shares of the field."""


def percent(share: float) -> str:
    """A share of the width."""
    return f"{100 * share:.3f}".rstrip("0").rstrip(".") + "%"


def chart(
    name: str,
    *,
    title: str,
    description: str,
    height: float,
    labels: Iterable[tuple[float, str]],
    field: Sequence[Markup],
    below: Sequence[tuple[float, str]],
    hint: str = "",
    caption: str = "",
    above: Markup | None = None,
) -> Markup:
    """A chart.

    Args:
        name: of the element.
        title: what it shows, in a few words.
        description: what is seen in it, for those who do not see it.
        height: of the field in pixels.
        labels: in the gutter: their distance from the top, and their words.
        field: what is drawn.
        below: ticks of the lower axis, as shares of the width, and their words.
        hint: how it is used with the keyboard.
        caption: one line below it.
        above: what stands on top of the field, as wide as it is.
    """
    gutter = element(
        "svg",
        *(element("text", words, x=GUTTER - 6, y=y, class_="label") for y, words in labels),
        class_="gutter",
        width=GUTTER,
        height=height + AXIS,
        aria_hidden="true",
    )
    drawn = element(
        "svg",
        element("title", title, id=f"{name}-t"),
        element("desc", description, id=f"{name}-d"),
        *(element("line", x1=percent(x), x2=percent(x), y1=0, y2=height + 4, class_="grid") for x, _ in below),
        *field,
        element("line", x1=0, x2="100%", y1=height, y2=height, class_="axis"),
        *(_below(x, words, height) for x, words in below),
        class_="field",
        width="100%",
        height=height + AXIS,
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
    )
    return element(
        "figure",
        *([] if above is None else [above]),
        element(
            "div", gutter, drawn, class_="frame", tabindex="0", role="group",
            aria_label=f"{title}. {hint}".strip(),
        ),
        element("output", hint, class_="readout") if hint else Markup(),
        element("figcaption", caption) if caption else Markup(),
        id=name,
        class_="chart",
    )  # fmt: skip


def time_below(axis: Axis, marks: Iterable[Tick]) -> list[tuple[float, str]]:
    """Ticks of an axis as `chart` takes them."""
    return [(axis.at(value), words) for value, words in marks]


def stretched(height: float, *shapes: Markup, top: float = 0.0) -> Markup:
    """Shapes in shares of the field, 1000 wide and 1000 high, stretched over the field's width."""
    return element(
        "svg",
        *shapes,
        x=0,
        y=top,
        width="100%",
        height=height,
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
    )


def path(points: Iterable[Point], *, closed: bool = False) -> str:
    """The outline through points."""
    return "M" + "L".join(f"{1000 * x:.4g} {1000 * y:.4g}" for x, y in points) + ("Z" if closed else "")


def levels(height: float, shares: Iterable[float]) -> list[Markup]:
    """Lines through the whole width at these shares of the height, counted from below."""
    heights = (height * (1 - share) for share in shares)
    return [element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid") for y in heights]


def legend(*entries: tuple[Markup, str]) -> Markup:
    """Swatches with their words."""
    return element("ul", *(element("li", swatch, element("span", words)) for swatch, words in entries), class_="legend")


def swatch(*shapes: Markup) -> Markup:
    """A picture of 22 by 12 pixels, for a legend."""
    return element("svg", *shapes, width=22, height=12, aria_hidden="true")


def _below(x: float, words: str, height: float) -> Markup:
    side = "start" if x < 0.03 else "end" if x > 0.94 else "middle"
    return element("text", words, x=percent(x), y=height + 17, class_="tick", text_anchor=side)


def dl(entries: Iterable[tuple[str, str, str]]) -> Markup:
    """Figures with their names and remarks."""
    return element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", element("b", value), join([" ", remark])))
            for name, value, remark in entries
        ),
        class_="figures",
    )
