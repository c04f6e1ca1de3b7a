"""What came of a run: made from its log alone, so that it can be made again at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rb_core.errors import UnusableLog
from rb_core.eventlog import read_log
from rb_core.events import SCHEMA, RunEnding, TrialInterrupted
from rb_core.lease import Holder
from rb_core.ledger import Ledger, ledger
from rb_core.plan import Problem
from rb_core.report import duration, kept, missed, summary
from rb_core.simulate import Estimate, simulate
from rb_core.state import RunState, TrialPhase, apply, fold
from rb_plugins.forecast import DEFAULT_SAMPLES
from rb_plugins.logged import logged
from rb_plugins.rundir import RunDirectory
from rb_plugins.storing import scheme_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best trial.

    Attributes:
        trial: its number.
        config: its configuration.
        score: its last score.
        iterations: how many it had run when it reported that.
        checkpoint: its last checkpoint: a path, or an address in the store that keeps it; None when there is none.
        checkpoint_iterations: how many iterations that one stands for: others than `iterations` where the run was cut
            short between a report and the checkpoint for it; None when there is none.
    """

    trial: int
    config: Mapping[str, Any]
    score: float
    iterations: int
    checkpoint: Path | str | None
    checkpoint_iterations: int | None = None

    @property
    def behind(self) -> str:
        """Which iteration the checkpoint is of, in words; empty where it is that of the score, or there is none."""
        if self.checkpoint_iterations in (None, self.iterations):
            return ""
        return f"after {self.checkpoint_iterations} iterations, not {self.iterations}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run against what was promised.

    Attributes:
        directory: where everything about it is.
        problem: what holds now, with its deadline in seconds; a resumed run may have another than was planned.
        estimate: what the plan promised that it began with.
        state: the run's last state.
        bill: what it cost; of a run that has not ended, so far.
        profiling_s: how long profiling took before it.
        profiling_usd: what the nodes cost that it was profiled on; not part of the bill.
        holder: who is at work on it; None when nobody is.
    """

    directory: RunDirectory
    problem: Problem = field(repr=False)
    estimate: Estimate = field(repr=False)
    state: RunState = field(repr=False)
    bill: Ledger = field(repr=False)
    profiling_s: float
    holder: Holder | None = None
    profiling_usd: float = 0.0

    @property
    def best(self) -> Best | None:
        """The best trial; None when no trial has a score."""
        trial = self.state.best()
        if trial is None or trial.score is None:
            return None
        last = trial.last_checkpoint
        return Best(
            trial=trial.trial,
            config=trial.config,
            score=trial.score,
            iterations=next(reversed(trial.scores)),
            checkpoint=None if last is None else last.path if scheme_of(last.path) else Path(last.path),
            checkpoint_iterations=None if last is None else last.iterations,
        )

    @property
    def missed(self) -> str:
        """By how much the objective was missed, or what is left, in words; empty when it was met."""
        if self.state.ending is RunEnding.DEADLINE:
            return self._left()
        return missed(self.problem, self.state.jct_s, self.bill.cost_usd)

    @property
    def verdict(self) -> str:
        """Whether the objective was kept, and by how much, in words; empty where it is too early to say."""
        if self.missed or self.state.ending is not RunEnding.DONE:
            return self.missed
        return kept(self.problem, self.state.jct_s, self.bill.cost_usd)

    @property
    def ending(self) -> str:
        """How the run ended; ``unfinished`` while it has not."""
        return "unfinished" if self.state.ending is None else self.state.ending.value

    @property
    def resumable(self) -> bool:
        """Whether there is work left that nobody is at, and that `rb-tune` can go on with: not that of a host's own."""
        left = self.holder is None and self.state.ending is not RunEnding.DONE
        return left and self.directory.request.exists()

    def table(self) -> dict[str, Any]:
        """The object that `rb-tune run --json` and `rb-tune report --json` print."""
        best = self.best
        done = self.state.ending is RunEnding.DONE
        return {
            "schema": SCHEMA,
            "run": self.state.run,
            "run_dir": str(self.directory.path),
            "state": self.ending,
            "reason": self.state.reason,
            "objective_met": done and not self.missed,
            "objective": self._objective(),
            "best": None
            if best is None
            else {
                "trial": best.trial,
                "config": dict(best.config),
                "score": best.score,
                "iterations": best.iterations,
                "checkpoint": None if best.checkpoint is None else str(best.checkpoint),
                "checkpoint_iterations": best.checkpoint_iterations,
            },
            "predicted": {
                "jct_s": summary(self.estimate.jct_s),
                "cost_usd": summary(self.estimate.cost_usd),
            },
            "actual": {
                "jct_s": self.state.jct_s,
                "cost_usd": self.bill.cost_usd,
                "profiling_s": self.profiling_s,
                "profiling_usd": self.profiling_usd,
                "items": self.bill.items.table(),
            },
            "prices": None if self.problem.cloud.prices is None else asdict(self.problem.cloud.prices),
            "stages": self._stages(),
            "trials": [
                {
                    "trial": trial.trial,
                    "config": dict(trial.config),
                    "state": trial.phase.value,
                    "score": trial.score if trial.score is not None and np.isfinite(trial.score) else None,
                    "iterations": trial.iterations,
                    **({"cause": trial.cause} if trial.cause else {}),
                }
                for trial in self.state.trials.values()
            ],
            "warnings": list(self.state.warnings),
            "resumed": self.state.resumed,
        }

    def _objective(self) -> dict[str, float | None]:
        """The limit, and what a run that is done had to spare of it; negative where it was missed."""
        objective, done = self.problem.objective, self.state.ending is RunEnding.DONE
        if objective is None:
            return {}
        if objective.budget_usd is not None:
            spare_usd = objective.budget_usd - self.bill.cost_usd if done else None
            return {"budget_usd": objective.budget_usd, "spare_usd": spare_usd}
        limit_s = objective.deadline_s or 0.0
        return {"deadline_s": limit_s, "spare_s": limit_s - self.state.jct_s if done else None}

    def _left(self) -> str:
        deadline_s = self.problem.objective.deadline_s if self.problem.objective else None
        ended = sum(stage.end_s is not None for stage in self.state.stages)
        running = [stage for stage in self.state.stages if stage.end_s is None]
        trials = [self.state.trials[trial] for stage in running for trial in stage.trials]
        through = sum(trial.phase not in (TrialPhase.WAITING, TrialPhase.RUNNING) for trial in trials)
        where = f", and {through} of {len(trials)} trials of the one that ran" if trials else ""
        return (
            f"the deadline of {duration(deadline_s or 0.0)} came after {ended} of {sum(self.state.stage_counts)} "
            f"stages{where}; the rest was left, as asked"
        )

    def _stages(self) -> list[dict[str, Any]]:
        several = len(self.problem.experiment.chains) > 1
        rows = []
        for stage, cost in zip(self.state.stages, self.bill.stages, strict=True):
            rows.append(
                {
                    **({"chain": stage.chain} if several else {}),
                    "trials": len(stage.trials),
                    "iterations": self.problem.experiment.chains[stage.chain][stage.stage].iterations,
                    "instance_type": stage.instance_type,
                    "nodes": stage.nodes,
                    "slots_per_trial": stage.slots_per_trial,
                    "start_s": stage.start_s,
                    "end_s": stage.end_s,
                    "cost_usd": cost.cost_usd,
                    "idle_fraction": cost.idle_fraction,
                }
            )
        return rows


