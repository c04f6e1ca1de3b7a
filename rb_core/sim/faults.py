"""What goes wrong in a rehearsal, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field

from rb_core.check import between, non_negative, positive

_PROBABILITIES = (
    "launch_failure", "never_ready", "mass_loss_probability", "trial_failure", "trial_hang", "nan_score",
    "checkpoint_torn", "answer_lost",
)  # fmt: skip

MOST_KILLS = 1000.0
"""Kills that may be expected in one run: every resumption reads the whole log again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """How often something takes longer, and how many times as long it then takes."""

    probability: float = 0.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        between("probability", self.probability, 0.0, 1.0)
        positive("factor", self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """How nodes on spot fare.

    Attributes:
        notice_s: how long before a node is taken back that is said.
        unannounced: probability that it is not said.
        droughts_per_hour: how often a time begins in which none can be had.
        drought_s: mean length of such a time.
    """

    notice_s: float = 120.0
    unannounced: float = 0.0
    droughts_per_hour: float = 0.0
    drought_s: float = 1800.0

    def __post_init__(self) -> None:
        between("unannounced", self.unannounced, 0.0, 1.0)
        for key in ("notice_s", "droughts_per_hour", "drought_s"):
            non_negative(key, getattr(self, key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Everything that can go wrong; by default nothing does.

    Attributes:
        launch_failure: probability that a request for a node fails: half of the time the call does, with all its
            nodes, and half of the time the node is lost before it runs.
        never_ready: probability that a node runs and never joins.
        slow_init: nodes that take longer to join.
        node_loss_per_hour: rate at which each running node is taken away.
        loss_notice_s: how long before that it is said.
        mass_loss_probability: probability that other nodes go with one that is taken away, each running one with
            probability 1/2.
        trial_failure: probability, per trial and stage, that the training function raises.
        trial_hang: probability, per trial and stage, that the trial says nothing from some iteration on.
        straggler: trials whose iterations take longer, per trial and stage.
        nan_score: probability, per trial and stage, that the score at the stage's end is NaN.
        checkpoint_torn: probability, per checkpoint, that it cannot be read back.
        answer_lost: probability, per call of the provider, that the call acts and its answer is lost.
        clock_step_s: how far the wall clock jumps, forth or back, at random moments.
        driver_kill_per_run: expected number of times that the engine's process is killed, up to `MOST_KILLS`.
        true_iteration_factor: how many times as long as in the profile iterations really take.
        true_init_factor: how many times as long nodes really take to join.
        spot: how nodes on spot fare, which are taken back as often as their type says.
    """

    launch_failure: float = 0.0
    never_ready: float = 0.0
    slow_init: Slowness = field(default_factory=Slowness)
    node_loss_per_hour: float = 0.0
    loss_notice_s: float = 0.0
    mass_loss_probability: float = 0.0
    trial_failure: float = 0.0
    trial_hang: float = 0.0
    straggler: Slowness = field(default_factory=Slowness)
    nan_score: float = 0.0
    checkpoint_torn: float = 0.0
    answer_lost: float = 0.0
    clock_step_s: float = 0.0
    driver_kill_per_run: float = 0.0
    true_iteration_factor: float = 1.0
    true_init_factor: float = 1.0
    spot: Spot = field(default_factory=Spot)

    def __post_init__(self) -> None:
        for key in _PROBABILITIES:
            between(key, getattr(self, key), 0.0, 1.0)
        between("driver_kill_per_run", self.driver_kill_per_run, 0.0, MOST_KILLS)
        for key in ("node_loss_per_hour", "loss_notice_s", "clock_step_s"):
            non_negative(key, getattr(self, key))
        for key in ("true_iteration_factor", "true_init_factor"):
            positive(key, getattr(self, key))
