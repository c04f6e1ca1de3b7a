"""Rounds in processes: profiled and planned where there is something to plan for, logged, billed and resumed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

from optuna.study import Study

from rb_core.engine.request import OnDeadline, RunRequest
from rb_core.errors import InvalidInput, NoFeasiblePlan, UnusableLog
from rb_core.events import Event
from rb_core.plan import AllocationPlan, Policies, Problem
from rb_core.planners.wide import wide
from rb_core.shares import Shares
from rb_core.spec import ExperimentSpec
from rb_optuna import adoption
from rb_optuna.adoption import Adopted
from rb_optuna.desk import Desk, Seat
from rb_optuna.holding import HoldingLauncher
from rb_optuna.inlined import mode_of
from rb_optuna.objective import Objective
from rb_optuna.pickling import sendable
from rb_optuna.probe import Probed, probe
from rb_optuna.terms import UNMEASURED, Terms, each_round, local_cloud, share_of_restarts, warn_user
from rb_optuna.watch import Watch, used
from rb_plugins.config.problem import problem_table
from rb_plugins.driving import drive
from rb_plugins.forecast import DEFAULT_PLANNER, Forecast
from rb_plugins.requested import PATIENCE, environment
from rb_plugins.rundir import RunDirectory
from rb_plugins.session import Session
from rb_plugins.storing import depot_at, place
from rb_plugins.tuning import DEFAULT_POLICIES

GRACE_S = 1.0
"""How long trials may take to end when the study is interrupted."""

_ON_THIS_MACHINE = ("process", "ddp")
"""Launchers that start everything on this machine, whatever node a slot is of."""

_logger = logging.getLogger("optuna.rubberband")


class Launched:
    """Runs trials of a study in processes. Use it as a context manager; it can be entered again.

    Args:
        study: the study.
        terms: what is wanted.
        session: plugins, clock and folder of runs.
        objective: the user's.
        n_jobs: most slots of this machine, where no cloud is given.

    Raises:
        ValueError: the objective cannot be sent to other processes, or there are fewer slots.
    """

    def __init__(self, study: Study, terms: Terms, session: Session, objective: Objective, n_jobs: int) -> None:
        self._study = study
        self._terms = terms
        self._session = session
        self._objective = objective
        self._n_jobs = n_jobs
        self._cloud = local_cloud(n_jobs) if terms.cloud is None else terms.cloud
        self._target, copies = sendable(objective, f"the objective of study {study.study_name}")
        if copies:
            warn_user(
                "The objective uses a study that is kept in memory: in its own process it sees a copy that learns "
                "nothing of other trials. Use a storage, or `trial.study`."
            )
        self._inner = session.launcher(terms.launcher, self._target, cloud=self._cloud)
        session.provider(self._cloud, session.clock.inbox(), self._inner).close()
        self._check_store()
        self._probed: Probed | None = None
        self._began_s = 0.0
        self._under_way: RunDirectory | None = None

    def is_for(self, objective: Objective, n_jobs: int) -> bool:
        """Whether this is what runs that objective on so many slots."""
        return self._objective is objective and self._n_jobs == n_jobs

    def __enter__(self) -> Self:
        """Warm up."""
        self._began_s = self._session.clock.now()
        self._inner.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        """End every process."""
        try:
            self._conclude()
        finally:
            self._inner.__exit__(*exc)

    def plan(self, n_trials: int | None) -> Forecast:
        """The plan of the first round. Raises ValueError when there is none."""
        rounds = None if n_trials is None else list(self._terms.rounds.of(n_trials))
        first = self._terms.rounds.full if rounds is None else rounds[0]
        return self._forecast(first, None if rounds is None else len(rounds), spent_usd=0.0)

    def run(self, desk: Desk, n_trials: int | None) -> None:
        """Run so many trials, or round after round for None; rounds that were killed go on first.

        Raises:
            ValueError: there is no plan for the first round.
            Exception: what an objective or a callback raises; what ends a run.
        """
        spent_usd = 0.0
        for adopted in adoption.interrupted(self._study, self._session.clock):
            experiment = adopted.told.first.experiment
            _logger.info("Going on with a round of %d trials that was interrupted.", experiment.trials)
            spent_usd += self._go_on(desk, adopted)
            n_trials = None if n_trials is None else max(0, n_trials - experiment.trials)
        first = True
        for experiment, left in each_round(self._study, self._terms.rounds, desk, n_trials):
            try:
                planned = self._planned(experiment, left, spent_usd=spent_usd)
            except ValueError as error:
                if first:
                    raise
                log = _logger.info if left is None else _logger.warning
                log("No further round is begun: %s", error)
                return
            spent_usd += self._begin(desk, experiment, planned)
            first = False

    def _planned(self, experiment: ExperimentSpec, left: int | None, *, spent_usd: float) -> Forecast | None:
        if not self._terms.planned:
            return None
        planned = self._forecast(experiment, left, spent_usd=spent_usd)
        if left is None:
            self._check_room(planned, spent_usd=spent_usd)
        _logger.info("The plan:\n%s", planned)
        return planned

    def _forecast(self, experiment: ExperimentSpec, left: int | None, *, spent_usd: float) -> Forecast:
        if self._probed is None:
            cloud = self._cloud
            self._probed = probe(self._study, self._terms, self._session, self._inner, self._target, cloud)
        problem = Problem(
            experiment=experiment if self._probed.can_resume else experiment.from_nothing,
            profile=self._probed.profile,
            cloud=self._cloud,
            objective=self._terms.objective(left=left, gone_s=self._gone_s, spent_usd=spent_usd),
            policies=DEFAULT_POLICIES,
        )
        try:
            planned = self._session.plan(problem, planner=self._terms.planner, seed=self._terms.seed)
        except NoFeasiblePlan as error:
            raise ValueError(str(error)) from error
        self._session.veto(planned, max_usd=self._terms.max_usd)
        return planned

    @property
    def _gone_s(self) -> float:
        """Seconds since this was entered: launching and profiling count."""
        return self._session.clock.now() - self._began_s

    def _check_room(self, planned: Forecast, *, spent_usd: float) -> None:
        """Refuse one round more than what is left has room for."""
        jct_s, usd = planned.expected
        gone_s = self._gone_s
        deadline_s, budget_usd = self._terms.deadline_s, self._terms.budget_usd
        if deadline_s is not None and gone_s + jct_s > deadline_s:
            raise ValueError(f"it would take {jct_s:.4g} s, and {deadline_s - gone_s:.4g} s are left.")
        if budget_usd is not None and spent_usd + usd > budget_usd:
            raise ValueError(f"it would cost {usd:.4g} usd, and {budget_usd - spent_usd:.4g} usd are left.")

    def _begin(self, desk: Desk, experiment: ExperimentSpec, planned: Forecast | None) -> float:
        session = self._session
        directory = RunDirectory.create(session.directory, self._terms.name, session.clock.utc())
        can_resume = self._probed is not None and self._probed.can_resume
        if planned is None:
            problem = Problem(experiment=experiment, profile=UNMEASURED, cloud=self._cloud, policies=Policies())
            plan = wide(experiment, self._cloud)
        else:
            problem = Problem(
                experiment=experiment,
                profile=planned.problem.profile,
                cloud=self._cloud,
                objective=planned.problem.objective,
                policies=planned.problem.policies,
            )
            plan = planned.plan
            directory.write("plan.json", planned.table())
        directory.write("problem.json", problem_table(problem))
        adoption.announce(self._study, directory)
        request = self._request(directory, problem, plan, measured=planned is not None, replan=can_resume)
        return self._drive(desk, directory, request)

    def _go_on(self, desk: Desk, adopted: Adopted) -> float:
        problem = adopted.told.problem
        measured = problem.objective is not None
        request = self._request(adopted.directory, problem, adopted.told.plan, measured=measured, replan=False)
        try:
            return self._drive(desk, adopted.directory, request, adopted=adopted)
        except UnusableLog as error:
            _logger.warning("The interrupted round is left alone: %s", error)
            self._under_way = None
            return 0.0

    def _request(
        self, directory: RunDirectory, problem: Problem, plan: AllocationPlan, *, measured: bool, replan: bool
    ) -> RunRequest:
        terms = self._terms
        kept = place(terms.checkpoints, directory)
        depot = depot_at(kept, self._session.manager.depots())
        return RunRequest(
            run=directory.run,
            problem=problem,
            plan=plan,
            configs=({},) * problem.experiment.trials,
            storage=Path(kept) if depot is None else directory.checkpoints,
            logs=directory.logs,
            metric="value",
            mode=mode_of(self._study),
            seed=terms.seed,
            target=self._target.name,
            record=problem_table(problem),
            environment=environment(),
            patience=PATIENCE if measured else None,
            max_usd=terms.max_usd,
            on_deadline=OnDeadline(terms.on_deadline),
            replan=measured and replan and terms.planner == DEFAULT_PLANNER,
            hopeless_after=None,
            grace_s=GRACE_S,
            depot=depot,
        )

    def _drive(
        self, desk: Desk, directory: RunDirectory, request: RunRequest, *, adopted: Adopted | None = None
    ) -> float:
        """Let the engine run; what it has cost."""
        session = self._session
        launcher = HoldingLauncher(
            self._inner,
            desk,
            session.clock,
            fixed=self._terms.launcher not in _ON_THIS_MACHINE,
            room=self._cloud.max_nodes * min(node.slots for node in self._cloud.instance_types),
            restart=self._terms.unresumable == "restart",
            cost_factor=share_of_restarts(request.problem.experiment),
        )
        seats: Sequence[Seat] = () if adopted is None else adopted.seats
        history: Sequence[Event] = () if adopted is None else adopted.history
        shares = Shares(session.clock)
        for event in history:
            shares(event)
        desk.begin_round(attributes=used(shares), mark=partial(adoption.mark, self._study, directory), seats=seats)
        if adopted is not None:
            adopted.catch_up(desk)
        # Where this raises, the run is concluded on leaving, when the study has been told of all its trials.
        self._under_way = directory
        outcome = drive(
            request,
            launcher,
            directory=directory,
            clock=session.clock,
            manager=session.manager,
            rent=partial(session.provider, request.problem.cloud, launcher=self._inner),
            observers=[shares, Watch(launcher)],
            history=history,
        )
        self._conclude()
        return outcome.bill.cost_usd

    def _check_store(self) -> None:
        """Raise ValueError where the checkpoints go into a store that cannot be used."""
        try:
            depot = depot_at(self._terms.checkpoints, self._session.manager.depots())
            if depot is not None:
                depot.check()
        except InvalidInput as error:
            raise ValueError(f"`checkpoints`: {error.problem}.") from None

    def _conclude(self) -> None:
        if self._under_way is not None:
            adoption.conclude(self._study, self._under_way)
            self._under_way = None
