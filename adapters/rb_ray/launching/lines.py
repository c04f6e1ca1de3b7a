"""TCP connections between a launcher and its hosts, and between hosts, on which both sides have proved who they are.

Whoever listens hands out a ticket for each connection that it expects, through Ray, whose calls need the cluster's
token. Both sides then prove by HMAC-SHA256 over fresh nonces that they hold the ticket, which is good for once. What
follows is in plain text, as is what Ray itself sends without TLS.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rb_core.errors import LaunchFailure

HANDSHAKE_S = 10.0
"""A connection whose other side has not proved itself by then is closed."""

_MOST_AT_A_TIME = 128
_NUMBER, _NONCE, _PROOF = 16, 32, 32
_LISTENS, _DIALS = b"listens", b"dials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Good for one connection.

    Attributes:
        host: address of whoever listens.
        port: where.
        number: which ticket this is.
        secret: what only the two sides know.
    """

    host: str
    port: int
    number: bytes
    secret: bytes = field(repr=False)

    def proof(self, side: bytes, nonces: bytes) -> bytes:
        """What one side shows to the other."""
        return hmac.digest(self.secret, side + self.number + nonces, "sha256")


class Listener:
    """Takes the connections of those who hold tickets; all others are closed.

    Args:
        host: the address of this machine to listen on; the port is the system's choice.
    """

    def __init__(self, host: str) -> None:
        self._socket = socket.create_server((host, 0), backlog=_MOST_AT_A_TIME)
        self._host, self._port = self._socket.getsockname()[:2]
        self._changed = threading.Condition()
        self._expected: dict[bytes, Ticket] = {}
        self._arrived: dict[bytes, socket.socket] = {}
        self._room = threading.BoundedSemaphore(_MOST_AT_A_TIME)
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="lines", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._port)

    def offer(self, count: int) -> list[Ticket]:
        """New tickets."""
        tickets = [
            Ticket(
                host=self._host, port=self._port, number=secrets.token_bytes(_NUMBER), secret=secrets.token_bytes(32)
            )
            for _ in range(count)
        ]
        with self._changed:
            self._expected |= {ticket.number: ticket for ticket in tickets}
        return tickets

    def wait(self, tickets: Sequence[Ticket], timeout_s: float) -> bool:
        """Whether the connections of all these tickets have come by then."""
        with self._changed:
            return self._changed.wait_for(lambda: all(t.number in self._arrived for t in tickets), timeout_s)

    def take(self, tickets: Sequence[Ticket]) -> list[socket.socket | None]:
        """The connections of these tickets, None for those that have not come, which now never will."""
        with self._changed:
            for ticket in tickets:
                self._expected.pop(ticket.number, None)
            return [self._arrived.pop(ticket.number, None) for ticket in tickets]

    def close(self) -> None:
        """Take no more, and close what nobody has taken. Idempotent."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        self._thread.join()
        with self._changed:
            self._expected.clear()
            for connection in self._arrived.values():
                connection.close()
            self._arrived.clear()

    def _accept(self) -> None:
        while not self._closed:
            self._room.acquire()
            try:
                connection, _ = self._socket.accept()
            except OSError:
                self._room.release()
                threading.Event().wait(0 if self._closed else 0.05)  # such as when there are too many open files
                continue
            threading.Thread(target=self._greet, args=(connection,), name="line", daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        try:
            ticket = self._check(connection)
            if ticket is not None:
                _make_steady(connection)
                with self._changed:
                    if self._expected.pop(ticket.number, None) is not None and not self._closed:
                        self._arrived[ticket.number] = connection
                        self._changed.notify_all()
                        return
        except (OSError, EOFError):
            pass
        finally:
            self._room.release()
        connection.close()

    def _check(self, connection: socket.socket) -> Ticket | None:
        until_s = time.monotonic() + HANDSHAKE_S
        hello = _receive(connection, _NUMBER + _NONCE, until_s)
        with self._changed:
            ticket = self._expected.get(hello[:_NUMBER])
        if ticket is None:
            return None
        nonces = hello[_NUMBER:] + secrets.token_bytes(_NONCE)
        connection.sendall(nonces[_NONCE:] + ticket.proof(_LISTENS, nonces))
        shown = _receive(connection, _PROOF, until_s)
        return ticket if hmac.compare_digest(shown, ticket.proof(_DIALS, nonces)) else None


def dial(ticket: Ticket) -> socket.socket:
    """Open the connection that a ticket is for.

    Raises:
        LaunchFailure: nobody answers there, or whoever does is not the one who made the ticket.
    """
    place = f"{ticket.host}:{ticket.port}"
    until_s = time.monotonic() + HANDSHAKE_S
    try:
        connection = socket.create_connection((ticket.host, ticket.port), HANDSHAKE_S)
    except OSError as error:
        raise LaunchFailure(
            f"no connection to {place} ({error}); the machines of a run must reach each other on every port"
        ) from error
    try:
        nonce = secrets.token_bytes(_NONCE)
        connection.sendall(ticket.number + nonce)
        answer = _receive(connection, _NONCE + _PROOF, until_s)
        nonces = nonce + answer[:_NONCE]
        if not hmac.compare_digest(answer[_NONCE:], ticket.proof(_LISTENS, nonces)):
            raise LaunchFailure(f"whoever answers at {place} does not know the secret of this run")
        connection.sendall(ticket.proof(_DIALS, nonces))
        _make_steady(connection)
    except (OSError, EOFError) as error:
        connection.close()
        raise LaunchFailure(f"the connection to {place} was not accepted: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _make_steady(connection: socket.socket) -> None:
    """Small messages go at once, and a machine that is gone is noticed in half a minute."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def _receive(connection: socket.socket, count: int, until_s: float) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(max(0.001, until_s - time.monotonic()))
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError("it was closed")
        data += piece
    return data
