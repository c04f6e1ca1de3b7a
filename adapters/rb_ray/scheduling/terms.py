"""What a scheduler is asked for, checked and in the core's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rb_core.check import positive, positive_int
from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_plugins.config.durations import factor, seconds
from rb_plugins.config.profile import read_profile
from rb_plugins.tuning import ON_DEADLINE, AtDeadline
from rb_ray.nodes.existing import ExistingNodes

ITERATIONS = "training_iteration"
"""What Tune counts a trial's reports by; rungs of this attribute are iterations that a trainable can count too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a scheduler was made with.

    Attributes:
        r: where the first rung lies, in units of `time_attr`.
        R: where trials end that are never stopped.
        eta: one trial in so many goes on after every rung.
        time_attr: the attribute of results that rungs are measured in.
        stop_last_trials: whether trials that reach R are stopped there.
        deadline_s: when all is to be over, in seconds since the first trial came.
        deadline_factor: the same as a multiple of what the fastest plan takes.
        budget_usd: what all may cost.
        max_usd: hard limit of the bill.
        on_deadline: what happens when the deadline has come.
        profile: how the trainable scales; None where it is measured as the run goes.
        nodes: what can be rented; None for the cluster that Ray is connected to, as it is.
        planner: who plans.
        max_slots_per_trial: the widest that a trial may become; None for what the profile knows, else 1.
        seed: of the planning.
    """

    r: int
    R: int
    eta: int
    time_attr: str
    stop_last_trials: bool
    deadline_s: float | None
    deadline_factor: float | None
    budget_usd: float | None
    max_usd: float | None
    on_deadline: AtDeadline
    profile: ScalingProfile | None
    nodes: Cloud | None
    planner: str
    max_slots_per_trial: int | None
    seed: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Slots per trial that may be given, ascending: those of the profile, else powers of two."""
        most = self.max_slots_per_trial
        if self.profile is not None:
            return tuple(width for width in self.profile.slots if most is None or width <= most) or (1,)
        most = most or 1
        return tuple(sorted({*(1 << power for power in range(most.bit_length())), most}))


def read_terms(
    *,
    deadline: float | str | timedelta | None,
    budget_usd: float | None,
    max_t: float,
    grace_period: float,
    reduction_factor: float,
    time_attr: str,
    profile: ScalingProfile | str | Path | None,
    nodes: Cloud | None,
    planner: str,
    max_slots_per_trial: int | None,
    max_usd: float | None,
    on_deadline: str,
    stop_last_trials: bool,
    seed: int,
) -> Terms:
    """Check what a scheduler is asked for.

    Raises:
        ValueError: the first thing that is wrong.
    """
    if deadline is not None and budget_usd is not None:
        raise ValueError("Specify either `deadline` or `budget_usd`, not both.")
    if on_deadline not in ON_DEADLINE:
        raise ValueError(f"`on_deadline` must be one of {', '.join(map(repr, ON_DEADLINE))}, but got {on_deadline!r}.")
    if not isinstance(time_attr, str) or not time_attr:
        raise ValueError(f"`time_attr` must be the name of a result's attribute, but got {time_attr!r}.")
    if nodes is not None and not isinstance(nodes, Cloud):
        raise ValueError(f"`nodes` must be an `rb_core.hardware.Cloud` or None, but got {nodes!r}.")
    if nodes is not None and nodes.provider == ExistingNodes.name:
        raise ValueError(
            f"`nodes` must be of a provider whose nodes are started for the run, such as 'local', but got those of "
            f"{nodes.provider!r}, which the cluster has already. Leave `nodes` out to run on the cluster as it stands."
        )
    for key, usd in (("budget_usd", budget_usd), ("max_usd", max_usd)):
        if usd is not None and nodes is None:
            raise ValueError(
                f"`{key}` needs `nodes` with a price: the cluster that Ray is connected to has none that is known. "
                "Give `nodes`, or a `deadline` in its place."
            )
    with in_tune_s_words():
        times, limit_s = read_deadline(deadline)
        for key, usd in (("budget_usd", budget_usd), ("max_usd", max_usd)):
            if usd is not None:
                positive(key, usd)
        if max_slots_per_trial is not None:
            positive_int("max_slots_per_trial", max_slots_per_trial)
        r, most, eta = (_whole(value) for value in (grace_period, max_t, reduction_factor))
        ExperimentSpec.successive_halving(n=1, r=r, R=most, eta=eta)
        known = read_profile(str(profile), folder=Path.cwd()) if isinstance(profile, str | Path) else profile
    return Terms(
        r=r,
        R=most,
        eta=eta,
        time_attr=time_attr,
        stop_last_trials=stop_last_trials,
        deadline_s=limit_s,
        deadline_factor=times,
        budget_usd=budget_usd,
        max_usd=max_usd,
        on_deadline="stop" if on_deadline == "stop" else "finish",
        profile=known,
        nodes=nodes,
        planner=planner,
        max_slots_per_trial=max_slots_per_trial,
        seed=seed,
    )


def read_deadline(deadline: float | str | timedelta | None) -> tuple[float | None, float | None]:
    """As a multiple of the fastest plan's time, and as seconds; at most one of them.

    Raises:
        InvalidInput: it is neither.
    """
    if deadline is None:
        return None, None
    if isinstance(deadline, timedelta):
        deadline = deadline.total_seconds()
    if isinstance(deadline, str):
        times = factor(deadline)
        if times is not None:
            return positive("deadline", times), None
        deadline = seconds(deadline, key="deadline")
    return None, positive("deadline", deadline)


_NAMES = {"r": "grace_period", "R": "max_t", "eta": "reduction_factor"}
"""What Tune calls what the core calls otherwise."""


@contextmanager
def in_tune_s_words() -> Iterator[None]:
    """Let what the core refuses be refused in Tune's words."""
    try:
        yield
    except InvalidInput as error:
        problem = error.problem.replace("R (", "`max_t` (")
        raise ValueError(f"`{_NAMES.get(error.key, error.key)}` {problem}.") from None


def _whole(value: float) -> int:
    """Tune's own schedulers take 3.0 for 3; anything else is left to be refused."""
    return int(value) if isinstance(value, float) and value.is_integer() else value  # type: ignore[return-value]
