"""The warden of one start of a trial: forks its ranks, sees them end, and leaves nothing of them behind.

A trial on several machines has one on each, for the ranks there.
"""

from __future__ import annotations

import os
import pickle
import select
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rb_core.errors import FailureKind
from rb_core.launchers import linux
from rb_core.launchers.order import Ended, Failure, Kill, Order, Outcome
from rb_core.launchers.rank import run_rank
from rb_core.target import Target, TrainingFunction
from rb_core.training.frames import receive_frame, send_frame

PATIENCE_S = 2.0
"""How long a rank's "connection closed by peer" waits for the failure of the rank that closed it."""

LINGER_S = 10.0
"""Longest wait for the launching program to take in the last messages."""

_TAIL_LINES = 20
_TAIL_BYTES = 16_384


@dataclass(slots=True)
class _Rank:
    number: int
    pid: int
    ended: int
    """A pidfd, readable once the rank has ended."""
    outcome: int
    log: Path


def guard(
    order: Order,
    *,
    target: Target | TrainingFunction,
    control: socket.socket,
    lines: Sequence[socket.socket],
    server: int,
) -> None:
    """Run a start from its first process to its last, in this process, which was just forked for it.

    Args:
        order: what is started.
        target: the function, or where to import it from.
        control: the line to the launching program: `Kill` comes in, `Ended` goes out; when it closes, the program
            is gone and everything ends.
        lines: the ranks' channels to the engine, then the sockets to ranks elsewhere; see `Order`.
        server: pidfd of the fork-server; when it is gone, everything ends.
    """
    linux.adopt_orphans()
    channels = lines[: len(order.ranks)]
    ranks: list[_Rank] = []
    scratch: Path | None = None
    try:
        scratch = Path(tempfile.mkdtemp(prefix="rb-start-")) if order.scratch else None
        failure = _start(order, target, control, lines, server, ranks, scratch) or _watch(ranks, control, server)
    except Exception as error:
        cause = f"the guard of its processes failed: {type(error).__name__}: {error}"
        failure = Failure(rank=0, cause=cause, kind=FailureKind.DIED)
    finally:
        linux.end_family()
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    with suppress(OSError):
        send_frame(control, pickle.dumps(Ended(failure=failure)))
        _linger(control, channels, server)


def _linger(control: socket.socket, channels: Sequence[socket.socket], server: int) -> None:
    """Keep the channels until the program has read them.

    A TCP socket that is closed before all that came in was read takes with it what the other side has yet to receive.
    """
    for channel in channels:
        with suppress(OSError):
            channel.shutdown(socket.SHUT_WR)
    read = select.poll()
    read.register(control, select.POLLIN)
    read.register(server, select.POLLIN)
    read.poll(LINGER_S * 1000)


def _start(
    order: Order,
    target: Target | TrainingFunction,
    control: socket.socket,
    lines: Sequence[socket.socket],
    server: int,
    ranks: list[_Rank],
    scratch: Path | None,
) -> Failure | None:
    """Fork the ranks, appending to `ranks`; the failure if one could not be forked."""
    warden = os.getpid()
    channels, links = lines[: len(order.ranks)], lines[len(order.ranks) :]
    star = _star(order, links)
    points = [point for points in star.values() for point in points]
    try:
        for number, channel in zip(order.ranks, channels, strict=True):
            log, log_file = _open_log(order.logs, f"stage-{order.stage}-rank-{number}")
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            pid = os.fork()
            if pid == 0:
                try:
                    for mine in (reading, server, *(fd for r in ranks for fd in (r.ended, r.outcome))):
                        os.close(mine)
                    control.close()
                    peers = star.get(number, [])
                    for other in (*channels, *points):
                        if other is not channel and other not in peers:
                            other.close()
                    run_rank(
                        order,
                        rank=number,
                        target=target,
                        warden=warden,
                        channel=channel,
                        peers=peers,
                        outcome=writing,
                        log=log,
                        scratch=scratch,
                    )
                finally:
                    os._exit(1)
            os.close(writing)
            os.close(log)
            ranks.append(_Rank(number=number, pid=pid, ended=os.pidfd_open(pid), outcome=reading, log=log_file))
    except OSError as error:
        cause = f"the process could not be started: {error}"
        return Failure(rank=order.ranks[len(ranks)], cause=cause, kind=FailureKind.UNSTARTED)
    finally:
        for point in points:
            point.close()
    return None


