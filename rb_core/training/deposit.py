"""Checkpoints of a start whose nodes share no folder: brought from a depot before it, and put there as it saves.

The training function and everything that saves and loads for it use a folder of the node, as they would without.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rb_core.errors import RubberBandError
from rb_core.training import checkpoint
from rb_core.trial import Message, Ready, Saved

if TYPE_CHECKING:
    from rb_core.ports import Depot, TrialRun
    from rb_core.training.channel import Channel

P = ParamSpec("P")
T = TypeVar("T")


def brought(run: TrialRun, channel: Channel, scratch: Path) -> tuple[TrialRun, Channel]:
    """The run and the channel as a rank is to use them; where there is no depot, as they are.

    Args:
        run: what is started.
        channel: the rank's line to the engine.
        scratch: a folder of this node, which the ranks on it share and which no other start has.

    Returns:
        The run with its checkpoint in `scratch`, and a channel on which a checkpoint is told of once it lies in the
        depot.

    Raises:
        DamagedCheckpoint: the checkpoint is missing, or not what was saved.
        StoreFailure: the depot cannot be read.
        UnusableCheckpoint: the node's disk is full or refuses.
    """
    if run.depot is None:
        return run, channel
    began_s = time.perf_counter()
    path = _fetched(run.depot, run.deposited, scratch) if run.deposited else None
    fetch_s = time.perf_counter() - began_s
    own = checkpoint.trial_folder(Path(), run.trial).name
    here = replace(run, storage=scratch, checkpoint=path, depot=None, deposited="")
    return here, DepositingChannel(channel, run.depot, own, fetch_s=fetch_s)


class DepositingChannel:
    """A channel that puts each checkpoint into a depot before it tells of it, and then removes the node's copy.

    Args:
        inner: the line to the engine.
        depot: where checkpoints are kept.
        folder: the trial's folder in it.
        fetch_s: seconds that it took to bring the checkpoint to restore from.
    """

    def __init__(self, inner: Channel, depot: Depot, folder: str, *, fetch_s: float = 0.0) -> None:
        self._inner = inner
        self._depot = depot
        self._folder = folder
        self._fetch_s = fetch_s

    def send(self, message: Message) -> None:
        """Tell the engine.

        Raises:
            UnusableCheckpoint: the checkpoint that the message tells of could not be kept; nothing was told.
        """
        if isinstance(message, Saved):
            message = self._deposited(message)
        elif isinstance(message, Ready):
            message = replace(message, restore_s=message.restore_s + self._fetch_s)
        self._inner.send(message)

    def ask(self, message: Message) -> Message:
        """Tell the engine and wait for its answer."""
        return self._inner.ask(message)

    def stop_requested(self) -> bool:
        """Whether the engine asked the trial to stop."""
        return self._inner.stop_requested()

    def _deposited(self, message: Saved) -> Saved:
        began_s = time.perf_counter()
        reference = _asked(self._depot.push, Path(message.checkpoint), self._folder)
        checkpoint.delete(message.checkpoint)
        return replace(message, checkpoint=reference, save_s=message.save_s + time.perf_counter() - began_s)


def _fetched(depot: Depot, reference: str, scratch: Path) -> Path:
    """Where a checkpoint lies on this node; the first of its ranks to ask brings it."""
    name = PurePosixPath(reference).name
    path, draft = scratch / name, scratch / f".{name}.part"
    with _turn(scratch):
        if not path.exists():
            checkpoint.delete(draft)
            _asked(depot.fetch, reference, draft)
            checkpoint.verify(draft, reference)
            draft.rename(path)
    return path


@contextmanager
def _turn(scratch: Path) -> Iterator[None]:
    """One process of the node at a time; the turn of one that dies passes on."""
    descriptor = os.open(scratch / ".turn", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _asked(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What a depot answers; an error of it shows where the training function stood, not where the depot did."""
    try:
        return call(*arguments, **named)
    except RubberBandError as error:
        raise error.with_traceback(None) from error.__cause__
