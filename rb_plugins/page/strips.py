"""The stages on top of a chart of time: one strip of them, or one for each chain that runs beside others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rb_core.report import duration
from rb_plugins.page.frame import percent
from rb_plugins.page.markup import Markup, element
from rb_plugins.page.scale import Axis
from rb_plugins.page.story import StageSpan

_HEIGHT, _GAP = 18.0, 4.0

_LETTER, _LETTER_ON_PHONE = 0.008, 0.026
"""The share of the width that a letter takes on a screen, and on a phone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """A part of a strip: from where to where, what it is called, and what is to be known of it."""

    start_s: float
    end_s: float
    name: str
    words: str


class Strips:
    """The strips of some stages.

    Attributes:
        lanes: numbers of the lanes in which stages run side by side.
        height: of all strips, with the gap below them, in pixels.
    """

    def __init__(self, stages: Sequence[StageSpan], axis: Axis) -> None:
        """The strips of `stages` along an axis of time."""
        self._stages, self._axis = stages, axis
        self.lanes = sorted({stage.lane for stage in stages})
        self._rows = self._named()
        self.height = max(1, len(self._rows)) * _HEIGHT + _GAP

    @property
    def several(self) -> bool:
        """Whether stages run side by side."""
        return len(self.lanes) > 1

    def labels(self) -> list[tuple[float, str]]:
        """For the gutter: distances from the top, and words."""
        return [(number * _HEIGHT + 13, name) for number, (name, _) in enumerate(self._rows)]

    def drawn(self, height: float) -> list[Markup]:
        """The strips, and below them the barriers through a field of this height, where all rows share them."""
        shapes = [
            shape
            for number, (_, boxes) in enumerate(self._rows)
            for place, box in enumerate(boxes)
            for shape in self._box(box, number * _HEIGHT, place)
        ]
        if not self.several:
            shapes += [self._barrier(stage.end_s, 0.0, height) for stage in self._stages]
        return shapes

    def barriers(self, lane: int, top: float, height: float) -> list[Markup]:
        """The barriers of a lane's own row; none where all rows share them."""
        if not self.several:
            return []
        return [self._barrier(stage.end_s, top, top + height) for stage in self._stages if stage.lane == lane]

    def _named(self) -> list[tuple[str, list[_Box]]]:
        """The strips from above with their names."""
        chains = sorted({stage.chain for stage in self._stages})
        if self.several:
            return [
                (f"chain {lane}", [_of(stage) for stage in self._stages if stage.lane == lane]) for lane in self.lanes
            ]
        if len(chains) > 1:
            return [
                ("chain", [self._whole(chain) for chain in chains]),
                ("stage", [_of(stage) for stage in self._stages]),
            ]
        return [("stage", [_of(stage) for stage in self._stages])]

    def _whole(self, chain: int) -> _Box:
        own = [stage for stage in self._stages if stage.chain == chain]
        start_s, end_s = own[0].start_s, own[-1].end_s
        words = f"chain {chain}: {len(own)} stages, {duration(end_s - start_s)}"
        return _Box(start_s=start_s, end_s=end_s, name=str(chain), words=words)

    def _box(self, box: _Box, top: float, place: int) -> list[Markup]:
        left, right = self._axis.at(box.start_s), self._axis.at(box.end_s)
        shapes = [
            element(
                "rect",
                element("title", box.words),
                x=percent(left), y=top, width=percent(right - left), height=_HEIGHT - 1, class_=f"stage s{place % 2}",
            )
        ]  # fmt: skip
        wanted = len(box.name) + 1
        if right - left >= wanted * _LETTER:
            wide = " wide" if right - left < wanted * _LETTER_ON_PHONE else ""
            middle = percent((left + right) / 2)
            shapes.append(element("text", box.name, x=middle, y=top + 13, class_=f"tick{wide}", text_anchor="middle"))
        return shapes

    def _barrier(self, at_s: float, top: float, bottom: float) -> Markup:
        x = percent(self._axis.at(at_s))
        return element("line", x1=x, x2=x, y1=top, y2=bottom, class_="barrier")


def _of(stage: StageSpan) -> _Box:
    return _Box(
        start_s=stage.start_s,
        end_s=stage.end_s,
        name=stage.name.rpartition(".")[2],
        words=f"stage {stage.name}: {stage.detail}, {duration(stage.end_s - stage.start_s)}",
    )