def _star(order: Order, links: Sequence[socket.socket]) -> dict[int, list[socket.socket]]:
    """Each rank's sockets to the others, as `SocketPeers` takes them."""
    if 0 not in order.ranks:
        return {rank: [link] for rank, link in zip(order.ranks, links, strict=True)}
    elsewhere = iter(links)
    star: dict[int, list[socket.socket]] = {0: []}
    for rank in range(1, order.world_size):
        if rank in order.ranks:
            near, far = socket.socketpair()
            star[rank] = [far]
        else:
            near = next(elsewhere)
        star[0].append(near)
    return star


def _watch(ranks: Sequence[_Rank], control: socket.socket, server: int) -> Failure | None:
    """Wait until all ranks have ended, or until it is clear why they will not."""
    running = {rank.ended: rank for rank in ranks}
    failed: list[tuple[_Rank, Outcome]] = []
    give_up_s: float | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        for pidfd in (server, *running):
            selector.register(pidfd, selectors.EVENT_READ)
        while running and not any(not outcome.lost_peer for _, outcome in failed):
            wait_s = None if give_up_s is None else give_up_s - time.monotonic()
            if wait_s is not None and wait_s <= 0:
                break
            for key, _ in selector.select(wait_s):
                if key.fd in running:
                    selector.unregister(key.fd)
                    rank = running.pop(key.fd)
                    outcome = _outcome(rank)
                    if outcome.cause:
                        failed.append((rank, outcome))
                        give_up_s = give_up_s or time.monotonic() + PATIENCE_S
                elif key.fileobj is control:
                    first = min(running.values(), key=lambda rank: rank.number, default=ranks[0])
                    kill = _kill(control)
                    return _blame(first, Outcome(cause=kill.reason, kind=kill.kind))
                else:
                    return Failure(rank=0, cause="the fork-server was killed", kind=FailureKind.DIED)
    if not failed:
        return None
    return _blame(*min(failed, key=lambda pair: (pair[1].lost_peer, pair[1].at_s, pair[0].number)))


def _kill(control: socket.socket) -> Kill:
    try:
        message = pickle.loads(receive_frame(control))
    except (EOFError, OSError):
        return Kill(reason="the launching program is gone")
    return message if isinstance(message, Kill) else Kill(reason=f"unknown order {message!r}")


def _outcome(rank: _Rank) -> Outcome:
    """What a rank that has ended said at last, or what its exit status says."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(rank.pid, signal.SIGKILL)  # before the wait, while the number is still its own
    status = os.waitpid(rank.pid, 0)[1]
    told = bytearray()
    with suppress(BlockingIOError):
        while piece := os.read(rank.outcome, 65_536):
            told += piece
    if told:
        outcome: Outcome = pickle.loads(told)
        return outcome
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        hint = " (Linux does this when memory runs out)" if name == "SIGKILL" else ""
        cause = f"killed by {name}{hint}"
    else:
        cause = f"ended with exit status {os.WEXITSTATUS(status)} before its function returned"
    return Outcome(cause=cause, kind=FailureKind.DIED, at_s=time.monotonic())


def _blame(rank: _Rank, outcome: Outcome) -> Failure:
    return Failure(
        rank=rank.number,
        cause=outcome.cause,
        kind=outcome.kind,
        traceback=outcome.traceback,
        output_tail=_tail(rank.log, outcome.printed_bytes),
        lost_peer=outcome.lost_peer,
    )


def _tail(log: Path, end: int | None) -> tuple[str, ...]:
    try:
        with open(log, "rb") as file:
            size = file.seek(0, os.SEEK_END) if end is None else end
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read(min(size, _TAIL_BYTES)).decode(errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-_TAIL_LINES:])


def _open_log(folder: Path, name: str) -> tuple[int, Path]:
    """A new file; the first start of a stage takes the bare name, later ones a number more."""
    folder.mkdir(parents=True, exist_ok=True)
    attempt = 1
    while True:
        path = folder / (f"{name}.log" if attempt == 1 else f"{name}.{attempt}.log")
        try:
            return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600), path
        except FileExistsError:
            attempt += 1
