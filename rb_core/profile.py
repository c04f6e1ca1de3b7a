"""How one training function scales: what the planner needs to know of it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rb_core.check import non_negative, positive, positive_int
from rb_core.errors import InvalidInput
from rb_core.hardware import Latency


def _zero() -> Latency:
    return Latency(mean=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingProfile:
    """Measured latencies of a training function, by slots per trial.

    Attributes:
        iteration_s: latency of one iteration for each number of slots that may be planned with.
        start_s: process start, restore and warm-up of a trial.
        save_s: from the end of the last iteration to the end of the trial's processes.
        sync_s: length of the barrier after a stage.
        trial_cv: coefficient of variation of the speed between configurations.
        run_cv: how far all iterations of a run together may be off their means: coefficient of variation of one factor
            that all trials of a run have in common.
        spread_penalty: a trial that spans several nodes is slower by 1 + spread_penalty.
        checkpoint_gib: size of one checkpoint.
    """

    iteration_s: Mapping[int, Latency]
    start_s: Latency = field(default_factory=_zero)
    save_s: Latency = field(default_factory=_zero)
    sync_s: float = 0.0
    trial_cv: float = 0.0
    spread_penalty: float = 0.0
    checkpoint_gib: float = 0.0
    run_cv: float = 0.0

    def __post_init__(self) -> None:
        if not self.iteration_s:
            raise InvalidInput("iteration_s", "must hold the latency of at least one number of slots")
        for slots, latency in self.iteration_s.items():
            positive_int("iteration_s", slots)
            positive(f"iteration_s.{slots}.mean", latency.mean)
        object.__setattr__(self, "iteration_s", dict(sorted(self.iteration_s.items())))
        for key in ("sync_s", "trial_cv", "run_cv", "spread_penalty", "checkpoint_gib"):
            non_negative(key, getattr(self, key))

    def __hash__(self) -> int:
        """Of profiles that are equal it is equal."""
        return hash((tuple(self.iteration_s.items()), self.start_s, self.save_s))

    @property
    def slots(self) -> tuple[int, ...]:
        """Numbers of slots per trial that may be planned with, ascending."""
        return tuple(self.iteration_s)

    @property
    def noisy(self) -> bool:
        """Whether any of the profile's figures varies."""
        latencies = (*self.iteration_s.values(), self.start_s, self.save_s)
        return self.trial_cv > 0 or self.run_cv > 0 or any(latency.std > 0 for latency in latencies)

    def slowdown(self, *, spans: bool, speed: float) -> float:
        """The factor f of the model: what spanning nodes and a slower type multiply an iteration by."""
        return (1.0 + self.spread_penalty if spans else 1.0) / speed

    def trial_s(self, iterations: int, *, slots: int, node_slots: int, speed: float) -> float:
        """Mean duration of a trial's stage, from the start of its processes to their end, in seconds.

        Args:
            iterations: how many it runs.
            slots: its own.
            node_slots: those of each node.
            speed: of the nodes' type.
        """
        work_s = self.work_s(iterations, slots=slots, node_slots=node_slots, speed=speed)
        return self.start_s.mean + work_s + self.save_s.mean

    def work_s(self, iterations: int, *, slots: int, node_slots: int, speed: float) -> float:
        """The part of `trial_s` that its iterations take."""
        iterating_s = iterations * self.iteration_s[slots].mean
        return self.slowdown(spans=slots > node_slots, speed=speed) * iterating_s
