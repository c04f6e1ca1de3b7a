"""What ships with the package, registered by the same hooks as everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rb_plugins import hookimpl

if TYPE_CHECKING:
    from rb_core.hardware import Cloud, PriceBook
    from rb_core.ports import Clock, Inbox, Launcher, Provider
    from rb_core.target import Target
    from rb_plugins.factories import LauncherFactory, PlannerFactory, PriceBookFactory, ProviderFactory


@hookimpl
def rubberband_register_providers() -> Mapping[str, ProviderFactory]:
    """This machine."""
    return {"local": _local}


@hookimpl
def rubberband_register_launchers() -> Mapping[str, LauncherFactory]:
    """One process a trial, or one for each slot."""
    return {"process": _process, "ddp": _ddp}


@hookimpl
def rubberband_register_planners() -> Mapping[str, PlannerFactory]:
    """The planners of rb_core."""
    from rb_core.planners.exact import Exact
    from rb_core.planners.greedy import Greedy
    from rb_core.planners.naive import Naive
    from rb_core.planners.static import Static, StaticOne

    return {planner.name: planner for planner in (Exact, Greedy, Naive, Static, StaticOne)}


@hookimpl
def rubberband_register_price_books() -> Mapping[str, PriceBookFactory]:
    """The snapshot of EC2's prices."""
    return {"ec2": _ec2_prices}


def _local(*, cloud: Cloud, clock: Clock, inbox: Inbox) -> Provider:
    from rb_core.providers.local import LocalProvider

    return LocalProvider(cloud=cloud, clock=clock, inbox=inbox)


def _process(*, target: Target, clock: Clock) -> Launcher:
    from rb_core.launchers.process import ProcessLauncher

    return ProcessLauncher(target)


def _ddp(*, target: Target, clock: Clock) -> Launcher:
    from rb_core.launchers.ddp import DdpLauncher

    return DdpLauncher(target)


def _ec2_prices() -> PriceBook:
    from rb_plugins.ec2_prices import price_book

    return price_book()
