"""Which fleet and which allotter serve a scheduler's terms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud
from rb_core.measurement import MeasuredProfile
from rb_core.plan import Objective
from rb_core.ports import Clock, Inbox, Provider
from rb_core.profile import ScalingProfile
from rb_plugins.manager import Manager, make_manager
from rb_plugins.profiling import measured_table
from rb_plugins.rundir import write_json
from rb_ray.nodes.cluster import RayCluster
from rb_ray.nodes.joining import RayNodes
from rb_ray.scheduling.allotting import Allotter, EvenAllotter
from rb_ray.scheduling.elastic import ElasticFleet, Rent
from rb_ray.scheduling.fleet import FixedFleet, Fleet
from rb_ray.scheduling.ground import FixedGround
from rb_ray.scheduling.learned import LearnedAllotter
from rb_ray.scheduling.planned import PlannedAllotter
from rb_ray.scheduling.terms import Terms

PROFILE = "rubberband_profile.json"
"""The profile that a run measured, in the experiment's folder."""


def fleet_for(
    terms: Terms,
    clock: Clock,
    *,
    metric: str = "",
    mode: str = "max",
    target: str = "",
    manager: Manager | None = None,
) -> Fleet:
    """Rented nodes where any are named, else the cluster that Ray is connected to.

    Args:
        terms: of the scheduler.
        clock: the time; nothing else may wait on it.
        metric: name of the score, for the log of a run with rented nodes.
        mode: ``max`` or ``min``, likewise.
        target: what is trained, in words, likewise.
        manager: the plugins; all installed ones when None.

    Raises:
        InvalidInput: there is no such provider.
    """
    if terms.nodes is None:
        return FixedFleet(clock)
    return ElasticFleet(
        terms.nodes,
        renting(terms.nodes, clock, make_manager() if manager is None else manager),
        clock,
        metric=metric,
        mode=mode,
        seed=terms.seed,
        target=target,
        max_usd=terms.max_usd,
    )


def allotter_for(
    terms: Terms,
    fleet: Fleet,
    clock: Clock,
    *,
    folder: Path | None = None,
    target: str = "",
    manager: Manager | None = None,
) -> Allotter:
    """A planner's where there is something to plan for, else even shares of what is there.

    Args:
        terms: of the scheduler.
        fleet: as `fleet_for` made it.
        clock: the time.
        folder: where a profile that is measured on the way is kept; nowhere when None.
        target: what is trained, in words, for that file.
        manager: the plugins; all installed ones when None.

    Raises:
        InvalidInput: there is no such planner, or nodes are to be rented without a limit to plan for.
    """
    objective = _objective(terms)
    if objective is None:
        if terms.nodes is not None:
            raise InvalidInput(
                "nodes",
                "needs a limit by which they are taken and given back; give `deadline`, `budget_usd` or "
                "TuneConfig(time_budget_s=...)",
            )
        return EvenAllotter(fleet, widths=terms.widths)
    chosen = (make_manager() if manager is None else manager).planners().choose(terms.planner, key="planner")
    ground = fleet if isinstance(fleet, ElasticFleet) else FixedGround(fleet)
    warn = fleet.warn if isinstance(fleet, ElasticFleet) else None
    if terms.profile is not None:
        profile = _usable(terms.profile, terms)
        return PlannedAllotter(ground, objective, profile, planner=chosen(), seed=terms.seed, warn=warn)
    return LearnedAllotter(
        ground,
        objective,
        most_slots=max(terms.widths),
        keep=partial(_keep, fleet, clock, folder, target),
        warn=warn,
    )


def renting(cloud: Cloud, clock: Clock, manager: Manager) -> Rent:
    """Makes the provider of a cloud's nodes, which join the Ray cluster that this process is connected to.

    Raises:
        InvalidInput: no plugin gave this provider.
    """
    factory = manager.providers().choose(cloud.provider, key="nodes.provider")

    def rent(inbox: Inbox) -> Provider:
        def machines(between: Inbox) -> Provider:
            return factory(cloud=cloud, clock=clock, inbox=between)

        return RayNodes(machines, cluster=RayCluster(), clock=clock, inbox=inbox)

    return rent


def _objective(terms: Terms) -> Objective | None:
    if terms.deadline_s is None and terms.deadline_factor is None and terms.budget_usd is None:
        return None
    return Objective(
        deadline_s=terms.deadline_s, deadline_factor=terms.deadline_factor, budget_usd=terms.budget_usd
    )  # fmt: skip


def _usable(profile: ScalingProfile, terms: Terms) -> ScalingProfile:
    """The profile with the widths that a trial may have."""
    widths = {width: latency for width, latency in profile.iteration_s.items() if width in terms.widths}
    return replace(profile, iteration_s=widths) if widths else profile


def _keep(fleet: Fleet, clock: Clock, folder: Path | None, target: str, measured: MeasuredProfile) -> None:
    """Write what was measured where the next run, and ``rb-tune report``, find it."""
    table = measured_table(measured, target=target, made=clock.utc().isoformat(timespec="seconds"))
    if folder is not None:
        write_json(folder / PROFILE, table)
    if isinstance(fleet, ElasticFleet):
        fleet.keep("profile.json", table)
