"""How a machine becomes a node of a Ray cluster: the command, the variables, and the resources that name it."""

from __future__ import annotations

import json
import sys

from rb_core.hardware import InstanceType
from rb_core.ports import Bootstrap
from rb_core.providers.machine import devices

OBJECT_STORE_BYTES = 128 * 2**20
"""Object store of a node that shares its machine with others."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Variables of every Ray process of ours."""


def run_resource(run: str) -> str:
    """The Ray resource that all nodes of a run have, one for each slot."""
    return f"rb:{run}"


def node_resource(run: str, node: str) -> str:
    """The Ray resource that one node of a run has alone, one for each slot."""
    return f"rb:{run}:{node}"


def bootstrap(
    *, address: str, token: str | None, run: str, node: str, instance_type: InstanceType, ip: str | None = None
) -> Bootstrap:
    """What a node runs to join.

    Args:
        address: ``host:port`` of the cluster's head.
        token: the cluster's; None where it has none.
        run: the run that the node belongs to.
        node: its name.
        instance_type: what it is.
        ip: the address that it is to have on a machine that several nodes share; Ray finds its own when None.
    """
    slots = instance_type.slots
    resources = {run_resource(run): slots, node_resource(run, node): slots}
    shared: tuple[str, ...] = ()
    if ip is not None:
        shared = ("--node-ip-address", ip, "--object-store-memory", str(OBJECT_STORE_BYTES))
        if not any(devices()):
            shared += ("--num-cpus", str(slots))
    named = ("--address", address, "--resources", json.dumps(resources))
    argv = (sys.executable, "-m", "rb_ray.nodes.starting", *named, *shared)
    return Bootstrap(argv=argv, env={**QUIET, **token_env(token)})


def token_env(token: str | None) -> dict[str, str]:
    """Variables that have a Ray process use the token; none without one."""
    return {} if token is None else {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
