"""S3 on loopback: moto's server as a child process, and a proxy before it that fails as it is told to."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import boto3

_PROGRAM = """
import os, sys
from rb_core.launchers import linux
linux.die_with(int(sys.argv[1]))
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "somebody",
    "AWS_SECRET_ACCESS_KEY": "a secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

_ANSWER = (
    "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
)
_DENIED = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
ANSWERS = {
    "denied": _ANSWER.format(status="403 Forbidden", length=len(_DENIED), body=_DENIED),
    "busy": _ANSWER.format(status="503 Slow Down", length=0, body=""),
    "moved": _ANSWER.format(status="301 Moved Permanently", length=0, body=""),
}


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server, seen without the code under test."""

    endpoint: str
    name: str = "bucket"

    def below(self, uri: str) -> list[str]:
        """The objects below an address, without the empty ones that stand for folders."""
        prefix = uri.removeprefix(f"s3://{self.name}/")
        found = self._client.list_objects_v2(Bucket=self.name, Prefix=prefix).get("Contents", [])
        return [each["Key"] for each in found if not each["Key"].endswith("/")]

    def put(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def read(self, key: str) -> bytes:
        content: bytes = self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def make(self) -> None:
        self._client.create_bucket(Bucket=self.name)

    def remove(self) -> None:
        for key in self._client.list_objects_v2(Bucket=self.name).get("Contents", []):
            self._client.delete_object(Bucket=self.name, Key=key["Key"])
        self._client.delete_bucket(Bucket=self.name)

    @property
    def _client(self):
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=CREDENTIALS["AWS_REGION"],
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )


@contextmanager
def s3_server() -> Iterator[str]:
    """Its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(os.getpid())], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@dataclass
class Proxy:
    """Passes everything on to a server, until it is told to do something else.

    Attributes:
        fault: what becomes of a request: ``""`` (passed on), ``hang``, ``drop``, or a key of `ANSWERS`.
        left: how many requests are to fare so; None for all.
        spare: requests that begin like this are passed on all the same.
        seen: the first line of each request.
    """

    target: int
    fault: str = ""
    left: int | None = None
    spare: tuple[str, ...] = ()
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                self._open += [client, server]
                for one, other, inspect in ((client, server, True), (server, client, False)):
                    thread = threading.Thread(target=self._pass, args=(one, other, inspect))
                    self._threads.append(thread)
                    thread.start()

    def _pass(self, source: socket.socket, sink: socket.socket, inspect: bool) -> None:
        silent = False
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                line = piece.split(b"\r\n", 1)[0].decode(errors="replace")
                fault = ""
                if inspect and line.endswith("HTTP/1.1"):
                    self.seen.append(line)
                    fault = self._fault(line)
                if fault == "drop":
                    break
                silent = silent or fault == "hang"
                if fault in ANSWERS:
                    source.sendall(ANSWERS[fault].encode())
                    break
                if not silent:
                    sink.sendall(piece)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _fault(self, line: str) -> str:
        with self._lock:
            if not self.fault or (self.spare and line.startswith(self.spare)) or self.left == 0:
                return ""
            if self.left is not None:
                self.left -= 1
            return self.fault
