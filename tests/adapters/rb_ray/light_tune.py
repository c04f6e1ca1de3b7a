"""A controller of Tune's kind without Ray: it asks a scheduler what Tune asks, and knows what trials will report."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler


@dataclass(frozen=True, kw_only=True)
class Table:
    """What every trial would report, and how it would end.

    Attributes:
        scores: of each trial, after 1, 2, ... iterations.
        ends: trials that end by themselves before they report so many iterations, and how: "fails" or "returns".
        trips: trials that fail once before they report so many iterations, and are tried again.
    """

    mode: str
    reduction_factor: int
    min_t: int
    max_t: int
    scores: tuple[tuple[float, ...], ...]
    ends: dict[int, tuple[int, str]] = field(default_factory=dict)
    trips: dict[int, int] = field(default_factory=dict)

    def scheduler_args(self) -> dict[str, Any]:
        return {
            "max_t": self.max_t,
            "grace_period": self.min_t,
            "reduction_factor": self.reduction_factor,
            "metric": "score",
            "mode": self.mode,
        }


def drawn(seed: int, *, trips: bool = False) -> Table:
    """A table by its number, that fits into one bracket."""
    draw = random.Random(seed)
    factor, least = draw.choice([2, 3, 4]), draw.choice([1, 2, 3])
    rungs = draw.choice([1, 2, 3] if factor == 2 else [1, 2])
    most = draw.randint(least * factor ** (rungs - 1) + 1, least * factor**rungs)
    count = draw.randint(1, factor**rungs)
    special, coarse = draw.random() < 0.5, draw.random() < 0.5

    def score() -> float:
        if special and draw.random() < 0.3:
            return draw.choice([math.nan, math.inf, -math.inf])
        return float(draw.randrange(4)) if coarse else draw.gauss(0, 1)

    ending = draw.choice([0.0, 0.0, 0.3])
    return Table(
        mode=draw.choice(["min", "max"]),
        reduction_factor=factor,
        min_t=least,
        max_t=most,
        scores=tuple(tuple(score() for _ in range(most)) for _ in range(count)),
        ends={
            number: (draw.randint(1, most), draw.choice(["fails", "returns"]))
            for number in range(count)
            if draw.random() < ending
        },
        trips={n: draw.randint(1, most) for n in range(count) if trips and draw.random() < 0.6},
    )


@dataclass
class LightTrial:
    """A trial's process: how far it is, and how far its last checkpoint."""

    number: int
    trial: Trial
    done: int = 0
    saved: int = 0
    reports: list[int] = field(default_factory=list)
    end: str = ""
    tripped: bool = False


