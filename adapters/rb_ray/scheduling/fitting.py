"""Whether a node that has joined holds what it is planned with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import ray

from rb_core.errors import LaunchFailure
from rb_core.hardware import InstanceType
from rb_ray.scheduling.fleet import room

Resources = Callable[[str], Mapping[str, float] | None]
"""Told the resource that a node has alone, says all that Ray counts on it; None for a node that is not there."""


def ray_resources(own: str) -> Mapping[str, float] | None:
    """What Ray counts on the node that has a resource; None where there is none."""
    rows = ray.nodes() if ray.is_initialized() else []
    return next((row["Resources"] for row in rows if row["Alive"] and own in row["Resources"]), None)


def check_fits(
    node: str, instance_type: InstanceType, resources: Mapping[str, float] | None, bundle: Mapping[str, float]
) -> None:
    """Raise where the bundles of trials do not fit on a node, which would leave them waiting for ever.

    Args:
        node: its name.
        instance_type: what it is.
        resources: what Ray counts on it; None where it is not known.
        bundle: what one slot of a trial asks for.

    Raises:
        LaunchFailure: the node has room for fewer of them than it has slots.
    """
    if resources is None:
        return
    fitting = room(resources, bundle)
    if fitting < instance_type.slots:
        has = ", ".join(f"{name} {resources.get(name, 0.0):g}" for name in bundle)
        raise LaunchFailure(
            f"node {node} of type {instance_type.name} is to hold {instance_type.slots} slot(s) of {dict(bundle)}, and "
            f"has room for {fitting} ({has}); ask for less in tune.with_resources, or give the type as many slots as "
            "fit on it"
        )
