"""Rounds in the caller's own process and thread: one slot, no plan, no files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from optuna.study import Study, StudyDirection

from rb_core.clock import SystemClock
from rb_core.engine import Engine
from rb_core.engine.request import RunRequest
from rb_core.eventlog import MemoryLog
from rb_core.plan import Problem
from rb_core.planners.wide import wide
from rb_core.ports import TrialRun
from rb_core.providers.local import LocalProvider
from rb_core.spec import ExperimentSpec
from rb_core.training.peers import Alone
from rb_core.trial import Message, Trial
from rb_optuna.desk import Desk
from rb_optuna.gate import Gate, Line
from rb_optuna.holding import HoldingLauncher
from rb_optuna.inline import Body, InlineLauncher
from rb_optuna.objective import Objective, followed
from rb_optuna.session import Session
from rb_optuna.terms import UNMEASURED, Terms, each_round, free_cloud
from rb_optuna.watch import Watch


class Inlined:
    """Runs trials of a study inline.

    Args:
        study: the study.
        terms: what is wanted.
        objective: the user's.
    """

    def __init__(self, study: Study, terms: Terms, objective: Objective) -> None:
        self._study = study
        self._terms = terms
        self._objective = objective

    def run(self, desk: Desk, n_trials: int | None) -> None:
        """Run so many trials, or round after round for None. Raises what an objective or a callback raises."""
        for experiment, _ in each_round(self._study, self._terms.rounds, desk, n_trials):
            with tempfile.TemporaryDirectory(prefix="rubberband-") as folder:
                self._run(desk, experiment, Path(folder))

    def _run(self, desk: Desk, experiment: ExperimentSpec, folder: Path) -> None:
        clock, cloud = SystemClock(), free_cloud("inline", 1)
        launcher = HoldingLauncher(InlineLauncher(_body(desk, self._objective), clock), desk, clock, crowded=True)
        inbox = clock.inbox()
        engine = Engine(
            provider=LocalProvider(cloud=cloud, clock=clock, inbox=inbox, slots=1),
            launcher=launcher,
            clock=clock,
            inbox=inbox,
            log=MemoryLog(),
            observers=[Watch(launcher)],
        )
        desk.begin_round()
        engine.run(
            RunRequest(
                run="inline",
                problem=Problem(experiment=experiment, profile=UNMEASURED, cloud=cloud),
                plan=wide(experiment, cloud),
                configs=({},) * experiment.trials,
                storage=folder,
                logs=folder,
                metric="value",
                mode=mode_of(self._study),
                hopeless_after=None,
                grace_s=0.0,
            )
        )


def mode_of(study: Study) -> str:
    """Which scores are better, in the core's words."""
    return "max" if study.direction == StudyDirection.MAXIMIZE else "min"


def _body(desk: Desk, objective: Objective) -> Body:
    """Runs an objective with Optuna's own trial."""

    def body(run: TrialRun, line: Line) -> Message:
        trial, reports = desk.trial(run.trial), desk.reports(run.trial)
        gate = Gate(line, run, rank=0, first_step=min(reports, default=None), last_step=max(reports, default=None))
        report = type(trial).report

        def reported(value: float, step: int) -> None:
            report(trial, value, step)
            gate.report(float(value), int(step), stored=True)

        # On the one handle of the trial: Optuna's integrations want a real one.
        trial.report = reported  # type: ignore[method-assign]
        trial.should_prune = gate.should_prune  # type: ignore[method-assign]
        core = Trial(run, rank=0, channel=line, peers=Alone())
        return followed(objective, trial, Session(core, core.own_loop(), gate, line), by_value=False)

    return body
