"""Length-prefixed frames over a stream socket: how processes of one machine talk to each other here."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

_HEADER = struct.Struct("!Q")
MAX_DESCRIPTORS = 250
"""Most file descriptors sent with one frame (Linux passes at most 253 with one message)."""


def pack(payload: bytes) -> bytes:
    """The payload as it goes over the wire."""
    return _HEADER.pack(len(payload)) + payload


def send_frame(to: socket.socket, payload: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send one frame, with open file descriptors beside it. Blocks until the system has taken all of it."""
    if descriptors:
        socket.send_fds(to, [_HEADER.pack(len(payload))], descriptors)
        to.sendall(payload)
    else:
        to.sendall(pack(payload))


def receive_frame(source: socket.socket) -> bytes:
    """Block until one whole frame has come.

    Raises:
        EOFError: the other side is closed.
    """
    return _exactly(source, _HEADER.unpack(_exactly(source, _HEADER.size))[0])


def receive_frame_with_descriptors(source: socket.socket) -> tuple[bytes, list[int]]:
    """As `receive_frame`, with the file descriptors that came beside it; they are the caller's to close.

    Raises:
        EOFError: the other side is closed.
    """
    header, descriptors, _, _ = socket.recv_fds(source, _HEADER.size, MAX_DESCRIPTORS)
    if not header:
        raise EOFError("the other side is closed")
    header += _exactly(source, _HEADER.size - len(header))
    return _exactly(source, _HEADER.unpack(header)[0]), list(descriptors)


class FrameReader:
    """Puts frames together from pieces as they come, for sockets that must not block."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes, in order."""
        self._pending += data
        frames = []
        while len(self._pending) >= _HEADER.size:
            end = _HEADER.size + _HEADER.unpack_from(self._pending)[0]
            if len(self._pending) < end:
                break
            frames.append(bytes(self._pending[_HEADER.size : end]))
            del self._pending[:end]
        return frames


def _exactly(source: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    view, filled = memoryview(data), 0
    while filled < count:
        received = source.recv_into(view[filled:])
        if not received:
            raise EOFError("the other side is closed")
        filled += received
    return bytes(data)
