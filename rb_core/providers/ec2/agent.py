"""What a rented node runs beside its command: it keeps a lease with the driver, and ends the node when that is over.

It travels to the node as text, so it is one file of the standard library, for Python 3.8 and later::

    python3 agent.py PAYLOAD SHUTDOWN ARGUMENT...

PAYLOAD is a JSON file: ``region``, ``parameter`` (name of the entry with the run's secret), ``lease_s``,
``lifetime_s``, ``setup`` (commands for the shell) and ``nodes``, a list of ``[name, argv]`` in the order of the launch.
The rest is the command that shuts the node down. The entry holds JSON, too: ``key`` (hex), ``address`` (``host:port``
of the driver), ``env`` (variables for the command) and perhaps ``own`` (more of them, by the node's name).

All times are of the monotonic clock: a wall clock that is set neither ends a node nor keeps it.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from email.utils import parsedate
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

PAUSE_S = 5.0
"""Longest time between two renewals, and between two looks for a notice; AWS advises it for the latter."""

ANSWER_S = 5.0
"""A request that is not answered by then has failed."""

REREAD_S = 20.0
"""While no driver answers, the entry is read again after so long: one that was resumed has another address."""

PARTING_S = 10.0
"""So long a node tries to tell why it ends."""

GRACE_S = 10.0
"""A command that is told to end is killed after so long."""

TOLD_LINES, TOLD_CHARS = 8, 2000
FAILURES = (OSError, HTTPException, ValueError, KeyError, TypeError)
"""All that can go wrong on the way to a service and in what it answers."""

_direct = build_opener(ProxyHandler({}))
_outward = build_opener()


def proof(key: bytes, side: str, challenge: str, nonce: str, body: bytes) -> str:
    """What one side of the lifeline shows to the other: an HMAC-SHA256, in hex.

    Args:
        key: the run's secret.
        side: who shows it, ``node`` or ``driver``: what one sends cannot be sent back as the other's.
        challenge: chosen by the driver, good for once.
        nonce: chosen by the node, for this request.
        body: what is sent.
    """
    return hmac.new(key, "\n".join((side, challenge, nonce, "")).encode() + body, hashlib.sha256).hexdigest()


class Metadata:
    """The instance metadata service, version 2.

    Args:
        endpoint: where it answers.
    """

    def __init__(self, endpoint: str) -> None:
        self._latest = endpoint.rstrip("/") + "/latest/"
        self._token = ""
        self._lock = threading.Lock()

    def get(self, path: str) -> tuple[str, float] | None:
        """What it says under a path, and its own clock in seconds since 1970; None where it has nothing to say.

        Raises:
            OSError: it gives no answer, or another one than it should.
        """
        for _ in range(2):
            try:
                headers = {"X-aws-ec2-metadata-token": self._fresh_token()}
                with _direct.open(Request(self._latest + "meta-data/" + path, headers=headers), timeout=2) as answer:
                    dated = parsedate(answer.headers.get("Date", ""))
                    return answer.read().decode(), float(calendar.timegm(dated or time.gmtime()))
            except HTTPError as error:
                error.close()
                if error.code == 404:
                    return None
                if error.code != 401:
                    raise
                self._token = ""
        raise ConnectionError("the metadata service takes no token")

    def _fresh_token(self) -> str:
        with self._lock:
            if not self._token:
                asked = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
                request = Request(self._latest + "api/token", headers=asked, method="PUT")
                with _direct.open(request, timeout=2) as answer:
                    self._token = answer.read().decode()
            return self._token


def credentials(metadata: Metadata) -> dict[str, str]:
    """The keys that the node's role has at the moment. Raises as `Metadata.get`, or KeyError where it has no role."""
    folder = "iam/security-credentials/"
    role = metadata.get(folder)
    found = role and metadata.get(folder + role[0].split("\n")[0])
    if not found:
        raise KeyError("the node has no role: its instance profile is missing")
    keys: dict[str, str] = json.loads(found[0])
    return keys


