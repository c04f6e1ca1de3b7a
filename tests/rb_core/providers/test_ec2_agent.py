"""The node's program as a process of its own, against services on loopback; `shutdown` is a file that it touches."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rb_core.providers.ec2 import agent
from rb_core.providers.ec2.lifeline import Lifeline, NodePhase, NodeReport

KEY = bytes(range(32))
KEYS = {"AccessKeyId": "AKIATEST", "SecretAccessKey": "shh", "Token": "session"}
WAIT_S = 30.0


class Services(ThreadingHTTPServer):
    """Metadata and parameter store of one node.

    Attributes:
        entries: what the metadata service says, by path; a number is a status.
        secret: the parameter's value; None while there is none.
        asked: the calls to the parameter store: headers and body.
        tokens: tokens given out; only the last one is good.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.entries: dict[str, str | int] = {
            "ami-launch-index": "1",
            "instance-id": "i-1",
            "iam/security-credentials/": "node",
            "iam/security-credentials/node": json.dumps(KEYS),
        }
        self.secret: dict[str, object] | None = None
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.tokens = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Services

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self) -> None:
        self.server.tokens += 1
        self.answer(200, f"token-{self.server.tokens}")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != f"token-{self.server.tokens}":
            self.answer(401, "")
            return
        value = self.server.entries.get(self.path.removeprefix("/latest/meta-data/"), 404)
        self.answer(value, "") if isinstance(value, int) else self.answer(200, value)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((dict(self.headers.items()), body))
        if self.server.secret is None:
            self.answer(400, '{"__type": "ParameterNotFound"}')
        else:
            self.answer(200, json.dumps({"Parameter": {"Value": json.dumps(self.server.secret)}}))


class Node:
    """A node's agent as a process, and the driver's lifeline."""

    def __init__(self, folder: Path, *argv: str, lease_s: float = 2.0, lifetime_s: float = 60.0, setup=()) -> None:
        self.folder = folder
        self.down = folder / "down"
        self.heard: queue.SimpleQueue[NodeReport] = queue.SimpleQueue()
        self.services = Services()
        self.lifeline = self.listen()
        self.trust(self.lifeline)
        payload = {
            "region": "us-east-1",
            "parameter": "/rubberband/run",
            "lease_s": lease_s,
            "lifetime_s": lifetime_s,
            "setup": list(setup),
            "nodes": [["run-0", ["false"]], ["run-1", list(argv)]],
        }
        (folder / "payload.json").write_text(json.dumps(payload))
        env = {
            "PATH": os.environ["PATH"],
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.services.url,
            "AWS_ENDPOINT_URL": self.services.url,
        }
        command = [sys.executable, "-I", agent.__file__, str(folder / "payload.json"), "touch", str(self.down)]
        with (folder / "agent.log").open("wb") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def listen(self, port: int = 0) -> Lifeline:
        return Lifeline(KEY, self.heard.put, "127.0.0.1", port)

    def trust(self, lifeline: Lifeline) -> None:
        """Have the entry name this lifeline."""
        env = {"GREETING": "hello"}
        self.services.secret = {"key": KEY.hex(), "address": lifeline.address, "env": env, "own": {}}

    def until(self, phase: NodePhase) -> NodeReport:
        limit_s = time.monotonic() + WAIT_S
        while True:
            report = self.heard.get(timeout=limit_s - time.monotonic())
            if report.phase == phase:
                return report

    def ended(self) -> str:
        """Wait until it has shut down: the agent's log."""
        assert self.process.wait(WAIT_S) == 0
        assert self.down.exists()
        return (self.folder / "agent.log").read_text()

    def close(self) -> None:
        self.lifeline.close()
        if self.process.poll() is None:
            self.ended()
        self.services.shutdown()
        self.services.server_close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator:
    made: list[Node] = []

    def start(*argv: str, **settings) -> Node:
        made.append(Node(tmp_path, *argv, **settings))
        return made[-1]

    yield start
    for node in made:
        node.close()


def test_it_prepares_runs_its_own_command_with_the_secret_and_tells_how_that_ended(started):
    node = started("sh", "-c", 'echo "$GREETING" from the command; exit 3', setup=("true",))
    last = node.until(NodePhase.ENDED)
    assert (last.node, last.instance) == ("run-1", "i-1")
    assert last.said.startswith("its command ended with status 3")
    assert "hello from the command" in last.said
    assert "its command ended" in node.ended()


