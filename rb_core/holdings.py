"""The nodes of a cluster as a plan from now on sees them."""

from __future__ import annotations

from itertools import groupby

from rb_core.cluster import Cluster
from rb_core.expectation import Batch
from rb_core.hardware import Cloud
from rb_core.journal import Journal


def holdings(cluster: Cluster, journal: Journal, cloud: Cloud) -> tuple[Batch, ...]:
    """What a cluster holds, with times that count from now: usable nodes first, then those that still start.

    Args:
        cluster: the cluster.
        journal: of its run.
        cloud: the cloud as it is known now, for nodes that still start.
    """
    now_s = journal.t_s
    times = []
    for held in (*cluster.usable, *cluster.requested):
        node = journal.state.nodes[held.name]
        if node.running_s is None:
            running_s = max(0.0, node.requested_s + cloud.launch_s.mean - now_s)
        else:
            running_s = node.running_s - now_s
        if held.slots and node.ready_s is not None:
            usable_s = node.ready_s - now_s
        else:
            usable_s = max(0.0, running_s + cloud.init_s.mean)
        times.append((running_s, usable_s))
    return tuple(
        Batch(count=len(list(same)), running_s=running_s, usable_s=usable_s)
        for (running_s, usable_s), same in groupby(times)
    )
