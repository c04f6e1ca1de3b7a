"""One rank: a forked process that runs the training function once and ends."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from rb_core.errors import DamagedCheckpoint, FailureKind, LaunchFailure, RubberBandError, StoreFailure
from rb_core.launchers import linux
from rb_core.launchers.order import Order, Outcome
from rb_core.ports import TrialRun
from rb_core.target import Target, TrainingFunction
from rb_core.training.channel import Channel, SocketChannel
from rb_core.training.configuration import Configuration
from rb_core.training.deposit import brought
from rb_core.training.peers import Alone, SocketPeers, looks_like_lost_peer
from rb_core.training.randomness import seed_all
from rb_core.trial import ConfigRead, Trial

_PACKAGE = str(Path(__file__).parent.parent)
# In characters. An outcome must fit into a pipe, 64 KiB, since it is read once the rank has ended.
_MOST_TRACEBACK = 15_000
_MOST_CAUSE = 500
_MOST_MESSAGE = 5_000


def run_rank(
    order: Order,
    *,
    rank: int,
    target: Target | TrainingFunction,
    warden: int,
    channel: socket.socket,
    peers: Sequence[socket.socket],
    outcome: int,
    log: int,
    scratch: Path | None = None,
) -> NoReturn:
    """Run the function in this process, which was just forked, tell the outcome and end.

    Args:
        order: what is started.
        rank: which rank to be.
        target: the function, or where to import it from.
        warden: pid of the process that forked this one.
        channel: socket to the engine.
        peers: sockets to the other ranks, see `SocketPeers`.
        outcome: pipe to the warden.
        log: file that takes the output.
        scratch: the start's folder on this machine, where the order says that it needs one.
    """
    status = 1
    try:
        os.setsid()
        linux.die_with(warden)
        _redirect(log)
        told = _train(order, rank, target, channel, peers, scratch)
    except BaseException as error:
        _flush()
        told = _failure(error, printed_bytes=os.fstat(log).st_size, alone=order.world_size == 1)
        print(told.traceback or told.cause, file=sys.stderr, flush=True)
    else:
        status = 0
    _flush()
    os.write(outcome, pickle.dumps(told))
    os._exit(status)


def _train(
    order: Order,
    rank: int,
    target: Target | TrainingFunction,
    channel_socket: socket.socket,
    peer_sockets: Sequence[socket.socket],
    scratch: Path | None,
) -> Outcome:
    run: TrialRun = pickle.loads(order.run)
    slot = run.slots[rank]
    _set_environment(run.env or {}, slot.device, order.threads)
    multiprocessing.set_start_method("fork", force=True)
    seed_all(run.seed, run.trial)
    function = target.load() if isinstance(target, Target) else target
    channel: Channel = SocketChannel(channel_socket)
    peers = SocketPeers(rank, peer_sockets) if len(run.slots) > 1 else Alone()
    device = "cuda:0" if slot.device else "cpu"
    config = Configuration(run.config)
    if scratch is not None:
        run, channel = brought(run, channel, scratch)
    with order.group(run, rank, peers, device, order.timeout_s) as grouped:
        trial = Trial(run, rank=rank, channel=channel, peers=peers, device=device, grouped=grouped)
        function(config, trial)
        trial.close()
    if rank == 0:
        channel.send(ConfigRead(keys=config.keys_read()))
    return Outcome()


def _redirect(log: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _set_environment(env: Mapping[str, str], device: str, threads: int) -> None:
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.update(env)
    if device:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    if "torch" in sys.modules:
        import torch

        # The variable alone comes too late for a torch that is loaded already.
        wanted = os.environ["OMP_NUM_THREADS"]
        torch.set_num_threads(int(wanted) if wanted.isdigit() and int(wanted) else threads)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _failure(error: BaseException, *, printed_bytes: int, alone: bool) -> Outcome:
    at_s = time.monotonic()
    lost_peer = not alone and looks_like_lost_peer(error)
    kind = _kind(error, lost_peer=lost_peer)
    line = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
    if isinstance(error, RubberBandError):
        cause = f"{_shortened(str(error))}{_place(error)}"
        return Outcome(cause=cause, kind=kind, at_s=at_s, printed_bytes=printed_bytes)
    if type(error).__name__ == "OutOfMemoryError":
        line += "; use a smaller batch or model, or slots with more memory"
    text = "".join(traceback.format_exception(type(error), error, _theirs(error.__traceback__)))
    return Outcome(
        cause=line[:_MOST_CAUSE],
        kind=kind,
        traceback=text[-_MOST_TRACEBACK:],
        lost_peer=lost_peer,
        at_s=at_s,
        printed_bytes=printed_bytes,
    )


def _kind(error: BaseException, *, lost_peer: bool) -> FailureKind:
    causes = tuple(_with_causes(error))
    if any(isinstance(each, StoreFailure) for each in causes):
        return FailureKind.STORE
    if any(isinstance(each, DamagedCheckpoint) for each in causes):
        return FailureKind.CHECKPOINT
    if isinstance(error, LaunchFailure):
        return FailureKind.UNSTARTED
    return FailureKind.DIED if lost_peer or isinstance(error, KeyboardInterrupt) else FailureKind.RAISED


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """The error and every one that it was raised from, or while it was handled."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            pending += [each.__cause__, each.__context__]


def _shortened(message: str) -> str:
    if len(message) <= _MOST_MESSAGE:
        return message
    half = _MOST_MESSAGE // 2
    return f"{message[:half]} ... {message[-half:]}"


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not ours; all of it when every frame is."""
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        first = first.tb_next
    return first or trace


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
    frames = [f for f in frames if f.filename != contextlib.__file__]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
