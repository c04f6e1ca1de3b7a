"""The driver's end of the lease: nodes report here, and a node that gets no proven answer for too long ends itself.

Both sides prove by HMAC-SHA256 that they hold the run's key. No clock of a node takes part: a report answers a
challenge of this server's, which is good for once and for a minute of its own monotonic clock, and the answer is proved
over a nonce of the node's. So a report cannot be replayed, an answer cannot be forged, and a node whose clock is wrong
lives on. A challenge carries its own seal, so that handing one out to a stranger leaves nothing behind here. What is
said is not encrypted, and is no secret.
"""

from __future__ import annotations

import hmac
import io
import json
import logging
import math
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Any

from rb_core.errors import LaunchFailure
from rb_core.providers.ec2.agent import proof

CHALLENGE_S = 60.0
"""A challenge is good for so long."""

ANSWER_S = 5.0
"""A connection on which nothing arrives for so long is closed."""

MOST_BYTES = 16_384
"""Largest report."""

MOST_CONNECTIONS = 64
"""Connections at a time; when one more comes, the oldest is closed: a node's lasts milliseconds."""

_logger = logging.getLogger(__name__)


class NodePhase(StrEnum):
    """How far a node is."""

    BOOTING = "booting"
    """It is up, and has not begun with its command or what prepares it."""
    SETUP = "setup"
    """Its setup commands run."""
    RUNNING = "running"
    """Its command runs."""
    ENDED = "ended"
    """Its command has ended or could not be started; the node shuts down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What a node says of itself.

    Attributes:
        node: its name.
        instance: id of the instance that it is.
        phase: how far it is.
        said: of a node that has ended, why, with the last lines of what ended.
        leaves_in_s: after how many seconds it is taken away; None while it has no notice of that.
        rebalance: whether it is told that this is more likely than usual.
    """

    node: str
    instance: str
    phase: NodePhase
    said: str = ""
    leaves_in_s: float | None = None
    rebalance: bool = False


