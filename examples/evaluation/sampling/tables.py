"""The losses of all runs, and what they come to in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import wilcoxon
from table import markdown

OURS = "RubberBandSampler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run after one bracket.

    Attributes:
        lag: name of how much early rungs mislead.
        sampler: name of the sampler.
        seed: of the problem and of the sampler.
        bracket: after so many brackets.
        loss: the true loss of what looks best then.
    """

    lag: str
    sampler: str
    seed: int
    bracket: int
    loss: float


def page(rows: Sequence[Row], origin: str) -> str:
    """Quantiles of the losses, and the pairs of runs compared after the first bracket, half of them, and all."""
    losses = _by_sampler(rows)
    seeds, brackets = next(iter(losses.values())).shape
    quantiles, pairs = [], []
    for (lag, sampler), own in losses.items():
        low, median, high = 1000 * np.quantile(own, [0.25, 0.5, 0.75], axis=0)
        cells = [f"{m:.0f} ({a:.0f}, {b:.0f})" for a, m, b in zip(low, median, high, strict=True)]
        quantiles.append([lag, sampler, *cells])
        if sampler != OURS:
            for after in (1, brackets // 2, brackets):
                less = losses[lag, OURS][:, after - 1] - own[:, after - 1]
                wins, lost = str((less < 0).sum()), str((less > 0).sum())
                pairs.append([lag, sampler, str(after), wins, lost, f"{1000 * less.mean():+.1f}", _p(less)])
    parts = [
        "# Samplers in synchronous brackets",
        "True loss of the trial that looks best among the fully trained; the least loss there is is 0. Median over "
        f"{seeds} seeds, and in brackets the first and third quartile.",
        origin,
        markdown(["early rungs mislead", "sampler", *(f"after {k + 1}" for k in range(brackets))], quantiles),
        "All losses in thousandths.",
        f"{OURS} against the others, on the same problems with the same seeds. The difference is the mean of its loss "
        "less the other's, in thousandths; p is that of Wilcoxon's signed-rank test, two-sided, not corrected for the "
        "number of comparisons.",
        markdown(["early rungs mislead", "against", "after", "wins", "losses", "difference", "p"], pairs),
    ]
    return "\n\n".join(parts) + "\n"


def _by_sampler(rows: Sequence[Row]) -> dict[tuple[str, str], np.ndarray]:
    """Losses by lag and sampler; shape (seeds, brackets) each."""
    brackets = max(row.bracket for row in rows)
    losses: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        losses.setdefault((row.lag, row.sampler), []).append(row.loss)
    return {key: np.reshape(own, (-1, brackets)) for key, own in losses.items()}


def _p(differences: np.ndarray) -> str:
    if not differences.any():
        return "-"
    p = wilcoxon(differences).pvalue
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"
