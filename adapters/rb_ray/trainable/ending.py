"""How the ranks of a trial end, and which of them is to blame when they end badly."""

from __future__ import annotations

import math
import queue
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rb_core.errors import FailureKind, RubberBandError, TrialFailure
from rb_core.training.peers import looks_like_lost_peer

PATIENCE_S = 20.0
"""How long to wait for the failure that made a rank find another one gone."""

_MOST_TRACEBACK = 15_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a rank ended.

    Attributes:
        rank: which one.
        at_s: when, on the monotonic clock of rank 0's process.
        value: what its function returned.
        error: what it raised; None for a rank elsewhere.
        cause: why it failed, in one line; empty when it did not.
        kind: in which way, if it did.
        traceback: its own traceback.
        lost_peer: whether it failed because another rank was gone.
    """

    rank: int
    at_s: float = 0.0
    value: Any = None
    error: BaseException | None = None
    cause: str = ""
    kind: FailureKind = FailureKind.RAISED
    traceback: str = ""
    lost_peer: bool = False


def ending(rank: int, error: BaseException) -> End:
    """How a rank of several ended that raised this, without the error itself, which others may be unable to read."""
    text = "".join(traceback.format_exception(error))[-_MOST_TRACEBACK:]
    lost_peer = looks_like_lost_peer(error)
    line = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
    ours = isinstance(error, RubberBandError)
    return End(
        rank=rank,
        at_s=time.monotonic(),
        cause=str(error) if ours else line,
        kind=FailureKind.DIED if lost_peer else FailureKind.RAISED,
        traceback="" if ours else text,
        lost_peer=lost_peer,
    )


def watch(
    ends: queue.SimpleQueue[End], world_size: int, timeout_s: float, *, trial: int, patience_s: float = PATIENCE_S
) -> Any:
    """Wait until all ranks have ended, or until it is clear why they will not; what rank 0's function returned.

    Args:
        ends: where each rank's end comes.
        world_size: number of ranks.
        timeout_s: longest wait for the others once rank 0 has ended well.
        trial: the trial's number, for messages.
        patience_s: longest wait for a true cause once a rank has found another one gone.

    Raises:
        TrialFailure: a rank elsewhere failed, or did not end.
        BaseException: what rank 0's function raised.
    """
    value: Any = None
    running = set(range(world_size))
    failed: list[End] = []
    give_up_s = math.inf
    while running:
        try:
            end = ends.get(timeout=None if math.isinf(give_up_s) else max(0.0, give_up_s - time.monotonic()))
        except queue.Empty:
            break
        running.discard(end.rank)
        if end.error is not None or end.cause:
            if isinstance(end.error, SystemExit):
                raise end.error
            failed.append(end)
            if not end.lost_peer:
                break
            give_up_s = min(give_up_s, time.monotonic() + patience_s)
        elif end.rank == 0:
            value = end.value
            give_up_s = min(give_up_s, time.monotonic() + timeout_s)
    if failed:
        raise _blame(failed, trial)
    if running:
        raise TrialFailure(
            trial=trial,
            rank=min(running),
            cause=f"it has not ended within {timeout_s:g} s after rank 0 has; every rank must run the same iterations",
            kind=FailureKind.HUNG,
        )
    return value


def _blame(failed: Sequence[End], trial: int) -> BaseException:
    first = min(failed, key=lambda end: (end.lost_peer, end.at_s, end.rank))
    if first.error is not None:
        return first.error
    return TrialFailure(trial=trial, rank=first.rank, cause=first.cause, kind=first.kind, traceback=first.traceback)
