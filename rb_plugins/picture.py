"""The cost-time front as a picture: in plain characters for a terminal, and as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rb_core.errors import InvalidInput
from rb_core.report import Figures, duration, money
from rb_plugins.importable import require

FORMATS = (".svg", ".png")
"""Endings of the files that can be written."""

_WIDTH, _HEIGHT = 64, 16
"""Columns and rows of the field in a terminal."""

_FAR = 3.0
"""A plan of the front that costs more than so many times the front's median is off the scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Points of time (seconds) and cost (usd).

    Attributes:
        front: the plans that none beats, the fastest first.
        marks: other plans, and the chosen one, by name.
    """

    front: Sequence[Figures]
    marks: Mapping[str, Figures]

    @property
    def ceiling_usd(self) -> float:
        """Where the cost axis ends: the dearest point that is not off the scale; marks never are."""
        far = _FAR * median(usd for _, usd in self.front)
        return max(usd for _, usd in (*(point for point in self.front if point[1] <= far), *self.marks.values()))

    def text(self) -> str:
        """In plain characters: time to the right, cost upwards, ``o`` for the front and a letter for each mark.

        What is off the scale stands in the top row, and the last line says what it costs.
        """
        letters = dict(zip(self.marks, _letters(self.marks), strict=True))
        points = [*self.front, *self.marks.values()]
        times_s, costs = zip(*points, strict=True)
        first_s, last_s, least, most = min(times_s), max(times_s), min(costs), self.ceiling_usd
        field = [[" "] * _WIDTH for _ in range(_HEIGHT)]
        for (time_s, usd), letter in [
            *((point, "o") for point in self.front),
            *((point, letters[name]) for name, point in self.marks.items()),
        ]:
            row, column = _place(min(usd, most), least, most, _HEIGHT), _place(time_s, first_s, last_s, _WIDTH)
            field[_HEIGHT - 1 - row][column] = letter
        labels = [money(most), *[""] * (_HEIGHT - 2), money(least)]
        margin = max(map(len, labels))
        lines = [f"{label:>{margin}} |{''.join(row)}".rstrip() for label, row in zip(labels, field, strict=True)]
        last = duration(last_s)
        lines.append(f"{'':{margin}} +{'-' * _WIDTH}")
        lines.append(f"{'':{margin}}  {duration(first_s):<{_WIDTH - len(last)}}{last}")
        marked = (f"{letter} {name}" for name, letter in letters.items())
        lines.append("   ".join([f"o {self._front_label()}", *marked]))
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Draw it into a file; equal pictures give equal bytes with one version of matplotlib.

        Raises:
            InvalidInput: the file's ending is none of `FORMATS`, it cannot be written, or matplotlib is not installed
                or broken.
        """
        check_picture(path)
        require("matplotlib", "matplotlib.figure", key="--picture", extra="report")
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context({"svg.hashsalt": "rubberband-tune", "svg.fonttype": "none"}):
            figure = Figure(figsize=(7, 4.5), layout="constrained")
            axes = figure.subplots()
            axes.step(*zip(*self.front, strict=True), where="post", marker="o", markersize=4, label=self._front_label())
            for name, (time_s, usd) in self.marks.items():
                axes.plot([time_s], [usd], linestyle="", marker="*" if name.startswith("chosen") else "s", label=name)
            axes.set_xlabel("time in s")
            axes.set_ylabel("cost in usd")
            axes.set_ylim(bottom=0)
            if self._front_usd() > self.ceiling_usd:
                axes.set_ylim(top=1.05 * self.ceiling_usd)
            axes.legend(frameon=False)
            try:
                figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
            except OSError as error:
                raise InvalidInput(
                    "--picture", f"{path} cannot be written: {error.strerror}; name a file that can be"
                ) from None

    def _front_usd(self) -> float:
        return max(usd for _, usd in self.front)

    def _front_label(self) -> str:
        dearest = self._front_usd()
        return f"front (off the scale: up to {money(dearest)})" if dearest > self.ceiling_usd else "front"


def check_picture(path: Path) -> None:
    """Raise `InvalidInput` unless the file's ending is one that can be drawn."""
    if path.suffix not in FORMATS:
        raise InvalidInput("--picture", f"must end in {' or '.join(FORMATS)}, got {str(path)!r}")


def _letters(names: Mapping[str, Figures]) -> list[str]:
    return ["*" if name.startswith("chosen") else chr(ord("A") + number) for number, name in enumerate(names)]


def _place(value: float, low: float, high: float, cells: int) -> int:
    return 0 if high <= low else round((value - low) / (high - low) * (cells - 1))