def signed(url: str, region: str, service: str, target: str, body: bytes, keys: dict[str, str], now: Any) -> Request:
    """A POST to an AWS service with JSON in it, signed by version 4 of their signatures.

    Args:
        url: the service's endpoint, without a path.
        region: where it is.
        service: its short name.
        target: what it is asked for, for the header X-Amz-Target.
        body: the JSON.
        keys: AccessKeyId, SecretAccessKey and Token, as the metadata service has them.
        now: the time, UTC, as `time.gmtime` gives it.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", now)
    headers = {
        "content-type": "application/x-amz-json-1.1",
        "host": urlsplit(url).netloc,
        "x-amz-date": stamp,
        "x-amz-target": target,
    }
    if keys.get("Token"):
        headers["x-amz-security-token"] = keys["Token"]
    named = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join(("POST", "/", "", lines, named, hashlib.sha256(body).hexdigest()))
    scope = "/".join((stamp[:8], region, service, "aws4_request"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = ("AWS4" + keys["SecretAccessKey"]).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    shown = hmac.new(key, "\n".join(("AWS4-HMAC-SHA256", stamp, scope, digest)).encode(), hashlib.sha256).hexdigest()
    who = keys["AccessKeyId"]
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={who}/{scope}, SignedHeaders={named}, Signature={shown}"
    return Request(url, data=body, headers=headers, method="POST")


def read_entry(name: str, region: str, metadata: Metadata) -> dict[str, Any]:
    """What the run's entry in the parameter store holds. Raises one of `FAILURES`."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    own = os.environ.get("AWS_ENDPOINT_URL_SSM") or os.environ.get("AWS_ENDPOINT_URL")
    url = (own or f"https://ssm.{region}.{domain}").rstrip("/") + "/"
    body = json.dumps({"Name": name, "WithDecryption": True}).encode()
    request = signed(url, region, "ssm", "AmazonSSM.GetParameter", body, credentials(metadata), time.gmtime())
    try:
        with _outward.open(request, timeout=ANSWER_S) as answer:
            found: dict[str, Any] = json.loads(json.loads(answer.read())["Parameter"]["Value"])
            return found
    except HTTPError as error:
        with error:
            said = error.read(500).decode(errors="replace")
            raise OSError(f"{error}: {said}") from None


class Line:
    """The way to the driver.

    Args:
        address: ``host:port`` of its lifeline.
        key: the run's secret.
    """

    def __init__(self, address: str, key: bytes) -> None:
        self._url = f"http://{address}/"
        self._key = key
        self._challenge = ""

    def tell(self, report: dict[str, Any]) -> dict[str, Any]:
        """Tell the driver something: its answer, which nobody else can have given.

        Raises:
            OSError: nobody answers, or not the driver.
        """
        body = json.dumps(report).encode()
        for _ in range(2):
            nonce = secrets.token_hex(16)
            headers = {
                "X-Rubberband-Challenge": self._challenge,
                "X-Rubberband-Nonce": nonce,
                "X-Rubberband-Proof": proof(self._key, "node", self._challenge, nonce, body),
            }
            try:
                with _direct.open(Request(self._url, data=body, headers=headers), timeout=ANSWER_S) as answer:
                    said, shown = answer.read(65536), answer.headers.get("X-Rubberband-Proof", "")
                if not hmac.compare_digest(shown, proof(self._key, "driver", self._challenge, nonce, said)):
                    raise ConnectionError(f"who answers at {self._url} is not the driver")
                told: dict[str, Any] = json.loads(said)
                self._challenge = str(told["challenge"])
                return told
            except HTTPError as error:
                with error:
                    if error.code != 401:
                        raise
                    # The first time, and when the last answer is long ago.
                    self._challenge = str(json.loads(error.read(65536))["challenge"])
        raise ConnectionError(f"the driver at {self._url} does not take this node's proof")


