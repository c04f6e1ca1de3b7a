"""The one flow that `rb-tune` and Python share: profile, plan, ask the plugins, run, report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from rb_core.clock import SystemClock
from rb_core.engine import Engine
from rb_core.engine.request import RunRequest
from rb_core.errors import BudgetExceeded, InvalidInput, NoFeasiblePlan, RubberBandError
from rb_core.eventlog import EventLog
from rb_core.events import Event
from rb_core.expectation import ExpectedModel
from rb_core.hardware import Cloud, PriceBook
from rb_core.measurement import MeasuredProfile
from rb_core.plan import AllocationPlan, Objective, Problem
from rb_core.planners.candidate import Candidate
from rb_core.planners.exact import front
from rb_core.ports import Clock, Inbox, Launcher, Provider
from rb_core.profile import ScalingProfile
from rb_core.report import Figures
from rb_core.simulate import Estimate, simulate
from rb_core.sizing import Family, Purse, Sizes, size_up
from rb_core.space import Space, sample
from rb_core.spec import ExperimentSpec
from rb_core.target import Target
from rb_plugins.config.problem import load_problem, problem_table
from rb_plugins.config.tuning import load_tuning
from rb_plugins.explained import Explained, explained
from rb_plugins.forecast import DEFAULT_PLANNER, DEFAULT_SAMPLES, Forecast, forecast
from rb_plugins.manager import Manager, make_manager
from rb_plugins.outcome import Outcome, read_outcome
from rb_plugins.profiling import ProfileRequest, measured_table, profile_request, rented, sizes
from rb_plugins.rundir import RunDirectory, home, make_folder
from rb_plugins.tuning import Tuning

PATIENCE = 10.0
"""A trial that says nothing for so many times the longest step that is expected of it is taken to hang."""

LEAST_PATIENCE_S = 60.0
"""Silence that is always borne."""


class Session:
    """Plugins, a clock and a place for runs, and everything that is done with them."""

    def __init__(
        self, *, manager: Manager | None = None, directory: Path | None = None, clock: Clock | None = None
    ) -> None:
        """A session that holds nothing yet.

        Args:
            manager: the plugins; all installed ones when None.
            directory: where runs are kept; by RB_HOME or the user's state directory when None.
            clock: the time of everything.
        """
        self.manager = make_manager() if manager is None else manager
        self.directory = home() if directory is None else directory
        self.clock = SystemClock() if clock is None else clock

    def price_book(self, name: str) -> PriceBook:
        """The price book of a catalogue. Raises `InvalidInput` when there is none of that name."""
        return self.manager.price_books().choose(name, key="catalog")()

    def load_problem(self, path: Path, *, objective: bool = False) -> Problem:
        """The problem in a file. Raises `InvalidInput`."""
        return load_problem(path, price_books=self.price_book, objective=objective)

    def load_tuning(self, path: Path) -> Tuning:
        """The run that an experiment file asks for. Raises `InvalidInput`."""
        return load_tuning(path, price_books=self.price_book)

    def tune(
        self,
        train: Callable[..., Any] | str,
        space: Space,
        experiment: ExperimentSpec,
        cloud: Cloud,
        objective: Objective,
        *,
        planner: str = DEFAULT_PLANNER,
        **options: Any,
    ) -> Outcome:
        """Profile, plan and run: everything from a training function to its best configuration.

        Args:
            train: the function, or where it is (``FILE.py:FUNCTION``).
            space: what its configurations are drawn from.
            experiment: the stages.
            cloud: what they may run on.
            objective: a deadline or a budget.
            planner: who plans.
            options: the other attributes of `Tuning`, such as `metric` and `mode`.

        Raises:
            RubberBandError: as `profile`, `plan`, `veto` and `run`.
        """
        target = Target.parse(train) if isinstance(train, str) else Target.of(train)
        tuning = Tuning(target=target, space=space, experiment=experiment, cloud=cloud, objective=objective, **options)
        self.check(tuning, planner=planner)
        with self.launcher(tuning.launcher, tuning.target) as launcher:
            measured = self.profile(tuning, launcher)
            planned = self.plan(self.problem(tuning, measured), planner=planner, seed=tuning.seed)
            self.veto(planned, max_usd=tuning.max_usd)
            return self.run(tuning, planned, launcher, directory=self.create(tuning, planned, measured))

    def launcher(self, name: str, target: Target) -> Launcher:
        """The launcher of that name, not entered yet. Raises `InvalidInput` when there is none."""
        factory = self.manager.launchers().choose(name, key="run.launcher")
        return factory(target=target, clock=self.clock)

    def check(self, tuning: Tuning, *, planner: str = DEFAULT_PLANNER) -> None:
        """See to it that every name is known and the provider can serve, before anything is started.

        Raises:
            InvalidInput: the first thing that does not fit.
            UnusableLog: run directories cannot be made.
        """
        RunDirectory.check_home(self.directory)
        self.manager.planners().choose(planner, key="planner")
        self.manager.launchers().choose(tuning.launcher, key="run.launcher")
        self._provider(tuning.cloud, self.clock.inbox()).close()
        self.configs(tuning)

    def profile(self, tuning: Tuning, launcher: Launcher) -> MeasuredProfile | ScalingProfile:
        """The profile that the run names, that a plugin knows, or that is measured now.

        Args:
            tuning: the run.
            launcher: entered.

        Raises:
            RubberBandError: as `measure`.
        """
        if isinstance(tuning.profile, ScalingProfile):
            return tuning.profile
        known = self.manager.profile(tuning.experiment, tuning.cloud.instance_types[0])
        if known is not None:
            return known
        return self.measure(profile_request(tuning, tuning.profile, self.configs(tuning)), launcher)

    def measure(self, request: ProfileRequest, launcher: Launcher) -> MeasuredProfile:
        """Measure how a training function scales.

        Args:
            request: what and where.
            launcher: of that function, entered.

        Raises:
            InvalidInput: what is to be measured does not fit the cloud.
            TrialFailure: the training function fails.
            UnusableProfile: no usable profile came of it.
            LaunchFailure: a node or a process could not be had.
        """
        from rb_core.profiler import profile

        inbox = self.clock.inbox()
        widths = sizes(request.measuring, request.cloud)
        run = f"profile-{os.getpid()}"
        if request.storage is not None:
            make_folder(request.storage)
        with (
            closing(self._provider(request.cloud, inbox)) as provider,
            rented(provider, request.cloud, self.clock, inbox, run=run, largest=max(widths)) as slots,
        ):
            try:
                return profile(
                    launcher,
                    self.clock,
                    configs=request.configs,
                    slots=slots,
                    sizes=widths,
                    budget_s=request.measuring.budget_s,
                    folder=request.storage,
                    seed=request.seed,
                    max_iterations=request.max_iterations,
                    env=request.env,
                )
            except InvalidInput as error:
                raise (error.under("profile") if error.key == "slots" else error) from None

    def configs(self, tuning: Tuning) -> tuple[dict[str, Any], ...]:
        """One configuration for each trial of the run; equal seeds give equal ones."""
        rng = np.random.default_rng(tuning.seed)
        return sample(tuning.space, tuning.experiment.trials, rng=rng, method=tuning.sampling)

    def problem(self, tuning: Tuning, profile: MeasuredProfile | ScalingProfile) -> Problem:
        """What is to be planned, once the profile is known."""
        return Problem(
            experiment=tuning.experiment,
            profile=profile.profile if isinstance(profile, MeasuredProfile) else profile,
            cloud=tuning.cloud,
            objective=tuning.objective,
            policies=tuning.policies,
        )

    def plan(
        self, problem: Problem, *, planner: str = DEFAULT_PLANNER, samples: int = DEFAULT_SAMPLES, seed: int = 0
    ) -> Forecast:
        """Plan a problem; see `rb_plugins.forecast.forecast`."""
        return forecast(problem, self.manager.planners(), planner=planner, samples=samples, seed=seed)

    def simulate(
        self, problem: Problem, plan: AllocationPlan, *, samples: int = DEFAULT_SAMPLES, seed: int = 0
    ) -> Estimate:
        """Sample a plan's time and cost."""
        return simulate(problem, plan, samples=samples, rng=np.random.default_rng(seed))

    def explain(self, planned: Forecast) -> Explained:
        """Where the time and the money of a plan go, and where it stands among all others."""
        return explained(planned)

    def size(self, problem: Problem, experiments: Family, purse: Purse, *, seed: int = 0) -> Sizes:
        """The largest experiment of a family that fits deadline and budget. Raises as `rb_core.sizing.size_up`."""
        return size_up(problem, experiments, purse, np.random.default_rng(seed))

    def pareto(self, problem: Problem) -> list[Candidate]:
        """All plans that none beats in both time and cost, the fastest first.

        Raises:
            NoFeasiblePlan: no trial fits on any type.
        """
        return front(ExpectedModel(problem))

    def marks(self, problem: Problem) -> dict[str, Figures]:
        """Expected time and cost of the plan for the problem's objective and of the baselines; none without one."""
        if problem.objective is None:
            return {}
        try:
            planned = self.plan(problem, samples=1)
        except NoFeasiblePlan:
            return {}
        baselines = {name: figures for name, figures in planned.baselines.items() if figures is not None}
        return {**baselines, f"chosen ({planned.planner})": planned.expected}

    def veto(self, planned: Forecast, *, max_usd: float | None = None) -> None:
        """Ask the plugins, and the limit of the bill, whether the plan may be run.

        Raises:
            PlanVeto: a plugin is against it.
            BudgetExceeded: the expected cost is above `max_usd`.
        """
        if max_usd is not None and planned.expected[1] > max_usd:
            raise BudgetExceeded(max_usd=max_usd, needed_usd=planned.expected[1], step="the plan")
        self.manager.veto(planned.problem.experiment, planned.plan, planned.estimate)

    def create(
        self, tuning: Tuning, planned: Forecast, measured: MeasuredProfile | ScalingProfile | None = None
    ) -> RunDirectory:
        """A directory for a run, with what it was asked and promised.

        Args:
            tuning: the run.
            planned: its plan.
            measured: the profile, kept where it was measured for this run.

        Raises:
            UnusableLog: it cannot be made.
        """
        directory = RunDirectory.create(self.directory, tuning.name, self.clock.utc())
        directory.write("problem.json", problem_table(planned.problem))
        directory.write("plan.json", planned.table())
        if isinstance(measured, MeasuredProfile):
            made = self.clock.utc().isoformat(timespec="seconds")
            directory.write("profile.json", measured_table(measured, target=tuning.target.name, made=made))
        return directory

    def run(
        self,
        tuning: Tuning,
        planned: Forecast,
        launcher: Launcher,
        *,
        directory: RunDirectory,
        observers: Sequence[Callable[[Event], None]] = (),
    ) -> Outcome:
        """Run a plan to its end; everything is given back when this returns or raises.

        Args:
            tuning: the run.
            planned: its plan.
            launcher: of the run; left by the engine when the run is over.
            directory: of the run, as `create` made it.
            observers: told each event after it was written.

        Raises:
            RubberBandError: as `rb_core.engine.Engine.run`.
        """
        inbox = self.clock.inbox()
        request = self._request(tuning, planned, directory)
        with closing(self._provider(tuning.cloud, inbox)) as provider, EventLog(directory.events) as log:
            engine = Engine(
                provider=provider,
                launcher=launcher,
                clock=self.clock,
                inbox=inbox,
                log=log,
                observers=[*observers, *self.manager.observers()],
                promote=self._promotion(tuning.mode),
            )
            try:
                engine.run(request)
            except RubberBandError:
                with suppress(RubberBandError):
                    directory.write("outcome.json", read_outcome(directory).table())
                raise
        outcome = read_outcome(directory)
        directory.write("outcome.json", outcome.table())
        return outcome

    def report(self, reference: str | None = None) -> Outcome:
        """What came of a run, by its id or path; of the latest one when None. Raises `InvalidInput`, `UnusableLog`."""
        return read_outcome(RunDirectory.find(self.directory, reference))

    def _provider(self, cloud: Cloud, inbox: Inbox) -> Provider:
        factory = self.manager.providers().choose(cloud.provider, key="cloud.provider")
        provider = factory(cloud=cloud, clock=self.clock, inbox=inbox)
        provider.check(cloud)
        return provider

    def _promotion(self, mode: str) -> Callable[[ExperimentSpec, int, Mapping[int, float]], Sequence[int] | None]:
        sign = 1.0 if mode == "max" else -1.0
        return lambda spec, stage, scores: self.manager.promote(
            spec, stage, {trial: sign * score for trial, score in scores.items()}
        )

    def _request(self, tuning: Tuning, planned: Forecast, directory: RunDirectory) -> RunRequest:
        profile = planned.problem.profile
        slowest_s = max(latency.mean for latency in profile.iteration_s.values())
        return RunRequest(
            run=directory.run,
            problem=planned.problem,
            plan=planned.plan,
            configs=self.configs(tuning),
            storage=directory.checkpoints if tuning.storage is None else tuning.storage / directory.run,
            logs=directory.logs,
            metric=tuning.metric,
            mode=tuning.mode,
            seed=tuning.seed,
            target=tuning.target.name,
            record=problem_table(planned.problem),
            environment=_environment(),
            env=tuning.env,
            checkpoint_every_s=tuning.checkpoint_every_s,
            stall_s=LEAST_PATIENCE_S + PATIENCE * (profile.start_s.mean + slowest_s + profile.save_s.mean),
            max_usd=tuning.max_usd,
        )


def _environment() -> dict[str, str]:
    versions = {}
    for name in ("rubberband-tune", "torch", "numpy", "scipy"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": str(len(os.sched_getaffinity(0))),
        **versions,
    }
