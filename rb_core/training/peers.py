"""How the ranks of one trial agree on small things, without any framework's process group."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Sequence
from typing import Any, Protocol

from rb_core.errors import TrialMisuse
from rb_core.training.frames import receive_frame, send_frame


class PeerLost(ConnectionError):
    """Another rank of the trial is gone; its own failure is the true cause."""


_LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "Timed out waiting")
"""What gloo and nccl say in their RuntimeErrors when another rank is gone."""


def looks_like_lost_peer(error: BaseException) -> bool:
    """Whether an error of a rank, of several, is what it looks like when another one is gone."""
    if isinstance(error, ConnectionError) or type(error).__name__.startswith("Dist"):
        return True
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in _LOST_PEER)


class Peers(Protocol):
    """All ranks call the same methods with the same `occasion` in the same order."""

    def broadcast(self, occasion: str, value: Any) -> Any:
        """Rank 0's value, on every rank. Rank 0 does not wait for the others.

        Raises:
            PeerLost: a rank is gone.
            TrialMisuse: the ranks are not at the same occasion.
        """

    def gather(self, occasion: str, value: Any) -> list[Any] | None:
        """Every rank's value in the order of ranks on rank 0, which waits for them; None elsewhere.

        Raises:
            PeerLost: a rank is gone.
            TrialMisuse: the ranks are not at the same occasion.
        """


class Alone:
    """The peers of a trial of one process."""

    def broadcast(self, occasion: str, value: Any) -> Any:
        """The value itself."""
        return value

    def gather(self, occasion: str, value: Any) -> list[Any] | None:
        """The one value."""
        return [value]


class SocketPeers:
    """A star of sockets around rank 0.

    Args:
        rank: which rank this is.
        sockets: on rank 0 one to each other rank, in the order of ranks; elsewhere the one to rank 0.
    """

    def __init__(self, rank: int, sockets: Sequence[socket.socket]) -> None:
        self._rank = rank
        self._sockets = tuple(sockets)

    def broadcast(self, occasion: str, value: Any) -> Any:
        """Rank 0's value."""
        if self._rank:
            return self._receive(0, self._sockets[0], occasion)
        for other in self._sockets:
            self._send(other, occasion, value)
        return value

    def gather(self, occasion: str, value: Any) -> list[Any] | None:
        """Every rank's value on rank 0."""
        if self._rank:
            self._send(self._sockets[0], occasion, value)
            return None
        return [value, *(self._receive(r, other, occasion) for r, other in enumerate(self._sockets, start=1))]

    def _send(self, to: socket.socket, occasion: str, value: Any) -> None:
        try:
            send_frame(to, pickle.dumps((occasion, value)))
        except OSError as error:
            raise PeerLost(f"another rank is gone: {error}") from None

    def _receive(self, rank: int, source: socket.socket, occasion: str) -> Any:
        try:
            theirs, value = pickle.loads(receive_frame(source))
        except (OSError, EOFError) as error:
            raise PeerLost(f"rank {rank} is gone: {error}") from None
        if theirs != occasion:
            raise TrialMisuse(
                f"the ranks of the trial went different ways: rank {rank} is at {theirs!r}, "
                f"rank {self._rank} at {occasion!r}; every rank must run the same iterations and call "
                "save_due and save() in the same ones"
            )
        return value