class Command:
    """A running command in a session of its own; what it says goes into a file.

    Args:
        argv: program and arguments.
        env: all its variables.
        output: path of that file, which is appended to.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, argv: list[str], env: dict[str, str], output: str) -> None:
        self._output = output
        with open(output, "ab") as sink:
            self._from = sink.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
            )

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        return self._process.wait()

    def said(self) -> str:
        """The last lines of what it said."""
        with open(self._output, "rb") as output:
            end = output.seek(0, os.SEEK_END)
            output.seek(max(self._from, end - 4 * TOLD_CHARS))
            lines = [line for line in output.read().decode(errors="replace").splitlines() if line.strip()]
        return "\n".join(lines[-TOLD_LINES:])[-TOLD_CHARS:]

    def end(self) -> None:
        """End it and what it started: asked first, killed when the grace is over. Returns when it has ended."""
        for number, grace_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)


class Agent:
    """Everything that happens on the node until it is shut down.

    Args:
        payload: what the module's text says.
        folder: where output is kept.
        metadata: the node's metadata service.
    """

    def __init__(self, payload: dict[str, Any], folder: str, metadata: Metadata) -> None:
        self._payload = payload
        self._folder = folder
        self._metadata = metadata
        self._lease_s = float(payload["lease_s"])
        self._pace_s = min(PAUSE_S, self._lease_s / 4)
        self._began_s = self._renewed_s = time.monotonic()
        self._lock = threading.Lock()
        self._argv: list[str] = []
        self._report: dict[str, Any] = {"phase": "booting", "said": "", "rebalance": False}
        self._leaves_s: float | None = None
        self._secret: dict[str, Any] = {}
        self._command: Command | None = None
        self._known, self._entrusted = threading.Event(), threading.Event()
        self._news, self._heard, self._over = threading.Event(), threading.Event(), threading.Event()
        self._reason = ""

    def run(self) -> str:
        """Keep the node until its time is over, and end its command: why it is over."""
        for part in (self._work, self._renew, self._watch):
            threading.Thread(target=part, daemon=True).start()
        while not self._over.is_set():
            now_s = time.monotonic()
            lease_end_s = self._renewed_s + self._lease_s
            end_s = self._began_s + float(self._payload["lifetime_s"])
            if now_s >= lease_end_s:
                self._finish(f"its lease was not renewed for {self._lease_s:g} s")
            elif now_s >= end_s:
                self._finish("its lifetime is over")
            else:
                self._over.wait(min(lease_end_s, end_s) - now_s)
        with self._lock:
            command = self._command
        if command is not None:
            command.end()
        return self._reason

    def _finish(self, reason: str) -> None:
        with self._lock:
            self._reason = self._reason or reason
            self._over.set()

    def _say(self, **values: Any) -> None:
        """Change what is told, and have it told at once."""
        with self._lock:
            self._report.update(values)
        self._news.set()

    def _work(self) -> None:
        """Find out which node this is, prepare it, and run its command to the end."""
        try:
            said = self._identify() or self._prepare() or self._serve()
        except Exception as error:
            said = f"the agent failed: {error!r}"
        self._say(phase="ended", said=said)
        self._heard.wait(PARTING_S)
        self._finish(said)

    def _identify(self) -> str:
        """Learn name and id; why that is no use, or nothing."""
        while True:
            try:
                index, instance = self._metadata.get("ami-launch-index"), self._metadata.get("instance-id")
                if index is not None and instance is not None:
                    break
                log("the metadata service does not know this node")
            except FAILURES as error:
                log(f"asking the metadata service: {error}")
            self._over.wait(min(1.0, self._pace_s))
        nodes = self._payload["nodes"]
        number = int(index[0])
        if not 0 <= number < len(nodes):
            return f"its launch index is {number}, and {len(nodes)} node(s) were requested"
        name, self._argv = nodes[number]
        self._say(node=name, instance=instance[0])
        self._known.set()
        return ""

    def _prepare(self) -> str:
        """Run the setup commands; why one failed, or nothing."""
        for number, line in enumerate(self._payload["setup"]):
            self._say(phase="setup")
            status, said = self._run(["/bin/sh", "-c", line], dict(os.environ), "setup.log")
            if status:
                return f"setup[{number}] ({line[:200]}) ended with status {status}: {said}"
        return ""

    def _serve(self) -> str:
        """Run the command; what it said last."""
        self._entrusted.wait()
        if not self._argv:
            self._say(phase="running")
            self._over.wait()
            return ""
        own = self._secret.get("own", {}).get(self._report["node"], {})
        env = {"HOME": "/root", "TMPDIR": self._folder, **os.environ, **self._secret.get("env", {}), **own}
        self._say(phase="running")
        try:
            status, said = self._run(list(self._argv), env, "command.log")
        except OSError as error:
            return f"its command cannot be started: {error}"
        return f"its command ended with status {status}: {said}"

    def _run(self, argv: list[str], env: dict[str, str], output: str) -> tuple[int, str]:
        with self._lock:
            if self._over.is_set():
                return 0, ""
            command = self._command = Command(argv, env, os.path.join(self._folder, output))
        status = command.wait()
        return status, command.said()

    def _renew(self) -> None:
        """Renew the lease, again and again."""
        self._known.wait()
        line: Line | None = None
        read_s = 0.0
        while not self._over.is_set():
            self._news.clear()
            try:
                if line is None:
                    line, read_s = self._connect(), time.monotonic()
                self._tell(line)
            except FAILURES as error:
                log(f"renewing the lease: {error}")
                if time.monotonic() >= read_s + min(REREAD_S, self._lease_s / 4):
                    line = None
                self._over.wait(min(1.0, self._pace_s))
                continue
            self._news.wait(self._pace_s)

    def _connect(self) -> Line:
        self._secret = read_entry(self._payload["parameter"], self._payload["region"], self._metadata)
        line = Line(self._secret["address"], bytes.fromhex(self._secret["key"]))
        self._entrusted.set()
        return line

    def _tell(self, line: Line) -> None:
        with self._lock:
            report = dict(self._report)
            if self._leaves_s is not None:
                report["leaves_in_s"] = max(0.0, self._leaves_s - time.monotonic())
        answer = line.tell(report)
        self._renewed_s = time.monotonic()
        if report["phase"] == "ended":
            self._heard.set()
        if answer.get("end"):
            self._finish("the driver has given it back")

    def _watch(self) -> None:
        """Look for a notice that the node is taken away, again and again."""
        while not self._over.wait(self._pace_s):
            with suppress(*FAILURES):
                notice = self._metadata.get("spot/instance-action")
                leaves_s = None
                if notice is not None:
                    at_s = calendar.timegm(time.strptime(json.loads(notice[0])["time"], "%Y-%m-%dT%H:%M:%SZ"))
                    leaves_s = time.monotonic() + at_s - notice[1]
                with self._lock:
                    news = (leaves_s is None) != (self._leaves_s is None)
                    self._leaves_s = leaves_s
                rebalance = self._metadata.get("events/recommendations/rebalance") is not None
                if news or rebalance != self._report["rebalance"]:
                    self._say(rebalance=rebalance)


def log(text: str) -> None:
    """Write a line of the agent's own log, which the script that started it keeps."""
    sys.stdout.write(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) + text + "\n")
    sys.stdout.flush()


def main(payload_path: str, *shutdown: str) -> None:
    """Keep the node, then shut it down; tried again for as long as that fails."""
    endpoint = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or "http://169.254.169.254"
    with open(payload_path, encoding="utf-8") as file:
        payload = json.load(file)
    reason = Agent(payload, os.path.dirname(os.path.abspath(payload_path)), Metadata(endpoint)).run()
    log(f"this node ends: {reason}")
    while True:
        try:
            if subprocess.call(shutdown, stdin=subprocess.DEVNULL) == 0:
                return
        except OSError as error:
            log(f"shutting down: {error}")
        threading.Event().wait(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
