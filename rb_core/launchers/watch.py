"""The launching program's side of one started trial: a thread that turns what its processes say into notices."""

from __future__ import annotations

import pickle
import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from rb_core.errors import FailureKind, TrialFailure
from rb_core.launchers.order import Ended, Failure, Kill
from rb_core.ports import Inbox, TrialExit, TrialNotice
from rb_core.training.frames import FrameReader, pack
from rb_core.trial import Message, Stop

_DRAIN_S = 10.0
"""Longest wait for the last messages of processes that are gone."""


class _Line:
    """One socket that is read and written without blocking."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.frames = FrameReader()
        self.pending: deque[memoryview] = deque()
        self.open = True

    def write(self) -> None:
        while self.pending and self.open:
            try:
                sent = self.connection.send(self.pending[0])
            except BlockingIOError:
                return
            except OSError:
                self.pending.clear()
                return
            self.pending[0] = self.pending[0][sent:]
            if not self.pending[0]:
                self.pending.popleft()

    def read(self) -> list[bytes]:
        try:
            data = self.connection.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.open = bool(data)
        return self.frames.feed(data)


class WatchedTrial:
    """A `TrialHandle` with a thread of its own, which alone touches the sockets.

    Args:
        trial: number of the trial.
        control: the line to its warden.
        channels: the lines to its ranks.
        inbox: where notices go.
    """

    def __init__(self, trial: int, control: socket.socket, channels: Sequence[socket.socket], inbox: Inbox) -> None:
        self.trial = trial
        self._control = _Line(control)
        self._channels = [_Line(channel) for channel in channels]
        self._inbox = inbox
        self._requests: queue.SimpleQueue[tuple[int, bytes] | float | str] = queue.SimpleQueue()
        self._bell, self._ear = socket.socketpair()
        self._ended: Ended | None = None
        self._force_at_s: float | None = None
        self._grace_s = 0.0
        self._killed = False
        for connection in (control, *channels, self._ear, self._bell):
            connection.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=f"trial-{trial}", daemon=True)
        self._thread.start()

    def send(self, rank: int, message: Message) -> None:
        """Tell one rank."""
        self._request((rank, pickle.dumps(message)))

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask the trial to end; kill it after the grace."""
        self._request(grace_s)

    def kill(self) -> None:
        """End all its processes."""
        self._request("killed on request")

    def is_over(self) -> bool:
        """Whether its `TrialExit` has been put."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Block until its `TrialExit` has been put."""
        self._thread.join()

    def _request(self, request: tuple[int, bytes] | float | str) -> None:
        self._requests.put(request)
        with suppress(OSError):
            self._bell.send(b".")

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for line in (self._control, *self._channels):
                selector.register(line.connection, selectors.EVENT_READ, line)
            selector.register(self._ear, selectors.EVENT_READ, None)
            while self._control.open and self._ended is None:
                self._turn(selector, self._until_force_s())
                if self._force_at_s is not None and time.monotonic() >= self._force_at_s:
                    self._kill(f"killed: it did not end within {self._grace_s:g} s after it was asked to stop")
            deadline_s = time.monotonic() + _DRAIN_S
            while any(c.open for c in self._channels) and time.monotonic() < deadline_s:
                self._turn(selector, deadline_s - time.monotonic())
        for connection in (self._bell, self._ear, *(line.connection for line in (self._control, *self._channels))):
            connection.close()
        self._inbox.put(TrialExit(trial=self.trial, failure=self._failure()))

    def _until_force_s(self) -> float | None:
        return None if self._force_at_s is None else max(0.0, self._force_at_s - time.monotonic())

    def _turn(self, selector: selectors.BaseSelector, wait_s: float | None) -> None:
        for line in (self._control, *self._channels):
            line.write()
            if line.open:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.pending else 0)
                selector.modify(line.connection, wanted, line)
        for key, events in selector.select(wait_s):
            source: _Line | None = key.data
            if source is None:
                with suppress(BlockingIOError):
                    self._ear.recv(4096)
                self._serve_requests()
                continue
            if events & selectors.EVENT_READ:
                for frame in source.read():
                    self._take(source, frame)
            if not source.open:
                selector.unregister(source.connection)

    def _serve_requests(self) -> None:
        with suppress(queue.Empty):
            while True:
                request = self._requests.get_nowait()
                if isinstance(request, str):
                    self._kill(request)
                elif isinstance(request, tuple):
                    rank, frame = request
                    if 0 <= rank < len(self._channels):
                        self._channels[rank].pending.append(memoryview(pack(frame)))
                elif self._force_at_s is None:
                    self._grace_s = request
                    self._force_at_s = time.monotonic() + request
                    self._channels[0].pending.append(memoryview(pack(pickle.dumps(Stop()))))

    def _take(self, line: _Line, frame: bytes) -> None:
        if line is self._control:
            self._ended = pickle.loads(frame)
            return
        rank = self._channels.index(line)
        try:
            message = pickle.loads(frame)
        except Exception as error:
            self._kill(
                f"rank {rank} sent a message that cannot be read here: {type(error).__name__}: {error}",
                FailureKind.RAISED,
            )
            return
        self._inbox.put(TrialNotice(trial=self.trial, rank=rank, message=message))

    def _kill(self, reason: str, kind: FailureKind = FailureKind.DIED) -> None:
        self._force_at_s = None
        if not self._killed:
            self._killed = True
            self._control.pending.append(memoryview(pack(pickle.dumps(Kill(reason=reason, kind=kind)))))

    def _failure(self) -> TrialFailure | None:
        lost = Failure(rank=0, cause="the process that guarded its ranks was killed", kind=FailureKind.DIED)
        failure = lost if self._ended is None else self._ended.failure
        if failure is None:
            return None
        return TrialFailure(
            trial=self.trial,
            rank=failure.rank,
            cause=failure.cause,
            kind=failure.kind,
            traceback=failure.traceback,
            output_tail=failure.output_tail,
        )
