"""How a training function scales, as values: what was measured, the curve through it, and how far that goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rb_core.hardware import Latency
from rb_core.profile import ScalingProfile
from rb_plugins.config.profile import ProfileTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """A scaling profile and what it rests on.

    Attributes:
        iteration_s: the latencies that are planned with, by slots per trial.
        starts: what was measured: one row of a profile file for each start; none where the profile was given.
        coefficients: a, b, c and d of the fitted curve; none where there is no fit.
        residuals: of the fit, (fitted - measured) / measured, by slots.
        largest_slots: the largest number of slots that is vouched for.
        warnings: what a person should know.
    """

    iteration_s: Mapping[int, Latency]
    starts: Sequence[Mapping[str, Any]] = ()
    coefficients: tuple[float, ...] = ()
    residuals: Mapping[int, float] = field(default_factory=dict)
    largest_slots: int = 0
    warnings: tuple[str, ...] = ()

    @classmethod
    def given(cls, profile: ScalingProfile) -> Scaling:
        """That of a profile which somebody wrote, or of which only the latencies are known."""
        return cls(iteration_s=profile.iteration_s, largest_slots=max(profile.slots))

    @classmethod
    def measured(cls, told: ProfileTable) -> Scaling:
        """That of a profile file."""
        fit = told.fit or {}
        profile = told.value()
        return cls(
            iteration_s=profile.iteration_s,
            starts=tuple(told.measurements or ()),
            coefficients=tuple(fit.get("coefficients", ())),
            residuals={int(slots): residual for slots, residual in fit.get("residuals", {}).items()},
            largest_slots=fit.get("largest_slots", max(profile.slots)),
            warnings=told.warnings,
        )

    @property
    def points(self) -> list[tuple[int, float]]:
        """Slots and the mean time of an iteration, warm-up left out, of each start that has one."""
        return [
            (start["slots"], float(np.mean(start["iterations_s"][1:])))
            for start in self.starts
            if len(start["iterations_s"]) > 1
        ]

    @property
    def sizes(self) -> list[int]:
        """The numbers of slots that were measured."""
        return sorted({slots for slots, _ in self.points})

    def fitted_s(self, slots: float) -> float:
        """Seconds of an iteration by the fitted curve."""
        terms = (1.0, 1.0 / slots, math.log2(slots), slots)
        return sum(factor * term for factor, term in zip(self.coefficients, terms, strict=True))
