"""Trainables of the tests of `RubberBandScheduler`, which note every step that they do.

Functions are made anew each time, so that they travel by value: Ray's processes cannot import the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ray import tune


class Step(NamedTuple):
    """A step that a trial did: which one, in which process, on how many slots, and in which stage."""

    x: int
    step: int
    pid: int
    slots: int
    stage: int | None
    until: int | None


def steps(log: Path) -> list[Step]:
    """All that were noted, in order."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [Step(*(None if word == "None" else int(word) for word in line.split())) for line in lines]


def function(*, keeps: str = "always") -> Callable[[dict[str, Any]], None]:
    """A function trainable whose score is its `x`.

    Args:
        keeps: when it reports a checkpoint: "always", "never", or "even" steps.

    What its configuration may say besides: `raises` or `returns` before a step, `raises_once` likewise.
    """

    def climb(config: dict[str, Any]) -> None:
        import os
        import tempfile
        from pathlib import Path

        import rb_ray
        from ray import tune

        held, done = rb_ray.get_allocation(), 0
        checkpoint = tune.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                done = int((Path(folder) / "done").read_text())
        while True:
            done += 1
            if done == config.get("returns"):
                return
            once = Path(config["log"] + f".{config['x']}.raised")
            if done == config.get("raises") or (done == config.get("raises_once") and not once.exists()):
                once.touch()
                raise RuntimeError("of its own")
            with open(config["log"], "a") as log:
                log.write(f"{config['x']} {done} {os.getpid()} {held.slots} {held.stage} {held.until}\n")
            if config.get("gate") and done == 2:
                while not Path(config["gate"]).exists():
                    os.sched_yield()
            with tempfile.TemporaryDirectory() as folder:
                kept = None
                if keeps == "always" or (keeps == "even" and done % 2 == 0):
                    (Path(folder) / "done").write_text(str(done))
                    kept = tune.Checkpoint.from_directory(folder)
                tune.report({"score": float(config["x"])}, checkpoint=kept)

    return climb


def trainable_class() -> type[tune.Trainable]:
    """A class trainable that does the same."""

    class Climber(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.done = 0

        def step(self) -> dict[str, Any]:
            import os

            import rb_ray

            self.done += 1
            held = rb_ray.get_allocation(self)
            with open(self.config["log"], "a") as log:
                log.write(f"{self.config['x']} {self.done} {os.getpid()} {held.slots} {held.stage} {held.until}\n")
            return {"score": float(self.config["x"])}

        def save_checkpoint(self, folder: str) -> None:
            (Path(folder) / "done").write_text(str(self.done))

        def load_checkpoint(self, folder: str) -> None:
            self.done = int((Path(folder) / "done").read_text())

    return Climber