class Lifeline:
    """A small server that renews the leases of a run's nodes.

    It takes any number of nodes with a bounded number of threads, bounded requests and bounded waits, whoever connects.

    Args:
        key: the run's secret, 32 bytes.
        hear: told each report, from a thread of the server's; it must return at once.
        host: address of this machine to listen on.
        port: where; 0 lets the system choose.

    Raises:
        LaunchFailure: it cannot listen there.
    """

    def __init__(self, key: bytes, hear: Callable[[NodeReport], None], host: str, port: int = 0) -> None:
        self._key = key
        self._hear = hear
        self._seal = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._dismissed: frozenset[str] = frozenset()
        try:
            self._server = _Server((host, port), self)
        except (OSError, OverflowError) as error:
            raise LaunchFailure(
                f"nodes cannot report to {host}:{port} ({error}); the address must be one of this machine's, which "
                "the nodes reach, and the port free"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="lifeline", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """``host:port`` where it listens."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def dismiss(self, nodes: Collection[str]) -> None:
        """Have these nodes shut themselves down when they report next; for when the cloud refuses to end them."""
        with self._lock:
            self._dismissed |= frozenset(nodes)

    def close(self) -> None:
        """Answer no more; no thread is left. Leases are not renewed from now on. Idempotent."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def challenge(self) -> str:
        """Something to prove oneself over, good for once."""
        drawn = f"{time.monotonic():.3f}-{secrets.token_hex(16)}"
        return f"{drawn}-{self._sealed(drawn)}"

    def answer(self, challenge: str, nonce: str, shown: str, body: bytes) -> tuple[bytes, str] | None:
        """The answer to a report and its proof; None where the report does not prove itself.

        Raises:
            ValueError: it does, but is none.
        """
        if not self._open(challenge):
            return None
        if not hmac.compare_digest(shown.encode(), proof(self._key, "node", challenge, nonce, body).encode()):
            return None
        if not self._use(challenge):
            return None
        report = _report(json.loads(body))
        self._hear(report)
        with self._lock:
            end = report.node in self._dismissed
        said = json.dumps({"challenge": self.challenge(), "end": end}).encode()
        return said, proof(self._key, "driver", challenge, nonce, said)

    def _open(self, challenge: str) -> bool:
        """Whether it is one of this server's, and not too old."""
        drawn, _, seal = challenge.rpartition("-")
        if not hmac.compare_digest(seal.encode(), self._sealed(drawn).encode()):
            return False
        return time.monotonic() < float(drawn.partition("-")[0]) + CHALLENGE_S

    def _use(self, challenge: str) -> bool:
        """Whether it had not been used yet; it is now. Only holders of the key get here, so what is kept is bounded."""
        now_s = time.monotonic()
        with self._lock:
            if challenge in self._used:
                return False
            while self._used and next(iter(self._used.values())) < now_s - CHALLENGE_S:
                del self._used[next(iter(self._used))]
            self._used[challenge] = now_s
            return True

    def _sealed(self, drawn: str) -> str:
        return hmac.digest(self._seal, drawn.encode(), "sha256").hex()


def _report(told: Any) -> NodeReport:
    """What a node told. Raises ValueError where it is no report."""
    try:
        leaves_in_s = told.get("leaves_in_s")
        if leaves_in_s is not None and not math.isfinite(leaves_in_s):
            raise ValueError("leaves_in_s must be finite")
        return NodeReport(
            node=str(told["node"]),
            instance=str(told["instance"]),
            phase=NodePhase(told["phase"]),
            said=str(told.get("said", "")),
            leaves_in_s=None if leaves_in_s is None else float(leaves_in_s),
            rebalance=told.get("rebalance") is True,
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a report: {error!r}") from None


class _Bounded(io.BufferedIOBase):
    """A stream that ends after so many bytes."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self._left = 2 * MOST_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        return self._take(self._stream.read(self._bound(size)))

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._take(self._stream.readline(self._bound(size)))

    def close(self) -> None:
        self._stream.close()

    def _bound(self, size: int | None) -> int:
        return self._left if size is None or size < 0 else min(size, self._left)

    def _take(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        return piece


class _Handler(BaseHTTPRequestHandler):
    """One report on one connection."""

    server: _Server
    timeout = ANSWER_S
    server_version = "rubberband"
    sys_version = ""

    def setup(self) -> None:
        """Read no more than so much, headers included."""
        super().setup()
        self.rfile = _Bounded(self.rfile)

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isascii() or not size.isdigit() or int(size[:9]) > MOST_BYTES:
            self._send(413, b"")
            return
        body = self.rfile.read(int(size))
        challenge, nonce, shown = (
            self.headers.get(f"X-Rubberband-{name}", "") for name in ("Challenge", "Nonce", "Proof")
        )
        lifeline = self.server.lifeline
        try:
            answer = lifeline.answer(challenge, nonce, shown, body)
        except ValueError as error:
            _logger.warning("a node's report was not understood: %s", error)
            self._send(400, b"")
            return
        if answer is None:
            self._send(401, json.dumps({"challenge": lifeline.challenge()}).encode())
        else:
            self._send(200, *answer)

    def log_message(self, format: str, *args: Any) -> None:
        _logger.debug(format, *args)

    def _send(self, status: int, body: bytes, shown: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Rubberband-Proof", shown)
        self.end_headers()
        self.wfile.write(body)


class _Server(socketserver.TCPServer):
    """Serves each connection in a thread, and no more than so many at a time."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], lifeline: Lifeline) -> None:
        self.lifeline = lifeline
        self._changed = threading.Condition()
        self._open: dict[socket.socket, threading.Thread] = {}
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve it in a thread of its own."""
        with self._changed:
            if len(self._open) >= MOST_CONNECTIONS:
                self._cut(next(iter(self._open)))
                if not self._changed.wait_for(lambda: len(self._open) < MOST_CONNECTIONS, ANSWER_S):
                    self.shutdown_request(request)
                    return
            thread = threading.Thread(target=self._serve, args=(request, client_address), name="lease", daemon=True)
            thread.start()
            self._open[request] = thread

    def server_close(self) -> None:
        """Close everything, and wait for the threads."""
        super().server_close()
        with self._changed:
            threads = list(self._open.values())
            for request in self._open:
                self._cut(request)
        for thread in threads:
            thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that failed concerns nobody else."""
        _logger.debug("a connection from %s failed", client_address, exc_info=True)

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)
            with self._changed:
                self._open.pop(request, None)
                self._changed.notify_all()

    @staticmethod
    def _cut(request: socket.socket) -> None:
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)
