"""What this package registers: launcher and provider `ray`, and checkpoints in S3."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rb_core.errors import InvalidInput
from rb_plugins import hookimpl

if TYPE_CHECKING:
    from rb_core.hardware import Cloud
    from rb_core.ports import Clock, Depot, Inbox, Launcher, Provider
    from rb_core.target import Target
    from rb_plugins.factories import DepotFactory, LauncherFactory, ProviderFactory


@hookimpl
def rubberband_register_launchers() -> Mapping[str, LauncherFactory]:
    """Trials on the nodes of a Ray cluster."""
    return {"ray": _launcher}


@hookimpl
def rubberband_register_providers() -> Mapping[str, ProviderFactory]:
    """Nodes of a Ray cluster that exists."""
    return {"ray": _provider}


@hookimpl
def rubberband_register_depots() -> Mapping[str, DepotFactory]:
    """Checkpoints in S3, for any launcher whose ranks run under the core's warden."""
    return {"s3": _s3}


def _launcher(*, target: Target, clock: Clock) -> Launcher:
    _require_ray("run.launcher")
    from rb_ray.launching.launcher import RayLauncher

    return RayLauncher(target, clock=clock)


def _provider(*, cloud: Cloud, clock: Clock, inbox: Inbox) -> Provider:
    _require_ray("cloud.provider")
    from rb_ray.nodes.existing import ExistingNodes

    return ExistingNodes(clock=clock, inbox=inbox)


def _s3(*, uri: str) -> Depot:
    from rb_plugins.importable import require

    require("pyarrow", "pyarrow.fs", key="run.storage", user="s3://", extra="ray")
    from rb_ray.depots.s3 import s3_depot

    return s3_depot(uri=uri)


def _require_ray(key: str) -> None:
    if find_spec("ray") is None:
        raise InvalidInput(key, "'ray' needs Ray: pip install 'rubberband-tune[ray]'")
    from rb_plugins.importable import require

    require("ray", key=key, user="'ray'", extra="ray")
