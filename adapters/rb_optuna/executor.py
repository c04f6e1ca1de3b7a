"""The executor: `Study.optimize` on the core's engine, with trials that wait, move and grow at their rungs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import TrialState

from rb_core.errors import RunInterrupted
from rb_core.hardware import Cloud
from rb_core.profile import ScalingProfile
from rb_optuna import _compat
from rb_optuna.desk import Callback, Desk, Wishes
from rb_optuna.heartbeat import Heartbeat
from rb_optuna.inlined import Inlined
from rb_optuna.launched import Launched
from rb_optuna.objective import Objective
from rb_optuna.terms import INLINE, pruner_is_passed_over, read_terms, warn_user, words_on_small_round
from rb_plugins import interrupts
from rb_plugins.forecast import Forecast
from rb_plugins.session import Session
from rb_plugins.tuning import Measuring

_logger = logging.getLogger("optuna.rubberband")


class RubberBandExecutor:
    """Runs a study's trials as synchronous successive halving, on processes that trials share elastically.

    In the place of ``study.optimize(objective, n_trials=27)``:

    .. code-block:: python

        RubberBandExecutor(study, max_resource=81, deadline="2h").optimize(objective, n_trials=27)

    A trial that reports and asks ``should_prune`` waits at the rungs for the others, and the best
    ``1 / reduction_factor`` of them go on: none is pruned because it was early or late. With a deadline or a budget
    the objective is profiled and an allocation is planned for every stage; without either every trial has one slot.
    Objectives that use `rb_optuna.session` are suspended and resumed, on more or fewer processes; others wait in
    their processes, or are run again from their beginning where slots do not suffice.

    Args:
        study:
            A study of one objective.
        deadline:
            When all is to be over after `optimize` was called: seconds, a duration such as ``"45m"``, or a
            multiple of what the fastest plan takes, such as ``"1.5x"``. It is planned for; ``timeout`` is not.
        budget_usd:
            What all may cost, in the place of a deadline.
        max_resource:
            Iterations, which is steps reported, of a trial that is never pruned.
        min_resource:
            Iterations before the first rung; 1 by default.
        reduction_factor:
            One trial in how many goes on from a rung; 3 by default.
        hyperband:
            Whether trials are spread over Hyperband's brackets instead of the one with the earliest rung.
        profile:
            How the objective scales: a profile, the path of a profile file, or how to measure one. Measured when
            :obj:`None`, for at most five minutes, if there is a deadline or a budget.
        cloud:
            What can be rented. This machine, at no price, when :obj:`None`.
        provider:
            Name of the provider of ``cloud``.
        launcher:
            ``"ddp"`` for objectives that may run data-parallel with torch, ``"process"`` for others, ``"ray"`` for the
            nodes of a Ray cluster, or ``"inline"``: in the caller's own process and thread, one at a time. By default
            ``"ddp"`` where torch has been imported, else ``"process"``.
        planner:
            Who plans.
        unresumable:
            What happens to an objective that cannot be resumed where slots do not suffice: ``"restart"`` runs it
            again from its beginning, after a warning; ``"error"`` ends the study.
        search_space:
            Distributions of all parameters. They are then sampled when a trial begins, in the order of trials, so
            that a seeded sampler gives the same trials whatever runs in parallel.
        max_usd:
            Hard limit of the bill of each round, checked before each launch.
        on_deadline:
            ``"finish"`` the rest when the deadline has come, for less where that ends no later, or ``"stop"``.
        seed:
            Seed of planning and profiling.
        checkpoints:
            Folder of the checkpoints, which all nodes share, or the address of a store, such as
            ``"s3://bucket/prefix"``. Each run's own directory when :obj:`None`. A killed round goes on with the same.
        session:
            Plugins, clock and folder of runs.

    Raises:
        ValueError:
            If an argument is wrong, or the study has several objectives.
    """

    def __init__(
        self,
        study: Study,
        *,
        deadline: float | str | None = None,
        budget_usd: float | None = None,
        max_resource: int | None = None,
        min_resource: int | None = None,
        reduction_factor: int | None = None,
        hyperband: bool = False,
        profile: ScalingProfile | Measuring | str | Path | None = None,
        cloud: Cloud | None = None,
        provider: str = "local",
        launcher: str | None = None,
        planner: str = "exact",
        unresumable: str = "restart",
        search_space: Mapping[str, BaseDistribution] | None = None,
        max_usd: float | None = None,
        on_deadline: str = "finish",
        seed: int = 0,
        checkpoints: Path | str | None = None,
        session: Session | None = None,
    ) -> None:
        self._study = study
        self._terms = read_terms(
            study,
            deadline=deadline,
            budget_usd=budget_usd,
            max_resource=max_resource,
            min_resource=min_resource,
            reduction_factor=reduction_factor,
            hyperband=hyperband,
            profile=profile,
            cloud=cloud,
            provider=provider,
            launcher=launcher,
            planner=planner,
            unresumable=unresumable,
            search_space=search_space,
            max_usd=max_usd,
            on_deadline=on_deadline,
            seed=seed,
            checkpoints=checkpoints,
        )
        self._session = session
        self._launched: Launched | None = None
        self._told_of_pruner = False

    def optimize(
        self,
        func: Objective,
        n_trials: int | None = None,
        timeout: float | None = None,
        n_jobs: int = 1,
        catch: Iterable[type[Exception]] | type[Exception] = (),
        callbacks: Iterable[Callback] | None = None,
        gc_after_trial: bool = False,
        show_progress_bar: bool = False,
    ) -> None:
        """Optimize an objective function; as `optuna.study.Study.optimize`.

        Args:
            func:
                The objective.
            n_trials:
                The number of trials of this call, those of a killed call that it goes on with included. Fewer than
                a full round make a smaller one. :obj:`None`: round after round, until something ends that.
            timeout:
                No trial begins so many seconds after the first one; those that run come to their end.
            n_jobs:
                With no ``cloud`` the most slots of this machine that are used; 1 and -1 stand for all.
            catch:
                Exceptions that fail a trial without ending the study.
            callbacks:
                Called after each trial with the study and the trial, in this thread.
            gc_after_trial:
                Whether garbage is collected after each trial.
            show_progress_bar:
                Whether a progress bar is shown.

        Raises:
            RuntimeError:
                If it is called within an objective of the same study.
            ValueError:
                If an argument is wrong, no plan meets the deadline or the budget, or the objective cannot be sent to
                other processes.
            Exception:
                What the objective raised, unless it is to be caught. Everything has been given back.
        """
        caught = tuple(catch) if isinstance(catch, Iterable) else (catch,)
        if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in caught):
            raise TypeError(f"The catch argument must hold exception classes, but got {catch!r}.")
        if show_progress_bar and n_trials is None and timeout is not None and n_jobs != 1:
            warn_user("The timeout-based progress bar is not supported with n_jobs != 1.")
            show_progress_bar = False
        wishes = Wishes(
            catch=caught,
            callbacks=() if callbacks is None else tuple(callbacks),
            timeout=timeout,
            gc_after_trial=gc_after_trial,
            search_space=self._terms.search_space,
            reseed=n_jobs != 1,
        )
        self._tell_of_pruner()
        with _compat.optimizing(self._study), ExitStack() as stack:
            runner: Inlined | Launched
            if self._terms.launcher == INLINE:
                runner = Inlined(self._study, self._terms, func)
            else:
                stack.enter_context(interrupts.interruptible())
                runner = stack.enter_context(self._launch(func, n_jobs))
            small = words_on_small_round(self._terms.rounds, n_trials)
            if small:
                _logger.info(small)
            bar = _compat.ProgressBar(show_progress_bar, n_trials, timeout)
            stack.callback(bar.close)
            desk = Desk(self._study, wishes, stack.enter_context(Heartbeat(self._study)), bar)
            try:
                runner.run(desk, n_trials)
            except (Exception, KeyboardInterrupt) as error:
                with interrupts.held():
                    desk.close(TrialState.FAIL)
                if isinstance(error, RunInterrupted):
                    raise KeyboardInterrupt from None
                raise
            desk.close(TrialState.PRUNED)

    def plan(self, func: Objective, n_trials: int | None = None, n_jobs: int = 1) -> Forecast:
        """The plan of the first round, before anything is asked of the study; `str` of it is for people.

        The objective is profiled first where no profile was given, with a study of its own; `optimize` then does not
        do it again.

        Args:
            func:
                The objective.
            n_trials:
                As in `optimize`.
            n_jobs:
                As in `optimize`.

        Raises:
            ValueError:
                If there is neither a deadline nor a budget to plan for, or no plan meets it.
        """
        if not self._terms.planned:
            raise ValueError("There is nothing to plan for: give the executor a `deadline` or a `budget_usd`.")
        with self._launch(func, n_jobs) as launched:
            return launched.plan(n_trials)

    def _tell_of_pruner(self) -> None:
        """Say once that a pruner of the user's choice decides nothing."""
        if pruner_is_passed_over(self._study) and not self._told_of_pruner:
            self._told_of_pruner = True
            _logger.warning(
                "The study's %s is not consulted: the executor's own rungs decide which trials are pruned.",
                type(self._study.pruner).__name__,
            )

    def _launch(self, func: Objective, n_jobs: int) -> Launched:
        """What runs the objective in processes; the same one again for the same objective."""
        known = self._launched
        if known is None or not known.is_for(func, n_jobs):
            session = Session() if self._session is None else self._session
            known = self._launched = Launched(self._study, self._terms, session, func, n_jobs)
        return known
