"""Which provider a launcher on Ray works with: any of machines, whose nodes then join, or the cluster's own nodes."""

from __future__ import annotations

from collections.abc import Callable

from rb_core.ports import Clock, Inbox, Provider
from rb_ray.nodes.cluster import RayCluster
from rb_ray.nodes.existing import ExistingNodes
from rb_ray.nodes.joining import RayNodes


def gather(make: Callable[[Inbox], Provider], *, cluster: RayCluster, clock: Clock, inbox: Inbox) -> Provider:
    """A provider whose nodes are nodes of the cluster; starts and contacts nothing. See `rb_core.ports.Gatherer`.

    Args:
        make: makes the provider of the nodes themselves.
        cluster: what they join, or are nodes of.
        clock: the time.
        inbox: where notices go.

    Raises:
        InvalidInput: these nodes cannot join.
    """
    provider = make(inbox)
    if isinstance(provider, ExistingNodes):
        provider.serve(cluster)
        return provider
    provider.close()
    return RayNodes(make, cluster=cluster, clock=clock, inbox=inbox)
