"""What cannot work is refused before anything runs, with what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ray.tune import Trainable
from ray.tune.experiment import Trial

from rb_ray import _compat


def check_search(spec: Mapping[str, Any]) -> None:
    """Look at what Tune tells of the search.

    Raises:
        ValueError: trials would come for ever, so no rung could be decided.
    """
    samples = spec.get("num_samples")
    if isinstance(samples, int) and (samples < 0 or samples >= sys.maxsize):
        raise ValueError(
            "RubberBandScheduler waits for all trials at every rung, so `num_samples=-1` would never end: give "
            "`tune.TuneConfig(num_samples=...)` a number; `time_budget_s` may limit the time as well."
        )


def check_controller(controller: Any) -> None:
    """Look at how the experiment is set up.

    Raises:
        ValueError: it cannot work with trials that wait for each other and change their resources.
    """
    if _compat.reuses_actors(controller):
        raise ValueError(
            "RubberBandScheduler changes the resources of trials, so actors cannot be reused: "
            "leave out `reuse_actors=True`."
        )
    search = getattr(controller, "search_alg", None)
    total = getattr(search, "total_samples", None)
    for limit in _limits(search):
        if isinstance(total, int) and limit < total:
            raise ValueError(
                f"At most {limit} trials may run at a time, but RubberBandScheduler pauses all {total} at the first "
                f"rung, and paused ones count: leave out `max_concurrent_trials` (or the ConcurrencyLimiter, or "
                f"`max_concurrent`), or set it to {total}. How many run at once follows from the cluster."
            )


def check_trainable(trial: Trial) -> None:
    """Look at what is trained.

    Raises:
        ValueError: it cannot be saved, so it cannot be paused.
    """
    trainable = trial.get_trainable_cls()
    if trainable is None or trainable.save is not Trainable.save:
        return
    if trainable.save_checkpoint is Trainable.save_checkpoint:
        raise ValueError(
            f"RubberBandScheduler pauses trials at rungs, and {trainable.__name__} cannot be saved: give it "
            "`save_checkpoint` and `load_checkpoint`."
        )


def _limits(search: Any) -> Iterator[int]:
    """How many trials a search algorithm, and each searcher within it, lets run at a time."""
    while search is not None:
        limit = getattr(search, "max_concurrent", None)
        if isinstance(limit, int) and limit > 0:
            yield limit
        search = getattr(search, "searcher", None)
