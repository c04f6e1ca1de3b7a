"""Who is best, told apart from the engine: the plainest possible statement of the choice at a rung."""

from __future__ import annotations

import math
from collections.abc import Mapping


def best_first(scores: Mapping[int, float], mode: str) -> tuple[int, ...]:
    """Trials by score, the best first; NaN comes last, and of equals the lower number comes first.

    Args:
        scores: by number of the trial.
        mode: ``max`` or ``min``, which scores are better.
    """
    numbers = sorted(scores)
    ranked = [trial for trial in numbers if not math.isnan(scores[trial])]
    # Equals stay in their order, with `reverse` too.
    ranked.sort(key=lambda trial: scores[trial], reverse=mode == "max")
    return (*ranked, *(trial for trial in numbers if math.isnan(scores[trial])))
