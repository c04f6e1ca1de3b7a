"""What is trained in the real runs: three functions of about a fifth of a second of one core an iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy.stats import loguniform, randint, uniform

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A training function, and how its trials are started.

    Attributes:
        target: where the function is.
        launcher: how its processes are started.
        metric: name of its score, of which more is better.
        slots: numbers of slots per trial that are measured.
        space: what its configurations are drawn from.
    """

    target: str
    launcher: str
    metric: str
    slots: tuple[int, ...]
    space: dict[str, Any] = field(repr=False)


WORKLOADS = {
    "convolution": Workload(
        target=f"{_HERE / 'trained' / 'convolution.py'}:train",
        launcher="ddp",
        metric="accuracy",
        slots=(1, 2),
        space={"lr": loguniform(1e-3, 0.3), "momentum": uniform(0.5, 0.45)},
    ),
    "perceptron": Workload(
        target=f"{_HERE / 'trained' / 'perceptron.py'}:train",
        launcher="process",
        metric="accuracy",
        slots=(1,),
        space={"lr": loguniform(1e-3, 0.3), "width": randint(64, 385)},
    ),
    "relaxation": Workload(
        target=f"{_HERE / 'trained' / 'relaxation.py'}:train",
        launcher="process",
        metric="digits",
        slots=(1,),
        space={"omega": uniform(1.0, 0.99)},
    ),
}
"""By name: a network on real images, data-parallel over gloo where it has two slots; one whose configurations differ in
speed by their width; and arithmetic without any network."""