class LightController:
    """Runs all trials of a table in some order, a few at a time.

    Args:
        scheduler: asked as Tune asks it.
        table: what trials do.
        rng: of the order.
        places: trials that run at once.
        folder: where Tune would keep its state; None for trials without storage.
    """

    def __init__(
        self, scheduler: TrialScheduler, table: Table, rng: random.Random, places: int, folder: Any = None
    ) -> None:
        self.scheduler, self.table, self.rng, self.places = scheduler, table, rng, places
        self.search_alg = SimpleNamespace(is_finished=lambda: True, total_samples=len(table.scores))
        self.storage = None if folder is None else SimpleNamespace(experiment_driver_staging_path=str(folder))
        self.runs: list[LightTrial] = []
        self.calls = 0

    def begin(self) -> None:
        for number in range(len(self.table.scores)):
            trial = Trial("light", trial_id=f"t{number}", stub=True)
            trial.storage = self.storage
            self.runs.append(LightTrial(number, trial))
            self.scheduler.on_trial_add(self, trial)

    def restored(self, scheduler: TrialScheduler) -> LightController:
        """The same after the driver was killed: processes are gone, and losers that were paused are pending again."""
        after = LightController(scheduler, self.table, self.rng, self.places)
        after.storage = self.storage
        for run in self.rng.sample(self.runs, len(self.runs)):
            trial = Trial("light", trial_id=run.trial.trial_id, stub=True)
            trial.storage = self.storage
            trial.run_metadata.last_result = dict(run.trial.run_metadata.last_result)
            if run.end in ("failed", "returned"):
                trial.status = Trial.ERROR if run.end == "failed" else Trial.TERMINATED
            end = run.end if trial.is_finished() else ""
            now = LightTrial(run.number, trial, run.saved, run.saved, run.reports, end, run.tripped)
            after.runs.append(now)
            scheduler.on_trial_add(after, trial)
        return after

    def get_trials(self) -> list[Trial]:
        return [run.trial for run in self.runs]

    def get_live_trials(self) -> list[Trial]:
        return [trial for trial in self.get_trials() if not trial.is_finished()]

    def stop_trial(self, trial: Trial) -> None:
        self.scheduler.on_trial_remove(self, trial)
        trial.set_status(Trial.TERMINATED)
        self._run(trial).end = "stopped"

    @property
    def over(self) -> bool:
        return all(trial.is_finished() for trial in self.get_trials())

    def step(self) -> None:
        """Once round Tune's loop: start what may start, then let one trial do one thing."""
        self.calls += 1
        chosen = self.scheduler.choose_trial_to_run(self)
        if chosen is not None:
            assert chosen.status in (Trial.PAUSED, Trial.PENDING)
            chosen.set_status(Trial.PENDING)
        for run in self.runs:
            running = sum(trial.status == Trial.RUNNING for trial in self.get_trials())
            if run.trial.status == Trial.PENDING and running < self.places:
                run.trial.set_status(Trial.RUNNING)
                run.done = run.saved
        active = [run for run in self.runs if run.trial.status == Trial.RUNNING]
        if active:
            self._go(self.rng.choice(active))

    def _go(self, run: LightTrial) -> None:
        at, how = self.table.ends.get(run.number, (math.inf, ""))
        if not run.tripped and run.done + 1 >= self.table.trips.get(run.number, math.inf):
            run.tripped = True
            run.trial.set_status(Trial.ERROR)
            self.scheduler.on_trial_error(self, run.trial)
            run.trial.set_status(Trial.PENDING)
            self.scheduler.on_trial_add(self, run.trial)
        elif run.done + 1 >= at and how == "fails":
            self.scheduler.on_trial_error(self, run.trial)
            run.trial.set_status(Trial.ERROR)
            run.end = "failed"
        elif run.done + 1 >= at:
            self.scheduler.on_trial_complete(self, run.trial, dict(run.trial.run_metadata.last_result))
            run.trial.set_status(Trial.TERMINATED)
            run.end = "returned"
        else:
            self._report(run)

    def _report(self, run: LightTrial) -> None:
        run.done += 1
        run.reports.append(run.done)
        result = {"score": self.table.scores[run.number][run.done - 1], "training_iteration": run.done}
        answer = self.scheduler.on_trial_result(self, run.trial, result)
        run.trial.run_metadata.last_result = result
        if answer == TrialScheduler.PAUSE:
            run.saved = run.done
            run.trial.set_status(Trial.PAUSED)
        elif answer == TrialScheduler.STOP:
            self.scheduler.on_trial_complete(self, run.trial, result)
            run.trial.set_status(Trial.TERMINATED)
            run.end = "finished" if run.done >= self.table.max_t else "stopped"

    def _run(self, trial: Trial) -> LightTrial:
        return next(run for run in self.runs if run.trial is trial)

    def run(self, most: int = 5000) -> list[tuple[str, int]]:
        """To the end: how each trial ended, and how far it came."""
        while not self.over:
            self.step()
            assert self.calls < most, f"nothing comes of it: {self.scheduler.debug_string()}"
        return self.outcome()

    def outcome(self) -> list[tuple[str, int]]:
        runs = sorted(self.runs, key=lambda run: run.number)
        return [(run.end or run.trial.status, max(run.reports, default=0)) for run in runs]
