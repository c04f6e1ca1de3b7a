"""What the launching program, the fork-server, the wardens and the ranks say to each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from rb_core.errors import FailureKind, InvalidInput
from rb_core.ports import TrialRun
from rb_core.target import Target
from rb_core.training.peers import Peers

Group = Callable[[TrialRun, int, Peers, str, float], AbstractContextManager[bool]]
"""Brings the ranks together before the function runs: called with (run, rank, peers, device, timeout_s); the context
holds while the function runs and tells whether there is a torch process group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """To the fork-server, first of all.

    Attributes:
        target: the training function.
        modules: what to import before it.
        preload: whether to import the target too, once for all ranks; otherwise each rank does.
    """

    target: Target
    modules: tuple[str, ...]
    preload: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The fork-server's answer.

    Attributes:
        problem: what is wrong with the target or with a module, if anything.
        unfit: why the target must not be imported before the fork; empty when it may.
    """

    problem: InvalidInput | None = None
    unfit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """To the fork-server: start one trial, or those of its ranks that belong on this machine.

    Beside it come sockets: the warden's own, one for each of its ranks' channels, and, where ranks are elsewhere, those
    between rank 0 and the others: with rank 0 one to each rank elsewhere, without it one for each of its ranks; all in
    the order of ranks.

    Attributes:
        world_size: number of ranks of the trial.
        ranks: the ranks that are started here, in order.
        stage: stage of the start, for the names of logs.
        run: the `TrialRun` as cloudpickle wrote it; only the ranks read it.
        logs: folder of the ranks' output.
        group: how the ranks come together.
        threads: threads for each rank.
        timeout_s: longest wait for another rank in a collective operation.
        scratch: whether the ranks here need a folder of this machine, which goes when the start is over.
    """

    world_size: int
    ranks: tuple[int, ...]
    stage: int
    run: bytes
    logs: Path
    group: Group
    threads: int
    timeout_s: float
    scratch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """From a rank to its warden, just before it ends.

    Attributes:
        cause: why it failed, in one line; empty when it completed.
        kind: in which way, if it did.
        traceback: the part of the traceback that lies in the user's code.
        lost_peer: whether it failed because another rank was gone.
        at_s: when, on the system's monotonic clock.
        printed_bytes: size of its output up to the failure.
    """

    cause: str = ""
    kind: FailureKind = FailureKind.RAISED
    traceback: str = ""
    lost_peer: bool = False
    at_s: float = 0.0
    printed_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The rank that is to blame, in the fields of `TrialFailure`.

    Attributes:
        lost_peer: whether it failed only because another rank was gone, which may be one of another warden.
    """

    rank: int
    cause: str
    kind: FailureKind = FailureKind.RAISED
    traceback: str = ""
    output_tail: tuple[str, ...] = ()
    lost_peer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """From a warden, last of all: every process that it started is gone.

    Attributes:
        failure: None when each of its ranks completed.
    """

    failure: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """To a warden: end everything now.

    Attributes:
        reason: what the start's failure will say.
        kind: in which way the start ends by it.
    """

    reason: str
    kind: FailureKind = FailureKind.DIED
