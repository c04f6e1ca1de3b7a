"""Measures an objective with a study of its own, before anything is asked of the user's."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from optuna.study import Study

from rb_core.errors import RubberBandError
from rb_core.hardware import Cloud
from rb_core.ports import Launcher
from rb_core.profile import ScalingProfile
from rb_core.report import duration
from rb_core.target import Target
from rb_optuna import _compat
from rb_optuna.desk import Desk, Wishes
from rb_optuna.heartbeat import Heartbeat
from rb_optuna.holding import HoldingLauncher
from rb_optuna.messages import Finished
from rb_optuna.terms import Terms
from rb_plugins.profiling import MOST_CONFIGS, ProfileRequest, measure
from rb_plugins.session import Session
from rb_plugins.storing import below, depot_at
from rb_plugins.tuning import Measuring

_logger = logging.getLogger("optuna.rubberband")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What is known of an objective.

    Attributes:
        profile: how it scales.
        can_resume: whether it goes on from checkpoints.
    """

    profile: ScalingProfile
    can_resume: bool


class _ProbeDesk(Desk):
    """A desk that says nothing, and whose trials end quietly."""

    def end(self, number: int, finished: Finished) -> None:
        """Take it as it is: the profiler is told by the launcher."""

    def drop(self, number: int) -> None:
        """Nothing is dropped."""


def probe(study: Study, terms: Terms, session: Session, inner: Launcher, target: Target, cloud: Cloud) -> Probed:
    """Measure how an objective scales, with random parameters.

    Objectives that cannot be resumed are measured on one slot alone: they gain nothing from more.

    Args:
        study: the user's, for its direction.
        terms: what is wanted.
        session: plugins and clock.
        inner: starts the objective; entered.
        target: the objective.
        cloud: where; its first type is measured.

    Raises:
        ValueError: it cannot be measured.
    """
    measuring = terms.profile
    if isinstance(measuring, ScalingProfile):
        return Probed(profile=measuring, can_resume=True)
    _logger.info("Profiling the objective, for at most %s.", duration(measuring.budget_s))
    first = replace(measuring, slots=(1,))
    _, can_resume = _measured(study, terms, session, inner, target, cloud, first, configs=1)
    whole = measuring if can_resume or measuring.slots else first
    profile, _ = _measured(study, terms, session, inner, target, cloud, whole, configs=MOST_CONFIGS)
    return Probed(profile=profile, can_resume=can_resume)


def _measured(
    study: Study,
    terms: Terms,
    session: Session,
    inner: Launcher,
    target: Target,
    cloud: Cloud,
    measuring: Measuring,
    *,
    configs: int,
) -> tuple[ScalingProfile, bool]:
    scratch = _compat.scratch_study(study, terms.seed)
    wishes = Wishes(search_space=terms.search_space)
    desk = _ProbeDesk(scratch, wishes, Heartbeat(scratch), _compat.ProgressBar(False))
    kept = terms.checkpoints
    storage = below(kept, f"profile-{secrets.token_hex(4)}") if isinstance(kept, str) else kept
    request = ProfileRequest(
        target=target,
        launcher=terms.launcher,
        cloud=cloud,
        configs=({},) * configs,
        measuring=measuring,
        seed=terms.seed,
        max_iterations=terms.rounds.R,
        longest=terms.rounds.R,
        storage=storage if isinstance(storage, Path) else None,
        depot=depot_at(storage, session.manager.depots()),
        name=terms.name,
        max_usd=terms.max_usd,
    )
    try:
        with HoldingLauncher(inner, desk, session.clock, holds=False) as launcher:
            rent = partial(session.provider, cloud, launcher=inner)
            measured = measure(request, launcher, session.clock, rent, home=session.directory)
    except RubberBandError as error:
        raise ValueError(
            f"The objective could not be profiled, and without a profile nothing can be planned: {error}. Give a "
            "`profile`, or leave out `deadline` and `budget_usd`."
        ) from error
    for warning in measured.warnings:
        _logger.warning("%s", warning)
    return measured.profile, launcher.can_resume
