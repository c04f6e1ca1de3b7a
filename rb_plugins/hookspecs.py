"""The hooks, and nothing else. docs/hooks.md has each one's arguments, moment and example.

Hooks named ``rubberband_register_*`` and ``rubberband_event``, ``rubberband_veto`` are asked of every plugin;
``rubberband_profile`` and ``rubberband_promote`` of one after another, the plugin registered last first, until
one answers something other than None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rb_core.events import Event
    from rb_core.hardware import InstanceType
    from rb_core.plan import AllocationPlan
    from rb_core.profile import ScalingProfile
    from rb_core.simulate import Estimate
    from rb_core.spec import ExperimentSpec
    from rb_plugins.factories import (
        DepotFactory,
        EstateFactory,
        LauncherFactory,
        PlannerFactory,
        PriceBookFactory,
        ProviderFactory,
    )

hookspec = pluggy.HookspecMarker("rubberband")


@hookspec
def rubberband_register_providers() -> Mapping[str, ProviderFactory]:
    """Providers by name."""
    raise NotImplementedError


@hookspec
def rubberband_register_launchers() -> Mapping[str, LauncherFactory]:
    """Launchers by name."""
    raise NotImplementedError


@hookspec
def rubberband_register_planners() -> Mapping[str, PlannerFactory]:
    """Planners by name."""
    raise NotImplementedError


@hookspec
def rubberband_register_price_books() -> Mapping[str, PriceBookFactory]:
    """Price books by the name of their catalogue."""
    raise NotImplementedError


@hookspec
def rubberband_register_depots() -> Mapping[str, DepotFactory]:
    """Stores of checkpoints by the scheme of their addresses."""
    raise NotImplementedError


@hookspec
def rubberband_register_estates() -> Mapping[str, EstateFactory]:
    """Estates, which list and end what an account holds, by the names of their providers."""
    raise NotImplementedError


@hookspec(firstresult=True)
def rubberband_profile(spec: ExperimentSpec, instance: InstanceType) -> ScalingProfile | None:
    """A profile that is known already, in place of a measurement."""


@hookspec(firstresult=True)
def rubberband_promote(spec: ExperimentSpec, stage: int, scores: Mapping[int, float]) -> Sequence[int] | None:
    """The trials that go on after a stage."""


@hookspec
def rubberband_veto(spec: ExperimentSpec, plan: AllocationPlan, estimate: Estimate) -> str | None:
    """A reason not to start this run."""


@hookspec
def rubberband_event(event: Event) -> None:
    """What has just been written to the run's log."""
