"""What an instance is started with: a script that arms its own end first, then starts the agent."""

from __future__ import annotations

import base64
import inspect
import json
import math
import shlex
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from rb_core.check import non_empty, positive
from rb_core.errors import InvalidInput
from rb_core.ports import Bootstrap
from rb_core.providers.ec2 import agent

MOST_BYTES = 16_384
"""What EC2 takes as user data, before base64."""

_SCRIPT = """\
#!/bin/bash
shutdown -h +{minutes}
# {run} {attempt}
per_boot=/var/lib/cloud/scripts/per-boot
if [ -d "$per_boot" ]; then
  # All this is run at the first boot alone, and a reboot forgets it: such a node is of no use any more.
  printf '#!/bin/sh\nshutdown -h now\n' >"$per_boot/rubberband" && chmod 755 "$per_boot/rubberband"
fi
umask 077
folder=$(mktemp -d -t rb-XXXXXX)
for python in {pythons}; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && break
  python=
done
"${{python:-false}}" -c 'import base64, json, sys, zlib
parts = json.loads(zlib.decompress(base64.b64decode(sys.stdin.read())))
for name, text in parts.items():
    with open(sys.argv[1] + "/" + name, "w") as file:
        file.write(text)' "$folder" <<'END'
{packed}
END
if [ $? -ne 0 ]; then
  echo 'rubberband: no Python 3.8 or later that can run the agent; this node ends'
  shutdown -h now
  exit 1
fi
setsid bash -c '"$0" "$1/agent.py" "$1/payload.json" shutdown -h now; shutdown -h now' "$python" "$folder" \\
  </dev/null >"$folder/agent.log" 2>&1 &
"""


class NodeSettings(Protocol):
    """What the user says of the inside of a node."""

    @property
    def python(self) -> str:
        """The Python that runs the command of a node: a path on it, or a name."""

    @property
    def setup(self) -> Sequence[str]:
        """Commands for the node's shell that come before."""


def user_data(
    *,
    run: str,
    attempt: str,
    nodes: Sequence[str],
    bootstraps: Mapping[str, Bootstrap],
    lifetime_s: float,
    lease_s: float,
    settings: NodeSettings,
    region: str,
    parameter: str,
) -> str:
    """The script for the instances of one launch; each finds by its launch index which of the nodes it is.

    Equal arguments give an equal script. It holds no variables of the commands: those may be secret, and every process
    of a node and whoever may describe instances can read it.

    Args:
        run: id of the run.
        attempt: token of the launch.
        nodes: names of the nodes, in the order of the launch.
        bootstraps: what each node runs, by name; a node without runs nothing.
        lifetime_s: after so long a node shuts itself down, whatever happens.
        lease_s: it does, too, when the driver has not been heard for so long.
        settings: Python and setup commands.
        region: where the parameter store is.
        parameter: name of the entry that holds the secret.

    Raises:
        InvalidInput: a figure is out of its limits, or the script is larger than EC2 takes.
    """
    positive("settings.lifetime_s", lifetime_s)
    positive("settings.lease_s", lease_s)
    non_empty("settings.python", settings.python)
    setup = list(settings.setup)
    payload = {
        "region": region,
        "parameter": parameter,
        "lease_s": lease_s,
        "lifetime_s": lifetime_s,
        "setup": setup,
        "nodes": [[name, _argv(bootstraps.get(name), settings.python)] for name in nodes],
    }
    parts = {"agent.py": inspect.getsource(agent), "payload.json": json.dumps(payload)}
    script = _SCRIPT.format(
        minutes=math.ceil(lifetime_s / 60.0),
        run=run,
        attempt=attempt,
        pythons=shlex.join(dict.fromkeys((settings.python, "python3"))),
        packed="\n".join(textwrap.wrap(_packed(parts), 1000)),
    )
    size = len(script.encode())
    if size > MOST_BYTES:
        raise InvalidInput(
            "settings.setup",
            f"must be shorter: the user data of {len(nodes)} node(s) would take {size} bytes, and EC2 takes "
            f"{MOST_BYTES}; the setup commands have {len(''.join(setup).encode())} of them before they are packed: put "
            "them into a script in the image or a bucket, and run that",
        )
    return script


def _argv(bootstrap: Bootstrap | None, python: str) -> list[str]:
    return [] if bootstrap is None else [python, *bootstrap.argv[1:]]


def _packed(parts: Mapping[str, str]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(parts).encode(), 9)).decode()
