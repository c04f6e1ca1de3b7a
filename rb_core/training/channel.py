"""The one small channel between a rank and the engine: reports go in, verdicts come out."""

from __future__ import annotations

import pickle
import select
import socket
from collections import deque
from typing import Protocol

from rb_core.training.frames import receive_frame, send_frame
from rb_core.trial import Message, Stop


class Channel(Protocol):
    """A rank's end. An adapter may send messages of its own and wait for answers of its own."""

    def send(self, message: Message) -> None:
        """Tell the engine. Of no effect when the engine is gone."""

    def ask(self, message: Message) -> Message:
        """Tell the engine and block until it answers.

        Raises:
            ConnectionError: the engine is gone.
        """

    def stop_requested(self) -> bool:
        """True from the moment in which the engine asked the trial to stop. Never blocks."""


class SocketChannel:
    """A channel over a socket. `Stop` may come at any time; every other message that comes is an answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers: deque[Message] = deque()
        self._stop = False
        self._open = True

    def send(self, message: Message) -> None:
        """Tell the engine."""
        try:
            send_frame(self._connection, pickle.dumps(message))
        except (BrokenPipeError, ConnectionResetError):
            self._open = False

    def ask(self, message: Message) -> Message:
        """Tell the engine and wait for its answer."""
        self.send(message)
        while not self._answers:
            if not self._open:
                raise ConnectionError("the engine is gone, so it cannot answer")
            self._take()
        return self._answers.popleft()

    def stop_requested(self) -> bool:
        """Whether a `Stop` has come."""
        while self._open and select.select([self._connection], [], [], 0)[0]:
            self._take()
        return self._stop

    def _take(self) -> None:
        try:
            message = pickle.loads(receive_frame(self._connection))
        except (EOFError, ConnectionResetError):
            self._open = False
            return
        if isinstance(message, Stop):
            self._stop = True
        else:
            self._answers.append(message)
