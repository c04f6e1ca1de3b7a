"""A program with a cluster of its own and a node in it, for tests that end it in one way or another.

``python raydriver.py WAY`` says ``up ADDRESS`` when the node is ready, then reads a line; WAY is what it does then:
``end`` ends in order, ``head`` kills the cluster's head first and says what comes of it.
"""

from __future__ import annotations

import os
import signal
import sys

from raynodes import Nodes, nodes, pid_with
from rb_ray.nodes.cluster import RayCluster

from rb_core.errors import RubberBandError
from rb_core.ports import NodeNews


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def behead(own: Nodes) -> None:
    """Kill the head, and say what is said of the nodes and of further ones."""
    (here,) = [row for row in own.cluster.table() if row["NodeID"] == own.cluster.here]
    session = here["RayletSocketName"].partition("/sockets/")[0]
    os.kill(pid_with(f"gcs_server --log_dir={session}/"), signal.SIGKILL)
    own.until(lambda: any(notice.kind == NodeNews.LOST for notice in own.said))
    say(f"lost {own.said[-1].reason}")
    own.until(lambda: bool(own.cluster.ended))
    try:
        own.launch(1)
    except RubberBandError as error:
        say(f"refused {error}")


def settings() -> tuple[object, ...]:
    variables = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    return variables, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)


if __name__ == "__main__":
    before = settings()
    with RayCluster() as cluster, nodes(cluster) as own:
        own.launch(1)
        say(f"up {cluster.address}" if settings()[1:] == before[1:] else "handlers of signals have changed")
        sys.stdin.readline()
        if sys.argv[1] == "head":
            behead(own)
    say("over" if settings() == before else "over, and the environment has changed")
