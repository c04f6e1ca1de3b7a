"""The losses as CSV, and what they come to in Markdown."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

OURS = "RubberBandSampler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run.

    Attributes:
        lag: name of how much early rungs mislead.
        sampler: name of the sampler.
        seed: of the problem and of the sampler.
        losses: after each bracket, the true loss of what looks best.
    """

    lag: str
    sampler: str
    seed: int
    losses: tuple[float, ...]


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """One line a run."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["lag", "sampler", "seed", *(f"after_{k + 1}" for k in range(len(rows[0].losses)))])
        for row in rows:
            writer.writerow([row.lag, row.sampler, row.seed, *(f"{loss:.5f}" for loss in row.losses)])


def read_csv(path: Path) -> list[Row]:
    """The rows that `write_csv` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file)
    return [
        Row(lag=lag, sampler=sampler, seed=int(seed), losses=tuple(map(float, losses)))
        for lag, sampler, seed, *losses in lines
    ]


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Quantiles of the losses, and the pairs of runs compared after the first bracket, half of them, and all."""
    brackets = len(rows[0].losses)
    runs: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for row in rows:
        runs.setdefault((row.lag, row.sampler), []).append(row.losses)
    losses = {key: np.array(own) for key, own in runs.items()}
    lines = [
        "# Samplers in synchronous brackets",
        "",
        "True loss of the trial that looks best among the fully trained; the least loss there is is 0. Median over "
        f"{len(next(iter(losses.values())))} seeds, and in brackets the first and third quartile.",
        "",
        _line(["early rungs mislead", "sampler", *(f"after {k + 1}" for k in range(brackets))]),
        _line(["---"] * (brackets + 2)),
    ]
    for (lag, sampler), own in losses.items():
        low, median, high = 1000 * np.quantile(own, [0.25, 0.5, 0.75], axis=0)
        cells = [f"{m:.0f} ({a:.0f}, {b:.0f})" for a, m, b in zip(low, median, high, strict=True)]
        lines.append(_line([lag, sampler, *cells]))
    lines += [
        "",
        "All losses in thousandths.",
        "",
        f"{OURS} against the others, on the same problems with the same seeds. The difference is the mean of its loss "
        "less the other's, in thousandths; p is that of Wilcoxon's signed-rank test, two-sided, not corrected for the "
        "number of comparisons.",
        "",
        _line(["early rungs mislead", "against", "after", "wins", "losses", "difference", "p"]),
        _line(["---"] * 7),
    ]
    for (lag, sampler), own in losses.items():
        if sampler != OURS:
            for after in (1, brackets // 2, brackets):
                less = losses[lag, OURS][:, after - 1] - own[:, after - 1]
                cells = [(less < 0).sum(), (less > 0).sum(), f"{1000 * less.mean():+.1f}", _p(less)]
                lines.append(_line([lag, sampler, str(after), *map(str, cells)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _p(differences: np.ndarray) -> str:
    if not differences.any():
        return "-"
    p = wilcoxon(differences).pvalue
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
