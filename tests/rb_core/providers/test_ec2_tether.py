"""Provider, lifeline and the node's real program together: each instance is a process."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from ec2_world import RUN, SPOT, world
from faulty_ec2 import FaultyEC2
from test_ec2_launching import names

from rb_core.clock import SystemClock, pause
from rb_core.ports import Bootstrap, NodeNews

WAIT_S = 30.0
LEASE_S = 1.0
"""A user's lease is a minute at least; nobody waits for that here."""

ENDS = "import os; print('no such disk:', os.environ['SECRET'])"
STAYS = "import time; time.sleep(600)"
TURN_OFF = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], data=b'')"


class Instances:
    """Runs the node's program for each instance, with the shim's `shutdown` in the place of the machine's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cloud: FaultyEC2
        self.processes: list[subprocess.Popen[bytes]] = []

    def boot(self, instance) -> None:
        packed = re.search(r"^([A-Za-z0-9+/=]{76,}\n)+[A-Za-z0-9+/=]*", self.user_data(instance.id), re.MULTILINE)
        assert packed
        parts = json.loads(zlib.decompress(base64.b64decode(packed[0])))
        folder = self.folder / instance.id
        folder.mkdir()
        (folder / "agent.py").write_text(parts["agent.py"])
        payload = json.loads(parts["payload.json"]) | {"lease_s": LEASE_S}
        (folder / "payload.json").write_text(json.dumps(payload))
        env = {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{self.cloud.url}/imds/{instance.id}",
            "AWS_ENDPOINT_URL": self.cloud.url,
        }
        off = [sys.executable, "-c", TURN_OFF, f"{self.cloud.url}/ctl/shutdown/{instance.id}"]
        command = [sys.executable, "-I", str(folder / "agent.py"), str(folder / "payload.json"), *off]
        with (folder / "log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))

    def user_data(self, instance: str) -> str:
        text = self.cloud.records[instance].user_data
        return text.decode() if isinstance(text, bytes) else text


@pytest.fixture
def instances(tmp_path):
    made = Instances(tmp_path)
    yield made
    for process in made.processes:
        assert process.wait(WAIT_S) == 0


def command(name, kind):
    return Bootstrap(argv=("python", "-c", STAYS if name == f"{RUN}-0" else ENDS), env={"SECRET": "sesame"})


def told(w, node, kind):
    """Wait for a notice."""
    until_s = w.clock.now() + WAIT_S
    while (notice := w.inbox.get(until_s)) is not None:
        if (notice.node, notice.kind) == (node, kind):
            return notice
    raise AssertionError(f"nothing was said of {node}")


def secrets(w):
    return [each["Name"] for each in w.clients.service("ssm").describe_parameters()["Parameters"]]


def test_nodes_read_the_secret_report_and_end_themselves_when_nobody_renews_their_lease(instances):
    own = {"driver_address": "127.0.0.1", "python": sys.executable, "instance_profile": "node"}
    with world(SystemClock(), own=own.items(), on_boot=instances.boot) as w:
        instances.cloud = w.cloud
        w.cloud.profile("node")
        w.provider.boot(command)
        w.provider.launch(names(2), SPOT, run=RUN)
        lost = told(w, f"{RUN}-1", NodeNews.LOST)
        assert lost.reason.startswith("its command ended")
        assert "no such disk: sesame" in lost.reason
        (stays,) = [each.id for each in w.cloud.instances() if w.cloud.records[each.id].made.ami_launch_index == 0]
        w.cloud.interrupt(stays, notice_s=120.0, comes_true=False)
        leaving = told(w, f"{RUN}-0", NodeNews.LEAVING)
        assert 60.0 < leaving.in_s <= 121.0
        assert secrets(w) == [f"/rubberband/{RUN}"]
        w.provider.close()
        assert secrets(w) == [f"/rubberband/{RUN}"]
        until_s = w.clock.now() + WAIT_S
        while w.cloud.alive() and w.clock.now() < until_s:
            pause(w.clock, 0.1)
        assert w.cloud.alive() == []
        w.resume(grace_s=0, short_grace=True)
        w.provider.boot(command)
        w.provider.adopt({f"{RUN}-0": SPOT}, run=RUN)
        told(w, f"{RUN}-0", NodeNews.LOST)
        w.provider.close()
        assert secrets(w) == []
