"""What is to be chosen for the others: nodes, slots per trial and eta; and what is best in hindsight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dollars.rows import OURS, Row

Setting = tuple[str, float, float]
"""Pool, budget and deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way to tune with one choice, over all draws of a setting.

    Attributes:
        pool: name of the pool.
        budget_usd: of money.
        deadline_s: of time.
        way: how it was tuned.
        nodes: of the fixed cluster.
        width: slots per trial.
        eta: one trial in so many goes on.
        draws: how many.
        regret: median; None where half of the draws have no model.
        none: share of the draws without a model.
        in_hindsight: whether it is the best of its way, which all draws are kept of.
    """

    pool: str
    budget_usd: float
    deadline_s: float
    way: str
    nodes: int
    width: int
    eta: int
    draws: int
    regret: float | None
    none: float
    in_hindsight: bool

    @property
    def median(self) -> float:
        """Median regret; infinite where there is none."""
        return math.inf if self.regret is None else self.regret


def settings(rows: Iterable[Row]) -> dict[Setting, list[Row]]:
    """The rows by setting, in their order."""
    found: dict[Setting, list[Row]] = {}
    for row in rows:
        found.setdefault((row.pool, row.budget_usd, row.deadline_s), []).append(row)
    return found


def regrets(rows: Iterable[Row]) -> list[float]:
    """Regrets in the order of the seeds; infinite where there is no model."""
    return [math.inf if row.regret is None else row.regret for row in sorted(rows, key=lambda row: row.seed)]


def of_way(rows: Iterable[Row], way: str) -> list[Row]:
    """Those of one way to tune."""
    return [row for row in rows if row.way == way]


def chosen(rows: Sequence[Row]) -> tuple[list[Row], list[Choice]]:
    """Ours and, of each other way and setting, the draws of the best choice; and how every choice did.

    The best is that with the least median regret, of equals the one with the fewest draws without a model, then the
    least mean of the others.
    """
    kept, choices = of_way(rows, OURS), []
    for (pool, budget_usd, deadline_s), own in settings(rows).items():
        for way in dict.fromkeys(row.way for row in own if row.way != OURS):
            found: dict[tuple[int, int, int], list[Row]] = {}
            for row in of_way(own, way):
                found.setdefault((row.nodes, row.width, row.eta), []).append(row)
            best = min(found, key=lambda choice: (_rank(found[choice]), choice))
            kept += found[best]
            for choice, draws in found.items():
                middle = _rank(draws)[0]
                choices.append(
                    Choice(
                        pool=pool,
                        budget_usd=budget_usd,
                        deadline_s=deadline_s,
                        way=way,
                        nodes=choice[0],
                        width=choice[1],
                        eta=choice[2],
                        draws=len(draws),
                        regret=middle if middle < math.inf else None,
                        none=sum(row.regret is None for row in draws) / len(draws),
                        in_hindsight=choice == best,
                    )
                )
    return kept, choices


def _rank(draws: Sequence[Row]) -> tuple[float, int, float]:
    values = sorted(regrets(draws))
    known = [value for value in values if value < math.inf]
    # Between two infinite ones there is nothing to interpolate.
    middle = float(np.median(values)) if values[len(values) // 2] < math.inf else math.inf
    return middle, len(values) - len(known), float(np.mean(known)) if known else math.inf