def read_outcome(directory: RunDirectory, holder: Holder | None = None) -> Outcome:
    """What the log of a run tells, also of one that has not ended or was cut short.

    Args:
        directory: of the run.
        holder: who is at work on it; None when nobody is.

    Raises:
        UnusableLog: the log cannot be read, or does not begin with the start of a run.
    """
    events = read_log(directory.events).events if directory.began else ()
    if not events and holder is None and directory.request.exists():
        raise UnusableLog(
            f"run {directory.run} was ended before it began, so there is nothing to report; "
            f"`rb-tune run --resume {directory.run}` begins it"
        )
    if not events and holder is not None:
        raise UnusableLog(
            f"run {directory.run} has not begun yet, and {holder} is about to begin it; `rb-tune status "
            f"{directory.run} --follow` shows how it goes"
        )
    told = logged(events, directory)
    try:
        state = fold(events)
    except (KeyError, IndexError) as error:
        raise UnusableLog(
            f"event log {directory.events} speaks of what it never introduced ({error}): it was edited, or lines of it "
            "are missing; restore the file as rb-tune wrote it"
        ) from None
    if holder is None:
        for trial, training in tuple(state.training.items()):
            stage, cause = state.stages[training.stage].stage, "its process is gone"
            apply(state, TrialInterrupted(t_s=state.t_s, utc=events[-1].utc, trial=trial, stage=stage, cause=cause))
    rng = np.random.default_rng(told.started.seed)
    return Outcome(
        directory=directory,
        problem=told.problem,
        estimate=simulate(told.first, told.plan, samples=DEFAULT_SAMPLES, rng=rng),
        state=state,
        bill=ledger(state, told.problem.cloud),
        profiling_s=float(directory.read("profile.json").get("seconds", 0.0)),
        profiling_usd=directory.profiling_usd,
        holder=holder,
    )