def test_a_setup_command_that_fails_ends_the_node_with_its_last_lines(started):
    node = started("true", setup=("true", "echo no such wheel; exit 7"))
    last = node.until(NodePhase.ENDED)
    assert last.said == "setup[1] (echo no such wheel; exit 7) ended with status 7: no such wheel"
    node.ended()


def test_a_command_that_cannot_be_started_ends_the_node(started):
    node = started("/no/such/python")
    assert "its command cannot be started" in node.until(NodePhase.ENDED).said
    node.ended()


def test_a_node_that_is_not_heard_ends_itself_and_its_command(started, tmp_path):
    node = started("sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600", lease_s=1.0)
    node.until(NodePhase.RUNNING)
    node.until(NodePhase.RUNNING)
    node.lifeline.close()
    assert "its lease was not renewed for 1 s" in node.ended()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_it_ends_when_its_lifetime_is_over_though_it_is_heard(started):
    node = started("sleep", "600", lifetime_s=1.0)
    assert "its lifetime is over" in node.ended()


def test_it_ends_when_the_driver_gives_it_back(started):
    node = started("sleep", "600")
    node.until(NodePhase.RUNNING)
    node.lifeline.dismiss(["run-1"])
    assert "the driver has given it back" in node.ended()


def test_without_the_entry_it_ends_when_its_lease_is_over(started):
    node = started("sleep", "600", lease_s=1.0)
    node.services.secret = None
    node.lifeline.close()
    assert "its lease was not renewed" in node.ended()


def test_a_driver_that_moved_is_found_by_the_entry(started):
    node = started("sleep", "600", lease_s=4.0)
    node.until(NodePhase.RUNNING)
    node.lifeline.close()
    node.lifeline = node.listen()
    node.trust(node.lifeline)
    while not node.heard.empty():
        node.heard.get()
    assert node.until(NodePhase.RUNNING).node == "run-1"
    node.lifeline.dismiss(["run-1"])
    node.ended()


def test_a_spot_notice_and_a_rebalance_signal_are_told_and_a_lost_token_is_renewed(started):
    node = started("sleep", "600")
    assert node.until(NodePhase.RUNNING).leaves_in_s is None
    node.services.tokens += 1  # the service forgets the token
    node.services.entries["events/recommendations/rebalance"] = "{}"
    gone = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 120.0))
    node.services.entries["spot/instance-action"] = json.dumps({"action": "terminate", "time": gone})
    while (report := node.until(NodePhase.RUNNING)).leaves_in_s is None or not report.rebalance:
        pass
    assert 60.0 < report.leaves_in_s <= 121.0
    node.lifeline.dismiss(["run-1"])
    node.ended()


def test_a_metadata_service_that_fails_is_asked_again(tmp_path, started):
    node = started("sh", "-c", "exit 0")
    assert node.until(NodePhase.ENDED).node == "run-1"
    node.ended()
    services = Services()
    metadata = agent.Metadata(services.url)
    services.entries["instance-id"] = 500
    with pytest.raises(OSError, match="500"):
        metadata.get("instance-id")
    assert metadata.get("spot/instance-action") is None
    services.entries["instance-id"] = "i-2"
    services.tokens += 1
    assert metadata.get("instance-id")[0] == "i-2"
    services.shutdown()
    services.server_close()


def test_requests_are_signed_as_botocore_signs_them(monkeypatch):
    body, url = b'{"Name": "x"}', "https://ssm.us-east-1.amazonaws.com/"
    made = agent.signed(url, "us-east-1", "ssm", "AmazonSSM.GetParameter", body, KEYS, time.gmtime(1_790_000_000))
    headers = {name.lower(): value for name, value in made.header_items()}
    theirs = AWSRequest(
        method="POST",
        url=url,
        data=body,
        headers={
            "Content-Type": headers["content-type"],
            "X-Amz-Target": headers["x-amz-target"],
            "Host": headers["host"],
            "X-Amz-Date": headers["x-amz-date"],
            "X-Amz-Security-Token": "session",
        },
    )
    theirs.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials("AKIATEST", "shh", "session"), "ssm", "us-east-1")
    shown = signer.signature(signer.string_to_sign(theirs, signer.canonical_request(theirs)), theirs)
    assert headers["authorization"].endswith(f"Signature={shown}")
    assert "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target" in headers["authorization"]
