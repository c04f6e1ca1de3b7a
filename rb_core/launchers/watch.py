"""The launching program's side of one started trial: what its processes say becomes notices, and all of them end."""

from __future__ import annotations

import pickle
import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rb_core.errors import FailureKind, TrialFailure
from rb_core.launchers.order import Ended, Failure, Kill
from rb_core.launchers.warden import PATIENCE_S
from rb_core.ports import Inbox, TrialExit, TrialNotice
from rb_core.training.frames import FrameReader, pack
from rb_core.trial import Message, Stop

_DRAIN_S = 10.0
"""Longest wait for the last messages of processes that are gone."""

_DRAIN_OF_LOST_S = 0.5
"""The same where a machine may be gone, whose sockets then never close."""


class _Line:
    """One socket that is read and written without blocking."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A message for one rank."""

    rank: int
    message: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stopped:
    """The trial is to end by itself until `until_s` of the monotonic clock."""

    grace_s: float
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Killed:
    """Every process is to end."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lost:
    """Nothing more is to be expected of the warden that guards a rank."""

    failure: Failure


class Watch:
    """Follows one start of a trial. Any thread may ask something of it; `run` alone touches the sockets.

    Where ranks are on several machines, each machine's warden tells of its own, and blame is found among what they
    tell as a warden finds it among its ranks: a rank that only lost a peer waits for a better cause. One failure is
    the end of all.

    Args:
        trial: number of the trial.
        inbox: where its messages go.
        farewell_s: longest wait for wardens that were told to end; None where they are processes of this machine,
            which always come to it.
    """

    def __init__(self, trial: int, inbox: Inbox, *, farewell_s: float | None = None) -> None:
        self.trial = trial
        self._inbox = inbox
        self._farewell_s = farewell_s
        self._requests: queue.SimpleQueue[_Told | _Stopped | _Killed | _Lost] = queue.SimpleQueue()
        self._bell, self._ear = socket.socketpair()
        self._wardens: dict[int, _Line] = {}
        self._channels: list[_Line] = []
        self._awaited: set[int] = set()
        self._failures: list[Failure] = []
        self._blamed: Failure | None = None
        self._blame_at_s: float | None = None
        self._stop: _Stopped | None = None
        self._kill: Kill | None = None
        self._give_up_at_s: float | None = None
        self._drain_s = _DRAIN_S
        for connection in (self._ear, self._bell):
            connection.setblocking(False)

    def send(self, rank: int, message: Message) -> None:
        """Tell one rank."""
        self._request(_Told(rank=rank, message=pickle.dumps(message)))

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask the trial to end; kill it after the grace."""
        self._request(_Stopped(grace_s=grace_s, until_s=time.monotonic() + grace_s))

    def kill(self, reason: str = "killed on request") -> None:
        """End all its processes."""
        self._request(_Killed(reason=reason))

    def lose(self, failure: Failure) -> None:
        """A warden is gone, as is known in another way than by its line; of no effect when it is over already.

        Args:
            failure: what the start's failure will be, unless another cause came before; its rank is the lowest one of
                that warden.
        """
        self._request(_Lost(failure=failure))

    def run(
        self,
        wardens: Mapping[int, socket.socket],
        channels: Sequence[socket.socket],
        *,
        failure: Failure | None = None,
    ) -> TrialFailure | None:
        """Follow it to its end; the sockets are closed then.

        Args:
            wardens: lines to the wardens, by the lowest rank of each.
            channels: lines to the ranks, in their order.
            failure: why the start has failed already, with other parts of it, so that it is only to be ended.

        Returns:
            What went wrong with it, if anything.
        """
        self._wardens = {rank: _Line(connection) for rank, connection in wardens.items()}
        self._channels = [_Line(connection) for connection in channels]
        self._awaited = set(self._wardens)
        self._fail(failure)
        with selectors.DefaultSelector() as selector:
            for line in self._lines():
                selector.register(line.connection, selectors.EVENT_READ, line)
            selector.register(self._ear, selectors.EVENT_READ, None)
            while self._awaited:
                self._turn(selector, self._wait_s())
                self._look_at_the_time()
            deadline_s = time.monotonic() + self._drain_s
            while any(c.open for c in self._channels) and time.monotonic() < deadline_s:
                self._turn(selector, deadline_s - time.monotonic())
        for line in self._lines():
            line.connection.close()
        self.close()
        return self._failure()

    def close(self) -> None:
        """Let go of what it holds. `run` does so by itself."""
        self._bell.close()
        self._ear.close()

    def _lines(self) -> tuple[_Line, ...]:
        return (*self._wardens.values(), *self._channels)

    def _request(self, request: _Told | _Stopped | _Killed | _Lost) -> None:
        self._requests.put(request)
        with suppress(OSError):
            self._bell.send(b".")

    def _wait_s(self) -> float | None:
        stop_s = None if self._stop is None else self._stop.until_s
        until_s = (stop_s, self._blame_at_s, self._give_up_at_s)
        due_s = min((at_s for at_s in until_s if at_s is not None), default=None)
        return None if due_s is None else max(0.0, due_s - time.monotonic())

    def _look_at_the_time(self) -> None:
        now_s = time.monotonic()
        if self._stop is not None and now_s >= self._stop.until_s:
            self._end(f"killed: it did not end within {self._stop.grace_s:g} s after it was asked to stop")
        if self._blame_at_s is not None and now_s >= self._blame_at_s:
            self._blame()
        if self._give_up_at_s is not None and now_s >= self._give_up_at_s:
            cause = f"{self._kill.reason if self._kill else ''}; its machine did not answer in {self._farewell_s:g} s"
            for rank in sorted(self._awaited):
                self._lose(Failure(rank=rank, cause=cause, kind=FailureKind.DIED))

    def _turn(self, selector: selectors.BaseSelector, wait_s: float | None) -> None:
        for line in self._lines():
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
                self._closed(source)

    def _serve_requests(self) -> None:
        with suppress(queue.Empty):
            while True:
                match self._requests.get_nowait():
                    case _Killed(reason=reason):
                        self._end(reason)
                    case _Told(rank=rank, message=message):
                        if 0 <= rank < len(self._channels):
                            self._channels[rank].pending.append(memoryview(pack(message)))
                    case _Lost(failure=failure):
                        self._lose(failure)
                    case _Stopped() as stop:
                        self._ask_to_stop(stop)

    def _ask_to_stop(self, stop: _Stopped) -> None:
        if self._stop is None and self._kill is None:
            self._stop = stop
            if self._channels:
                self._channels[0].pending.append(memoryview(pack(pickle.dumps(Stop()))))

    def _take(self, line: _Line, frame: bytes) -> None:
        for rank, warden in self._wardens.items():
            if line is warden:
                ended: Ended = pickle.loads(frame)
                self._awaited.discard(rank)
                self._fail(ended.failure)
                return
        rank = self._channels.index(line)
        try:
            message = pickle.loads(frame)
        except Exception as error:
            self._end(
                f"rank {rank} sent a message that cannot be read here: {type(error).__name__}: {error}",
                FailureKind.RAISED,
            )
            return
        self._inbox.put(TrialNotice(trial=self.trial, rank=rank, message=message))

    def _closed(self, line: _Line) -> None:
        for rank, warden in self._wardens.items():
            if line is warden and rank in self._awaited:
                self._awaited.discard(rank)
                cause = "the process that guarded its ranks was killed"
                self._fail(Failure(rank=rank, cause=cause, kind=FailureKind.DIED))

    def _lose(self, failure: Failure) -> None:
        if failure.rank in self._awaited:
            self._awaited.discard(failure.rank)
            self._drain_s = _DRAIN_OF_LOST_S
            self._fail(failure)

    def _fail(self, failure: Failure | None) -> None:
        if failure is None or self._blamed is not None:
            return
        self._failures.append(failure)
        if not failure.lost_peer:
            self._blame()
        elif self._blame_at_s is None:
            self._blame_at_s = time.monotonic() + PATIENCE_S

    def _blame(self) -> None:
        self._blame_at_s = None
        self._blamed = min(self._failures, key=lambda failure: failure.lost_peer)
        if self._awaited:
            self._end(f"rank {self._blamed.rank} failed")

    def _end(self, reason: str, kind: FailureKind = FailureKind.DIED) -> None:
        self._stop = None
        if self._kill is None:
            self._kill = Kill(reason=reason, kind=kind)
            for rank in self._awaited:
                self._wardens[rank].pending.append(memoryview(pack(pickle.dumps(self._kill))))
            if self._farewell_s is not None:
                self._give_up_at_s = time.monotonic() + self._farewell_s

    def _failure(self) -> TrialFailure | None:
        failure = self._blamed or min(self._failures, key=lambda failure: failure.lost_peer, default=None)
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


class WatchedTrial:
    """A `TrialHandle` of a trial under one warden, with a thread that watches it.

    Args:
        trial: number of the trial.
        control: the line to its warden.
        channels: the lines to its ranks.
        inbox: where notices go.
    """

    def __init__(self, trial: int, control: socket.socket, channels: Sequence[socket.socket], inbox: Inbox) -> None:
        self.trial = trial
        self._inbox = inbox
        self._watch = Watch(trial, inbox)
        self._thread = threading.Thread(target=self._run, args=(control, channels), name=f"trial-{trial}", daemon=True)
        self._thread.start()

    def send(self, rank: int, message: Message) -> None:
        """Tell one rank."""
        self._watch.send(rank, message)

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask the trial to end; kill it after the grace."""
        self._watch.stop(grace_s)

    def kill(self) -> None:
        """End all its processes."""
        self._watch.kill()

    def is_over(self) -> bool:
        """Whether its `TrialExit` has been put."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Block until its `TrialExit` has been put."""
        self._thread.join()

    def _run(self, control: socket.socket, channels: Sequence[socket.socket]) -> None:
        self._inbox.put(TrialExit(trial=self.trial, failure=self._watch.run({0: control}, channels)))
