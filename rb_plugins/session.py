"""The one flow that `rb-tune` and Python share: profile, plan, ask the plugins, run, report."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rb_core.clock import SystemClock
from rb_core.errors import BudgetExceeded, InvalidInput, NoFeasiblePlan
from rb_core.eventlog import EventLog
from rb_core.expectation import ExpectedModel
from rb_core.hardware import Cloud, PriceBook, PriceDate
from rb_core.journal import Observer
from rb_core.lease import Holder, living_holder
from rb_core.measurement import MeasuredProfile
from rb_core.plan import AllocationPlan, Objective, Policies, Problem
from rb_core.planners.candidate import Candidate
from rb_core.planners.exact import front
from rb_core.ports import Clock, Gatherer, Inbox, Launcher, Provider
from rb_core.profile import ScalingProfile
from rb_core.report import Figures, aged
from rb_core.simulate import Estimate, simulate
from rb_core.sizing import Family, Purse, Sizes, size_up
from rb_core.space import Method, Space, sample
from rb_core.spec import ExperimentSpec
from rb_core.target import Target
from rb_plugins.config.given import Given, Speeds
from rb_plugins.config.problem import load_problem, problem_table
from rb_plugins.config.tuning import load_tuning
from rb_plugins.driving import at_work, drive
from rb_plugins.explained import Explained, explained
from rb_plugins.factories import ProviderFactory
from rb_plugins.fetching import fetch
from rb_plugins.forecast import DEFAULT_PLANNER, DEFAULT_SAMPLES, Forecast, forecast
from rb_plugins.informed import Informed, with_latencies, with_speeds
from rb_plugins.interrupts import interruptible
from rb_plugins.latencies import LatencyBook
from rb_plugins.latest import to_report, to_stop
from rb_plugins.manager import Manager, make_manager
from rb_plugins.outcome import Outcome, read_outcome
from rb_plugins.profiling import ProfileRequest, measure, measured_table, profile_request
from rb_plugins.progress import Progress
from rb_plugins.recorded import Recorded, findable
from rb_plugins.requested import run_request
from rb_plugins.resuming import Resumable, resumable
from rb_plugins.rundir import RunDirectory, home
from rb_plugins.stopping import stop
from rb_plugins.storing import depot_at, storage_of
from rb_plugins.surveyed import Surveyed, read_surveyed
from rb_plugins.terms import Terms
from rb_plugins.tuning import (
    DEFAULT_CHECKPOINT_EVERY_S,
    DEFAULT_LAUNCHER,
    DEFAULT_POLICIES,
    AtDeadline,
    Measuring,
    Mode,
    Tuning,
)

_logger = logging.getLogger(__name__)

STOPPING_S = 120.0
"""How long `Session.stop` waits unless told otherwise."""


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

        What was measured before takes the place of defaults; `notes` has a sentence on each, for people.
        """
        self.manager = make_manager() if manager is None else manager
        self.directory = home() if directory is None else directory
        self.clock = SystemClock() if clock is None else clock
        self.notes: list[str] = []
        self._warned: list[str] = []

    def price_book(self, name: str, /, *, region: str = "", instance_types: Sequence[str] = ()) -> PriceBook:
        """The price book of a catalogue; a warning is logged where its prices are old.

        Args:
            name: of the catalogue.
            region: whose prices are wanted; empty for all that it knows.
            instance_types: which types are; empty for all.

        Raises:
            InvalidInput: there is no such catalogue, or it has no prices of that region.
            RubberBandError: its prices cannot be had now.
        """
        factory = self.manager.price_books().choose(name, key="catalog")
        book = factory(region=region, instance_types=instance_types)
        for warning in self._aged(book.prices):
            if warning in self._warned:
                continue
            self._warned.append(warning)
            _logger.warning("%s", warning)
        return book

    def load_problem(self, path: Path, *, objective: bool = False) -> Problem:
        """The problem in a file. Raises `InvalidInput`."""
        return load_problem(path, price_books=self.price_book, objective=objective, inform=self._informed)

    def load_tuning(self, path: Path) -> Tuning:
        """The run that an experiment file asks for. Raises `InvalidInput`."""
        return self._seen(load_tuning(path, price_books=self.price_book))

    def tune(
        self,
        train: Callable[..., Any] | str,
        space: Space,
        experiment: ExperimentSpec,
        cloud: Cloud,
        objective: Objective,
        *,
        name: str = "run",
        metric: str = "score",
        mode: Mode = "max",
        seed: int = 0,
        sampling: Method = "random",
        planner: str = DEFAULT_PLANNER,
        profile: ScalingProfile | Measuring | None = None,
        launcher: str = DEFAULT_LAUNCHER,
        storage: Path | str | None = None,
        checkpoint_every_s: float = DEFAULT_CHECKPOINT_EVERY_S,
        max_usd: float | None = None,
        on_deadline: AtDeadline = "finish",
        replan: bool = True,
        env: Mapping[str, str] | None = None,
        policies: Policies | None = None,
        observers: Sequence[Observer] = (),
        progress: bool = False,
    ) -> Outcome:
        """Profile, plan and run: everything from a training function to its best configuration.

        Args:
            train: the function, or where it is (``FILE.py:FUNCTION``). A run of one that is in no importable module
                can be resumed by `resume` with `train` alone.
            space: what its configurations are drawn from.
            experiment: the stages.
            cloud: what they may run on.
            objective: a deadline or a budget.
            name: for people, and the beginning of the run's id.
            metric: name of the score.
            mode: ``max`` or ``min``, which scores are better.
            seed: seed of the configurations, the plan's samples and the training.
            sampling: how configurations are drawn: ``random`` or ``sobol``.
            planner: who plans.
            profile: a profile that is known, or how to measure one; measured as `Measuring` has it when None.
            launcher: ``ddp``, or ``process`` for functions that do not use torch's data parallelism; ``ray`` for the
                nodes of a Ray cluster.
            storage: folder of the checkpoints, or the address of a store, such as ``s3://bucket/prefix``; a folder in
                the run's directory when None.
            checkpoint_every_s: longest time between two checkpoints within a stage.
            max_usd: hard limit of the bill.
            on_deadline: ``finish`` or ``stop``, what happens when the deadline has come and work is left.
            replan: whether the rest may be planned anew while the run goes on.
            env: variables for every rank; kept in the run's directory, so no place for secrets.
            policies: what may happen before a barrier; by default all that is built.
            observers: told each event after it was written.
            progress: say on standard error how the run goes.

        Raises:
            RubberBandError: as `profile`, `plan`, `veto` and `run`.
        """
        tuning = Tuning(
            target=Target.parse(train) if isinstance(train, str) else Target.of(train),
            again=None if isinstance(train, str) else findable(train),
            space=space,
            experiment=experiment,
            cloud=cloud,
            objective=objective,
            name=name,
            metric=metric,
            mode=mode,
            seed=seed,
            sampling=sampling,
            profile=Measuring() if profile is None else profile,
            launcher=launcher,
            storage=None if storage is None else storage_of(storage, Path()),
            checkpoint_every_s=checkpoint_every_s,
            max_usd=max_usd,
            on_deadline=on_deadline,
            replan=replan,
            env=env or {},
            policies=DEFAULT_POLICIES if policies is None else policies,
        )
        tuning = self._seen(tuning)
        self.check(tuning, planner=planner)
        with interruptible(), self.launcher(tuning.launcher, tuning.target, cloud=tuning.cloud) as entered:
            measured = self.profile(tuning, entered)
            planned = self.plan(self.problem(tuning, measured), planner=planner, seed=seed)
            self.veto(planned, max_usd=max_usd, spent_usd=getattr(measured, "usd", 0.0))
            directory = self.create(tuning, planned, measured)
            return self.run(tuning, planned, entered, directory=directory, observers=observers, progress=progress)

    def resume(
        self,
        reference: str | Path,
        train: Callable[..., Any] | str | None = None,
        *,
        deadline_s: float | None = None,
        budget_usd: float | None = None,
        max_usd: float | None = None,
        on_deadline: AtDeadline | None = None,
        observers: Sequence[Observer] = (),
        progress: bool = False,
    ) -> Outcome:
        """Go on with a run that was killed, interrupted, or ended before its work was done.

        Trials go on from their last checkpoints, and nothing that was completed is repeated. What is not given here
        stays as it was.

        Args:
            reference: the run's id or path.
            train: the function, or where it is; needed where `tune` was given one that is in no importable module.
            deadline_s: a new deadline, counted from the run's first node request; in the place of the objective.
            budget_usd: a new budget of the whole run; in the place of the objective.
            max_usd: a new hard limit of the whole bill.
            on_deadline: as in `tune`.
            observers: told each new event after it was written.
            progress: say on standard error how the run goes.

        Raises:
            InvalidInput: the run cannot go on, and why; nothing was touched.
            RubberBandError: as `run`.
        """
        terms = Terms(deadline_s=deadline_s, budget_usd=budget_usd, max_usd=max_usd, on_deadline=on_deadline)
        going = self.resumable(str(reference), terms, train=train)
        launcher = self.launcher(going.launcher, going.target, cloud=going.request.problem.cloud)
        with interruptible(), at_work(going.directory, self.clock) as log, launcher as entered:
            return self.go_on(going, entered, observers=observers, progress=progress, log=log)

    def resumable(self, reference: str, terms: Terms, *, train: Callable[..., Any] | str | None = None) -> Resumable:
        """Whether and how a run can go on; see `rb_plugins.resuming.resumable`. Touches nothing but its store, if any.

        Raises:
            InvalidInput: it cannot, and why.
        """
        directory = RunDirectory.find(self.directory, reference)
        return resumable(
            directory, self.clock, terms, train=train, reread=self.load_tuning, depots=self.manager.depots()
        )

    def stop(self, reference: str | None = None, *, timeout_s: float = STOPPING_S) -> Holder | None:
        """End a run that another process is at work on; see `rb_plugins.stopping.stop`.

        Args:
            reference: the run's id or path; the latest one when None.
            timeout_s: how long to wait until everything has been given back.

        Returns:
            The process that was at work on it; None when nobody was.

        Raises:
            InvalidInput: no such run, or it is another machine's or another user's.
            UnstoppedRun: it has not ended within that time.
        """
        return stop(to_stop(self.directory, self.clock, reference), self.clock, timeout_s=timeout_s)

    def launcher(self, name: str, target: Target, *, cloud: Cloud | None = None) -> Launcher:
        """The launcher of that name, not entered yet.

        Args:
            name: its name.
            target: the training function.
            cloud: where the nodes come from that it will work with, so that it knows them before it is entered.

        Raises:
            InvalidInput: there is none, or the cloud's provider cannot serve it.
        """
        factory = self.manager.launchers().choose(name, key="run.launcher")
        launcher = factory(target=target, clock=self.clock)
        if cloud is not None and isinstance(launcher, Gatherer):
            self.provider(cloud, self.clock.inbox(), launcher).close()
        return launcher

    def provider(self, cloud: Cloud, inbox: Inbox, launcher: Launcher | None = None) -> Provider:
        """The provider that a cloud names, after it has looked at it.

        Args:
            cloud: the cloud.
            inbox: where notices go.
            launcher: what the nodes are for; it gathers them, where it is a `Gatherer`.

        Raises:
            InvalidInput: there is no such provider, or it cannot serve this cloud or this launcher.
        """
        factory = self.manager.providers().choose(cloud.provider, key="cloud.provider")
        make = partial(_made, factory, cloud, self.clock)
        provider = launcher.gather(make, inbox) if isinstance(launcher, Gatherer) else make(inbox)
        try:
            provider.check(cloud)
        except BaseException:
            provider.close()
            raise
        return provider

    def check(self, tuning: Tuning, *, planner: str = DEFAULT_PLANNER) -> None:
        """See to it that every name is known and the provider can serve, before anything is started.

        Raises:
            InvalidInput: the first thing that does not fit.
            UnusableLog: run directories cannot be made.
        """
        RunDirectory.check_home(self.directory)
        self.manager.planners().choose(planner, key="planner")
        launcher = self.launcher(tuning.launcher, tuning.target)
        self.provider(tuning.cloud, self.clock.inbox(), launcher).close()
        self.configs(tuning)
        depot = depot_at(tuning.storage, self.manager.depots())
        if depot is not None:
            depot.check()

    def profile(self, tuning: Tuning, launcher: Launcher) -> MeasuredProfile | ScalingProfile:
        """The profile that the run names, that a plugin knows, or that is measured now.

        Args:
            tuning: the run.
            launcher: entered.

        Raises:
            RubberBandError: as `measure`.
        """
        known = self.known_profile(tuning)
        return self.measure(self.to_measure(tuning), launcher) if known is None else known

    def known_profile(self, tuning: Tuning) -> ScalingProfile | None:
        """The profile that the run names, or that a plugin knows; None where it has to be measured."""
        if isinstance(tuning.profile, ScalingProfile):
            return tuning.profile
        return self.manager.profile(tuning.experiment, tuning.cloud.instance_types[0])

    def to_measure(self, tuning: Tuning) -> ProfileRequest:
        """What is measured before a run, whose profile is not known or is to be measured anew."""
        measuring = Measuring() if isinstance(tuning.profile, ScalingProfile) else tuning.profile
        return profile_request(tuning, measuring, self.configs(tuning), self.manager.depots())

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
            BudgetExceeded: it would cost more than the request's `max_usd`.
            LeakedNodes: nodes could not be given back.
            UnusableLog: what is rented could not be written down before.
        """
        rent = partial(self.provider, request.cloud, launcher=launcher)
        return measure(request, launcher, self.clock, rent, home=self.directory)

    def configs(self, tuning: Tuning) -> tuple[dict[str, Any], ...]:
        """One configuration for each trial of the run; equal seeds give equal ones."""
        rng = np.random.default_rng(tuning.seed)
        return sample(tuning.space, tuning.experiment.trials, rng=rng, method=tuning.sampling)

    def problem(self, tuning: Tuning, profile: MeasuredProfile | ScalingProfile) -> Problem:
        """What is to be planned, once the profile is known; with the measured speeds of types."""
        if isinstance(profile, MeasuredProfile):
            speeds = Speeds(measured=profile.speeds, reference=profile.instance_type)
        else:
            speeds = tuning.speeds
        cloud = self._told(with_speeds(tuning.cloud, tuning.by_hand, speeds))
        keeps_nothing = isinstance(profile, MeasuredProfile) and profile.profile.checkpoint_gib == 0
        return Problem(
            experiment=tuning.experiment,
            profile=profile.profile if isinstance(profile, MeasuredProfile) else profile,
            cloud=cloud,
            objective=tuning.objective,
            policies=tuning.policies,
            checkpoint_every_s=math.inf if keeps_nothing else tuning.checkpoint_every_s,
        )

    def seen(self, cloud: Cloud, given: Given) -> Cloud:
        """A cloud with the launch and init latencies that earlier runs saw, in the place of defaults."""
        return self._told(with_latencies(cloud, given, LatencyBook(self.directory).seen(cloud)))

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

    def veto(self, planned: Forecast, *, max_usd: float | None = None, spent_usd: float = 0.0) -> None:
        """Ask the plugins, and the limit of the bill, whether the plan may be run.

        Args:
            planned: the plan.
            max_usd: hard limit of the bill.
            spent_usd: what profiling has cost already.

        Raises:
            PlanVeto: a plugin is against it.
            BudgetExceeded: the expected cost, with what was spent, is above `max_usd`.
        """
        needed_usd = planned.expected[1] + spent_usd
        if max_usd is not None and needed_usd > max_usd:
            raise BudgetExceeded(max_usd=max_usd, needed_usd=needed_usd, step="the plan")
        self.manager.veto(planned.problem.experiment, planned.plan, planned.estimate)

    def create(
        self,
        tuning: Tuning,
        planned: Forecast,
        measured: MeasuredProfile | ScalingProfile | None = None,
        *,
        options: Sequence[str] = (),
    ) -> RunDirectory:
        """A directory for a run, with what it was asked and promised.

        Args:
            tuning: the run.
            planned: its plan.
            measured: the profile, kept where it was measured for this run.
            options: what was said on the command line, kept for repeating it.

        Raises:
            UnusableLog: it cannot be made.
        """
        directory = RunDirectory.create(self.directory, tuning.name, self.clock.utc())
        directory.write("problem.json", problem_table(planned.problem))
        directory.write("plan.json", planned.table())
        recorded = Recorded.of(tuning, self.configs(tuning), directory, planner=planned.planner, options=options)
        directory.write("request.json", recorded.table())
        if isinstance(measured, MeasuredProfile):
            made = self.clock.utc().isoformat(timespec="seconds")
            table = measured_table(measured, target=tuning.target.name, made=made, cloud=tuning.cloud)
            directory.write("profile.json", table)
        return directory

    def run(
        self,
        tuning: Tuning,
        planned: Forecast,
        launcher: Launcher,
        *,
        directory: RunDirectory,
        observers: Sequence[Observer] = (),
        progress: bool = False,
    ) -> Outcome:
        """Run a plan to its end; everything is given back when this returns or raises.

        Args:
            tuning: the run.
            planned: its plan.
            launcher: of the run; left by the engine when the run is over.
            directory: of the run, as `create` made it.
            observers: told each event after it was written.
            progress: say on standard error how the run goes.

        Raises:
            RubberBandError: as `rb_core.engine.Engine.run`.
        """
        recorded = Recorded.of(tuning, self.configs(tuning), directory, planner=planned.planner)
        depot = depot_at(recorded.storage, self.manager.depots())
        request = run_request(
            directory, recorded, planned.problem, planned.plan, depot, warnings=self._aged(tuning.cloud.prices)
        )
        return drive(
            request,
            launcher,
            directory=directory,
            clock=self.clock,
            manager=self.manager,
            rent=partial(self.provider, tuning.cloud, launcher=launcher),
            observers=observers,
            progress=Progress(planned.problem, planned.plan, planned.estimate, self.clock, told=self._warned)
            if progress
            else None,
        )

    def go_on(
        self,
        going: Resumable,
        launcher: Launcher,
        *,
        observers: Sequence[Observer] = (),
        progress: bool = False,
        log: EventLog | None = None,
    ) -> Outcome:
        """Resume a run and drive it to its end; everything is given back when this returns or raises.

        Args:
            going: the run, as `resumable` found it.
            launcher: of the run; left by the engine when the run is over.
            observers: told each new event after it was written.
            progress: say on standard error how the run goes.
            log: of the run, from `rb_plugins.driving.at_work`, where that was entered before.

        Raises:
            RubberBandError: as `rb_core.engine.Engine.resume`.
        """
        return drive(
            going.request,
            launcher,
            directory=going.directory,
            clock=self.clock,
            manager=self.manager,
            rent=partial(self.provider, going.request.problem.cloud, launcher=launcher),
            observers=observers,
            progress=self._progress(going) if progress else None,
            history=going.history,
            log=log,
        )

    def report(self, reference: str | None = None) -> Outcome:
        """What came of a run, by its id or path; of the latest one when None. Raises `InvalidInput`, `UnusableLog`."""
        directory = to_report(self.directory, reference)
        return read_outcome(directory, living_holder(directory.lease, self.clock))

    def surveyed(self, reference: str | None = None) -> Surveyed | None:
        """What came of a profiling, by its id or path; None where that is a run. Raises as `report`."""
        directory = to_report(self.directory, reference)
        return read_surveyed(directory, living_holder(directory.lease, self.clock))

    def fetch(self, outcome: Outcome, folder: Path) -> Path:
        """Copy the best trial's last checkpoint from where the run keeps it into a folder, and tell its path there.

        Raises:
            InvalidInput: there is none, or the folder cannot be used.
            UnusableCheckpoint: it is missing or damaged, or its store cannot be read.
        """
        best = outcome.best
        if best is None or best.checkpoint is None:
            raise InvalidInput("RUN", f"run {outcome.state.run} has no checkpoint; leave --fetch out")
        return fetch(best.checkpoint, folder, self.manager.depots())

    def _seen(self, tuning: Tuning) -> Tuning:
        return replace(tuning, cloud=self.seen(tuning.cloud, tuning.by_hand), given=tuning.by_hand)

    def _informed(self, cloud: Cloud, given: Given, speeds: Speeds) -> Cloud:
        return self.seen(self._told(with_speeds(cloud, given, speeds)), given)

    def _told(self, informed: Informed) -> Cloud:
        self.notes += [note for note in informed.notes if note not in self.notes]
        return informed.cloud

    def _aged(self, prices: PriceDate | None) -> tuple[str, ...]:
        warning = "" if prices is None else aged(prices, self.clock.utc().date())
        return (warning,) if warning else ()

    def _progress(self, going: Resumable) -> Progress:
        return Progress(going.first, going.plan, self.simulate(going.first, going.plan), self.clock, going.history)


def _made(factory: ProviderFactory, cloud: Cloud, clock: Clock, inbox: Inbox) -> Provider:
    return factory(cloud=cloud, clock=clock, inbox=inbox)
