"""The cost-time front as a picture: in plain characters for a terminal, and as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rb_core.errors import InvalidInput, RubberBandError
from rb_core.report import Figures, duration, money

FORMATS = (".svg", ".png")
"""Endings of the files that can be written."""

_WIDTH, _HEIGHT = 64, 16
"""Columns and rows of the field in a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Points of time (seconds) and cost (usd).

    Attributes:
        front: the plans that none beats, the fastest first.
        marks: other plans, and the chosen one, by name.
    """

    front: Sequence[Figures]
    marks: Mapping[str, Figures]

    def text(self) -> str:
        """In plain characters: time to the right, cost upwards, ``o`` for the front and a letter for each mark."""
        letters = dict(zip(self.marks, _letters(self.marks), strict=True))
        points = [*self.front, *self.marks.values()]
        (first_s, last_s), (least, most) = ((min(column), max(column)) for column in zip(*points, strict=True))
        field = [[" "] * _WIDTH for _ in range(_HEIGHT)]
        for (time_s, usd), letter in [
            *((point, "o") for point in self.front),
            *((point, letters[name]) for name, point in self.marks.items()),
        ]:
            row, column = _place(usd, least, most, _HEIGHT), _place(time_s, first_s, last_s, _WIDTH)
            field[_HEIGHT - 1 - row][column] = letter
        labels = [money(most), *[""] * (_HEIGHT - 2), money(least)]
        margin = max(map(len, labels))
        lines = [f"{label:>{margin}} |{''.join(row)}".rstrip() for label, row in zip(labels, field, strict=True)]
        last = duration(last_s)
        lines.append(f"{'':{margin}} +{'-' * _WIDTH}")
        lines.append(f"{'':{margin}}  {duration(first_s):<{_WIDTH - len(last)}}{last}")
        lines.append("   ".join(["o front", *(f"{letter} {name}" for name, letter in letters.items())]))
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Draw it into a file; equal pictures give equal bytes with one version of matplotlib.

        Raises:
            InvalidInput: the file's ending is none of `FORMATS`, or it cannot be written.
            RubberBandError: matplotlib is not installed.
        """
        check_picture(path)
        try:
            import matplotlib
            from matplotlib.figure import Figure
        except ImportError:
            raise RubberBandError(
                "--picture needs matplotlib, which is not installed; pip install 'rubberband-tune[report]'"
            ) from None
        with matplotlib.rc_context({"svg.hashsalt": "rubberband-tune", "svg.fonttype": "none"}):
            figure = Figure(figsize=(7, 4.5), layout="constrained")
            axes = figure.subplots()
            axes.step(*zip(*self.front, strict=True), where="post", marker="o", markersize=4, label="front")
            for name, (time_s, usd) in self.marks.items():
                axes.plot([time_s], [usd], linestyle="", marker="*" if name.startswith("chosen") else "s", label=name)
            axes.set_xlabel("time in s")
            axes.set_ylabel("cost in usd")
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False)
            try:
                figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
            except OSError as error:
                raise InvalidInput("--picture", f"{path} cannot be written: {error.strerror}") from None


def check_picture(path: Path) -> None:
    """Raise `InvalidInput` unless the file's ending is one that can be drawn."""
    if path.suffix not in FORMATS:
        raise InvalidInput("--picture", f"must end in {' or '.join(FORMATS)}, got {str(path)!r}")


def _letters(names: Mapping[str, Figures]) -> list[str]:
    return ["*" if name.startswith("chosen") else chr(ord("A") + number) for number, name in enumerate(names)]


def _place(value: float, low: float, high: float, cells: int) -> int:
    return 0 if high <= low else round((value - low) / (high - low) * (cells - 1))
