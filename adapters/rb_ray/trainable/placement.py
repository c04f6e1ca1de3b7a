"""The bundles that a scheduler gives a trial for one stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray import tune


class StagePlacement(tune.PlacementGroupFactory):
    """Bundles, one a slot, that also tell the trial's processes which stage they are for.

    To Tune it is a `PlacementGroupFactory` like any other, and equal to one with the same bundles. What it carries
    besides reaches the trainable with its resources, where `rb_ray.get_allocation` finds it.

    Args:
        bundles: what each slot asks for, the trainable's own first.
        strategy: Ray's placement strategy.
        stage: which stage the bundles are for, from 0.
        until: iterations done in total when the stage ends; None when stages are not counted in them.
        max_iterations: iterations done in total when the last stage ends; None when stages are not counted in them.
        options: anything else that `ray.util.placement_group` takes.
    """

    def __init__(
        self,
        bundles: Sequence[Mapping[str, float]],
        strategy: str = "PACK",
        *,
        stage: int,
        until: int | None = None,
        max_iterations: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__([dict(bundle) for bundle in bundles], strategy, **options)
        self.stage = stage
        self.until = until
        self.max_iterations = max_iterations
