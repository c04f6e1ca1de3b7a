"""The program of a Ray node of ours: `ray start --block` with a folder of its own and the node's versions as labels.

``python -m rb_ray.nodes.starting ARGUMENT...`` takes the arguments of `ray start`.
"""

from __future__ import annotations

import os
import sys

from rb_ray.nodes.versions import labels, versions


def arguments(given: list[str], folder: str | None) -> list[str]:
    """What `ray start` is called with.

    Args:
        given: what is particular to the node.
        folder: for its temporary files, short; Ray's own choice when None. Nodes that share one on a machine take each
            other's sockets.
    """
    told = ",".join(f"{name}={value}" for name, value in labels(versions()).items())
    own = [] if folder is None else ["--temp-dir", folder]
    # Port 0 lets the system choose: Ray's own ranges are the same on every node of a machine.
    ports = ["--min-worker-port", "0", "--max-worker-port", "0"]
    return ["--block", "--include-log-monitor=false", "--labels", told, *ports, *own, *given]


if __name__ == "__main__":
    own_folder = os.environ.get("TMPDIR")
    start = ["-m", "ray.scripts.scripts", "start", *arguments(sys.argv[1:], own_folder)]
    hook = {} if own_folder is None else {"RAY_START_HOOK": "rb_ray._compat.start_apart"}
    os.execve(sys.executable, [sys.executable, *start], {**os.environ, **hook})
