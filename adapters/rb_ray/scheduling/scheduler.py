"""`RubberBandScheduler`: trials of Ray Tune that wait for each other at rungs, on nodes that come and go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.result import DEFAULT_METRIC
from ray.tune.schedulers import TrialScheduler

from rb_core.bracket import Verdict
from rb_core.clock import SystemClock
from rb_core.hardware import Cloud
from rb_core.profile import ScalingProfile
from rb_ray import _compat
from rb_ray.scheduling.memory import Memory, parse_memory
from rb_ray.scheduling.refusals import check_controller, check_search, check_trainable
from rb_ray.scheduling.sitting import Sitting
from rb_ray.scheduling.terms import in_tune_s_words, read_deadline, read_terms


class RubberBandScheduler(TrialScheduler):
    """Successive halving over all trials of an experiment, which keeps deadlines and gives nodes back.

    All trials run up to the first rung, at `grace_period`, and are paused there. When the last one has come, one in
    `reduction_factor` goes on, with the slots of those that are stopped, and so on up to `max_t`. Trials are ranked by
    the first score that they report at or beyond a rung; NaN ranks last, and of equals the one that came first is
    better.

    A trial's slots change only while it is paused, so a trainable has to report a checkpoint at every rung, and to
    look at what it holds when it starts (`rb_ray.get_allocation`, or `rb_ray.distributed`).

    Args:
        deadline: when all is to be over: seconds, a `timedelta`, or such as ``"2h"``; ``"1.5x"`` is so many times what
            the fastest plan takes. Without one, `TuneConfig(time_budget_s=...)` is the deadline.
        budget_usd: what all may cost, in place of a deadline.
        max_t: where trials end that are never stopped, in units of `time_attr`.
        grace_period: where the first rung lies.
        reduction_factor: an integer of at least 2.
        metric: what results are ranked by; here or in `TuneConfig`.
        mode: ``"max"`` or ``"min"``; likewise.
        time_attr: the attribute of results that `max_t` counts.
        profile: how the trainable scales, or the file of it that ``rb-tune profile`` wrote.
        nodes: what can be rented; None for the cluster that Ray is connected to.
        planner: who plans for the deadline.
        max_slots_per_trial: the widest that a trial may become. Without it and a profile trials keep one slot.
        max_usd: hard limit of the bill.
        on_deadline: ``"finish"`` the trials when the deadline has come, or ``"stop"`` them.
        stop_last_trials: whether trials that reach `max_t` are stopped there.
        seed: of the planning.

    Raises:
        ValueError: an argument is out of its limits.
    """

    _supports_buffered_results = False

    def __init__(
        self,
        *,
        deadline: float | str | timedelta | None = None,
        budget_usd: float | None = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 3,
        metric: str | None = None,
        mode: str | None = None,
        time_attr: str = "training_iteration",
        profile: ScalingProfile | str | Path | None = None,
        nodes: Cloud | None = None,
        planner: str = "exact",
        max_slots_per_trial: int | None = None,
        max_usd: float | None = None,
        on_deadline: str = "finish",
        stop_last_trials: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if mode not in (None, "min", "max"):
            raise ValueError(f"`mode` must be 'min' or 'max', but got {mode!r}.")
        self._terms = read_terms(
            deadline=deadline,
            budget_usd=budget_usd,
            max_t=max_t,
            grace_period=grace_period,
            reduction_factor=reduction_factor,
            time_attr=time_attr,
            profile=profile,
            nodes=nodes,
            planner=planner,
            max_slots_per_trial=max_slots_per_trial,
            max_usd=max_usd,
            on_deadline=on_deadline,
            stop_last_trials=stop_last_trials,
            seed=seed,
        )
        self._metric = metric
        self._mode = mode
        self._sitting: Sitting | None = None
        self._recalled: Memory | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles schedulers with the Tuner; what one remembers of an experiment is kept in the experiment."""
        return {**self.__dict__, "_sitting": None}

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """An experiment begins: take what `TuneConfig` says; False where it says what was said here already.

        Raises:
            ValueError: `num_samples` has no end.
        """
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._sitting = None
        self._metric = metric or self._metric
        self._mode = mode or self._mode
        if self._metric is None and self._mode:
            self._metric = DEFAULT_METRIC
        check_search(spec)
        limit = spec.get("time_budget_s")
        terms = self._terms
        unlimited = terms.deadline_s is None and terms.deadline_factor is None and terms.budget_usd is None
        if limit is not None and unlimited:
            with in_tune_s_words():
                _, limit_s = read_deadline(limit)
            self._terms = replace(terms, deadline_s=limit_s)
        return True

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Number a trial and hold it back.

        Raises:
            ValueError: the experiment is set up in a way that cannot work.
        """
        if not self._metric or not self._mode:
            raise ValueError(
                f"RubberBandScheduler has been instantiated without a valid `metric` ({self._metric}) or `mode` "
                f"({self._mode}) parameter. Either pass these parameters when instantiating the scheduler, or pass "
                "them as parameters to `tune.TuneConfig()`."
            )
        if self._sitting is None:
            check_controller(tune_controller)
            check_trainable(trial)
            self._sitting = Sitting(
                self._terms,
                metric=self._metric,
                mode=self._mode,
                first=trial,
                clock=SystemClock(),
                memory=self._recalled,
            )
            _compat.add_callback(tune_controller, _End(self._sitting))
        self._sitting.came(trial, tune_controller)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: Mapping[str, Any]) -> str:
        """Note a result. Whoever stands at a rung is paused, the last one as well."""
        if self._sitting is None:
            return self.CONTINUE
        return _ANSWERS[self._sitting.reported(trial, result)]

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Note a failure; whether for good is seen when the trial is added again."""
        if self._sitting is not None:
            # Where a trial is tried again, Tune has ended this start of it already.
            self._sitting.erred(trial, for_good=trial.status != Trial.ERROR)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: Mapping[str, Any]) -> None:
        """Note that a running trial has ended."""
        if self._sitting is not None:
            self._sitting.ended(trial, result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Note that a waiting trial has been stopped."""
        if self._sitting is not None:
            self._sitting.ended(trial)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Take the run as far as it goes now, and name a trial that may start.

        Raises:
            RubberBandError: the run cannot go on. All nodes have been given back.
        """
        return None if self._sitting is None else self._sitting.choose(tune_controller)

    def debug_string(self) -> str:
        """Where the run stands."""
        return "Using RubberBand: " + ("no trial yet" if self._sitting is None else self._sitting.words())

    def save(self, checkpoint_path: str) -> None:
        """Write what `restore` reads. Tune does not call it: what has to survive is kept in the experiment's folder."""
        memory = self._recalled if self._sitting is None else self._sitting.memory
        Path(checkpoint_path).write_text("" if memory is None else memory.text(), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        """Go on from what `save` wrote when the first trial is added.

        Raises:
            ValueError: the file holds something else.
        """
        text = Path(checkpoint_path).read_text(encoding="utf-8")
        try:
            self._recalled = parse_memory(text) if text else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{checkpoint_path} was not written by RubberBandScheduler.save: {error}.") from None
        self._sitting = None


_ANSWERS = {
    Verdict.CONTINUE: TrialScheduler.CONTINUE,
    Verdict.WAIT: TrialScheduler.PAUSE,
    Verdict.STOP: TrialScheduler.STOP,
}


class _End(Callback):
    """Told by Tune that the experiment has ended, also when it was interrupted or its time was up."""

    def __init__(self, sitting: Sitting) -> None:
        self._sitting = sitting

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        self._sitting.settle()
