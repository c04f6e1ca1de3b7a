"""Looks at all that a run needs, before it begins: names, folders and stores here, and what its provider can tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from rb_core.errors import RubberBandError
from rb_core.events import SCHEMA
from rb_core.inspection import Finding, Inspecting, Intent, ok, problem, warning
from rb_core.launchers.server import SlowImport, try_out
from rb_core.profile import ScalingProfile
from rb_core.report import OLD_DAYS, Table, age_days, duration
from rb_plugins.forecast import Forecast
from rb_plugins.lives import refusals
from rb_plugins.rundir import RunDirectory
from rb_plugins.session import Session
from rb_plugins.storing import depot_at
from rb_plugins.tuning import Tuning

IMPORT_LIMIT_S = 60.0
"""How long the training function may take to be imported; a run waits as long as it takes."""


def look_ahead(session: Session, tuning: Tuning, *, planner: str) -> list[Finding]:
    """One finding for each thing that was looked at.

    Args:
        session: plugins, and where runs are kept.
        tuning: the run.
        planner: who would plan it.
    """
    found: list[Finding] = []
    _look(found, "run directory", lambda: _home(session))
    _look(found, "planner", lambda: _named(session.manager.planners().choose(planner, key="planner"), planner))
    _look(found, "configurations", lambda: f"{len(session.configs(tuning))} drawn")
    _look(found, "launcher", lambda: _named(session.launcher(tuning.launcher, tuning.target), tuning.launcher))
    found.append(_target(tuning))
    _look(found, "storage", lambda: _storage(session, tuning))
    planned = _plan(found, session, tuning, planner)
    found.append(_prices(session, tuning))
    _look(found, "provider", lambda: _provider(session, tuning))
    return [*found, *_ahead(session, tuning, planned)]


def findings_answer(found: Sequence[Finding]) -> dict[str, Any]:
    """What `rb-tune check --json` prints."""
    counted = Counter(finding.verdict.value for finding in found)
    return {
        "schema": SCHEMA,
        "ready": counted["problem"] == 0,
        "findings": [
            {
                "verdict": finding.verdict.value,
                "subject": finding.subject,
                "said": finding.said,
                "remedy": finding.remedy or None,
            }
            for finding in found
        ],
    }


def findings_table(found: Sequence[Finding]) -> Table:
    """One row for each finding."""
    counted = Counter(finding.verdict.value for finding in found)
    return Table(
        title=f"{counted['problem']} problem(s), {counted['warning']} warning(s), {counted['ok']} ok",
        columns=("verdict", "what", "found", "remedy"),
        words=("what", "found", "remedy"),
        rows=tuple((finding.verdict.value, finding.subject, finding.said, finding.remedy) for finding in found),
    )


def _home(session: Session) -> str:
    RunDirectory.check_home(session.directory)
    return f"runs are kept in {session.directory}"


def _named(_: object, name: str) -> str:
    return name


def _target(tuning: Tuning) -> Finding:
    """Import the training function where a run does so first, in a process of this machine."""
    name = tuning.target.name
    try:
        try_out(tuning.target, limit_s=IMPORT_LIMIT_S)
    except SlowImport as error:
        return warning("target", str(error), "see what it does on import; a run waits until that is done")
    except RubberBandError as error:
        said, _, remedy = str(error).rpartition("; ")
        return problem("target", said or remedy, remedy if said else "change it")
    return ok("target", f"{name} was imported and takes (config, trial)")


def _storage(session: Session, tuning: Tuning) -> str:
    depot = depot_at(tuning.storage, session.manager.depots())
    if depot is None:
        return str(tuning.storage or "the run's directory")
    depot.check()
    return f"{depot.uri}: something small was written, read and removed"


def _provider(session: Session, tuning: Tuning) -> str:
    """The same question as a run asks before it begins."""
    launcher = session.launcher(tuning.launcher, tuning.target)
    session.provider(tuning.cloud, session.clock.inbox(), launcher).close()
    return f"{tuning.cloud.provider} can serve this cloud"


def _plan(found: list[Finding], session: Session, tuning: Tuning, planner: str) -> Forecast | None:
    if not isinstance(tuning.profile, ScalingProfile):
        found.append(ok("plan", "made once the function has been profiled"))
        return None
    try:
        planned = session.plan(session.problem(tuning, tuning.profile), planner=planner, seed=tuning.seed)
    except RubberBandError as error:
        found.append(_told("plan", error))
        return None
    jct_s, usd = planned.expected
    found.append(ok("plan", f"{duration(jct_s)} and {usd:.4g} usd are expected"))
    return planned


def _prices(session: Session, tuning: Tuning) -> Finding:
    prices = tuning.cloud.prices
    if tuning.cloud.provider == "local" and prices is None:
        return ok("prices", "the file's own")
    if prices is None:
        return warning("prices", "the file's own, of no known date", "give the date, or take them from a catalogue")
    age = age_days(prices, session.clock.utc().date())
    said = f"price book {prices.book} of {prices.dated}, {age} days old"
    if age > OLD_DAYS:
        return warning("prices", said, "use a catalogue that asks for today's, or give prices yourself")
    return ok("prices", said)


def _ahead(session: Session, tuning: Tuning, planned: Forecast | None) -> list[Finding]:
    """What the provider itself has to say, where it says anything."""
    cloud = tuning.cloud
    try:
        factory = session.manager.providers().choose(cloud.provider, key="cloud.provider")
        with closing(factory(cloud=cloud, clock=session.clock, inbox=session.clock.inbox())) as provider:
            if not isinstance(provider, Inspecting):
                return []
            return list(provider.inspect(_intent(session, tuning, planned)))
    except RubberBandError:
        return []  # told of as "provider"


def _intent(session: Session, tuning: Tuning, planned: Forecast | None) -> Intent:
    cloud = tuning.cloud
    peak = {instance_type.name: cloud.max_nodes for instance_type in cloud.instance_types}
    length_s = tuning.objective.deadline_s
    if planned is not None:
        peak = dict.fromkeys(peak, 0)
        for chain in planned.plan.chains:
            for stage in chain:
                peak[stage.instance_type] = max(peak[stage.instance_type], stage.nodes)
        length_s = float(np.quantile(planned.estimate.jct_s, 0.95))
    return Intent(
        cloud=cloud,
        peak=peak,
        length_s=length_s,
        planned=planned is not None,
        launcher=tuning.launcher,
        refusals=refusals(session.directory, cloud.provider),
    )


def _look(found: list[Finding], subject: str, look: Callable[[], str]) -> None:
    try:
        found.append(ok(subject, look()))
    except RubberBandError as error:
        found.append(_told(subject, error))


def _told(subject: str, error: RubberBandError) -> Finding:
    said, _, remedy = str(error).partition("; ")
    return problem(subject, said, remedy or "change it")
