"""A driver that runs an experiment, or goes on with it, and may kill itself at a named point.

Arguments: address of the cluster, folder for everything, and the point: one of `POINTS`, or "" for none.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ladder import function
from ray import tune
from rb_ray import RubberBandScheduler
from rb_ray.scheduling.memory import Memory
from rb_ray.scheduling.sitting import Sitting

POINTS: dict[str, tuple[type, str, Callable[..., bool]]] = {
    # Two of four trials have come to the first rung.
    "reporting": (Sitting, "choose", lambda self, *_: len(self.rungs.scores(0)) == 2),
    # The first rung is decided and noted; no loser is stopped, and Tune's state is older.
    "noted": (Memory, "write", lambda self, *_: self.log[-1][0] == "decided"),
    # In the midst of the second stage.
    "training": (Sitting, "reported", lambda self, trial, result: result["training_iteration"] == 3),
}


def arm(point: str) -> None:
    """Have this process killed at the end of a call."""
    owner, name, here = POINTS[point]
    inner = getattr(owner, name)

    def outer(self: Any, *args: Any) -> Any:
        answer = inner(self, *args)
        if here(self, *args):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(owner, name, outer)


def main(address: str, folder: Path, point: str) -> None:
    if point:
        arm(point)
    ray.init(address=address, log_to_driver=False)
    climb, path = function(), str(folder / "storage" / "climb")
    if tune.Tuner.can_restore(path):
        tuner = tune.Tuner.restore(path, trainable=climb)
    else:
        scheduler = RubberBandScheduler(max_t=8, grace_period=2, reduction_factor=2, max_slots_per_trial=4)
        tuner = tune.Tuner(
            climb,
            param_space={"x": tune.grid_search([1, 4, 3, 2]), "log": str(folder / "log")},
            tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=scheduler),
            run_config=tune.RunConfig(name="climb", storage_path=str(folder / "storage"), verbose=0),
        )
    tuner.fit()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
