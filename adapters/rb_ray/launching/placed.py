"""One started trial: its slots held in Ray, its ranks started by hosts, all of it followed to the end."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from socket import socket
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from rb_core.errors import FailureKind, InvalidInput, LaunchFailure, RubberBandError, TrialFailure
from rb_core.launchers.group import torch_group
from rb_core.launchers.order import Failure, Order
from rb_core.launchers.watch import Watch
from rb_core.oneline import first_line
from rb_core.ports import Inbox, TrialExit, TrialNotice, TrialRun
from rb_core.trial import Message, Remark
from rb_ray.launching.hosts import RemoteHost
from rb_ray.launching.lines import HANDSHAKE_S, Listener, Ticket

HOST_S = 120.0
"""Longest wait for a node's host, which imports torch and the training function."""

SLOTS_S = 30.0
"""Longest wait for Ray to hold the slots."""

START_S = 3 * HANDSHAKE_S
"""Longest wait for the hosts to start the ranks."""

FAREWELL_S = 10.0
"""Longest wait for the processes of a trial that was killed; then its machine is taken for dead."""

_TRIES_S = (0.1, 0.1, 0.2, 0.5, 1.0, 2.0)
"""How long each try to have the slots held is given. They are free in Ray's eyes only a tenth of a second after another
trial has left them, and Ray itself tries again only after most of a second, then ever later."""

_PAUSE_S = 0.01
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The ranks of a trial on one node.

    Attributes:
        host: what starts them.
        node: the core's name of the node.
        ranks: which ones, in order.
    """

    host: RemoteHost
    node: str
    ranks: tuple[int, ...]


class _EndedEarly(Exception):
    """It was told to end while it was starting, or one of its nodes was gone by then."""


class PlacedTrial:
    """A `TrialHandle` of a trial on nodes of a Ray cluster, with a thread that starts and follows it.

    Args:
        run: what is started.
        inbox: where notices go.
        order: what starts it, but for its ranks and addresses.
        shares: who starts what, rank 0's node first.
        gone: nodes of it that have left the cluster; with any it fails as when they leave later.
        bundles: the slots that are held meanwhile, as Ray names them; empty where none is known to it.
        listener: of the launcher.
        over: called before the exit is put.
    """

    def __init__(
        self,
        run: TrialRun,
        inbox: Inbox,
        *,
        order: Order,
        shares: Sequence[Share],
        gone: Sequence[str],
        bundles: Sequence[Mapping[str, float]],
        listener: Listener,
        over: Callable[[PlacedTrial], None],
    ) -> None:
        self.trial = run.trial
        self.shares = tuple(shares)
        self._inbox = inbox
        self._order = order
        self._gone = gone
        self._bundles = bundles
        self._listener = listener
        self._over = over
        self._watch = Watch(run.trial, inbox, farewell_s=FAREWELL_S)
        self._killed = threading.Event()
        self._stop_by_s: float | None = None
        self._tickets: list[list[Ticket]] = []
        self._thread = threading.Thread(target=self._run, name=f"trial-{run.trial}", daemon=True)
        self._thread.start()

    def send(self, rank: int, message: Message) -> None:
        """Tell one rank."""
        self._watch.send(rank, message)

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask the trial to end; kill it after the grace."""
        if self._stop_by_s is None:
            self._stop_by_s = time.monotonic() + grace_s
        self._watch.stop(grace_s)

    def kill(self) -> None:
        """End all its processes."""
        self._killed.set()
        self._watch.kill()

    def lose(self, host: RemoteHost, why: str) -> None:
        """A host is gone; of no effect when it is none of this trial's."""
        for share in self.shares:
            if share.host is host:
                cause = f"node {share.node} was lost: {why}"
                self._watch.lose(Failure(rank=share.ranks[0], cause=cause, kind=FailureKind.DIED))

    def is_over(self) -> bool:
        """Whether its `TrialExit` has been put."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Block until its `TrialExit` has been put."""
        self._thread.join()

    def _run(self) -> None:
        held: list[PlacementGroup] = []
        failure: TrialFailure | None
        try:
            failure = self._follow(held)
        except Exception as error:  # the exit has to come, whatever happens
            cause = f"its launcher failed: {type(error).__name__}: {error}"
            failure = TrialFailure(trial=self.trial, rank=0, cause=cause, kind=FailureKind.UNSTARTED)
        self._watch.close()
        with suppress(RayError):
            for group in held:
                remove_placement_group(group)
        self._over(self)
        self._inbox.put(TrialExit(trial=self.trial, failure=failure))

    def _follow(self, held: list[PlacementGroup]) -> TrialFailure | None:
        problem: Failure | None = None
        try:
            self._start(held)
        except _EndedEarly as error:
            problem = Failure(rank=0, cause=str(error), kind=FailureKind.DIED)
        except InvalidInput as error:
            problem = Failure(rank=0, cause=str(error), kind=FailureKind.RAISED)
        except RubberBandError as error:
            problem = Failure(rank=0, cause=str(error), kind=FailureKind.UNSTARTED)
        except RayError as error:
            cause = f"a node was lost while the trial was starting: {first_line(str(error))}"
            problem = Failure(rank=0, cause=cause, kind=FailureKind.DIED)
        wardens: dict[int, socket] = {}
        channels: dict[int, socket] = {}
        for share, tickets in zip(self.shares, self._tickets, strict=False):
            warden, *lines = self._listener.take(tickets)
            if warden is not None:
                wardens[share.ranks[0]] = warden
            channels |= {rank: line for rank, line in zip(share.ranks, lines, strict=True) if line is not None}
        if problem is None:
            return self._watch.run(wardens, [channels[rank] for rank in sorted(channels)])
        for line in channels.values():
            line.close()
        return self._watch.run(wardens, (), failure=problem)

    def _start(self, held: list[PlacementGroup]) -> None:
        """Have all ranks started; their lines have come when this returns."""
        if self._gone:
            raise _EndedEarly(f"node {self._gone[0]} had left the cluster when the trial was to start")
        for share in self.shares:
            self._wait(partial(share.host.ready.wait, _LOOK_S), HOST_S, f"node {share.node} was not prepared")
            if share.host.problem is not None:
                raise share.host.problem
            if share.host.remark:
                self._inbox.put(TrialNotice(trial=self.trial, rank=0, message=Remark(text=share.host.remark)))
        if self._bundles:
            nodes = ", ".join(share.node for share in self.shares)
            what = f"Ray did not hold {self._order.world_size} slot(s) of {nodes}, which others may be using,"
            tries_s = iter(_TRIES_S)
            self._wait(lambda: self._hold(held, next(tries_s, _TRIES_S[-1])), SLOTS_S, what)
        first, *others = self.shares
        links: list[Ticket] = []
        if others:
            (links,) = self._answers([first.host.call("offer", sum(len(share.ranks) for share in others))])
        calls = []
        # By rank, since rank 0's host passes them on in that order.
        by_rank = dict(zip(sorted(rank for share in others for rank in share.ranks), links, strict=True))
        for share in self.shares:
            lines = self._listener.offer(1 + len(share.ranks))
            self._tickets.append(lines)
            dialled = [by_rank[rank] for rank in share.ranks if rank in by_rank]
            expected = [] if share is not first else links
            calls.append(share.host.call("start", self._ordered(share), lines, dialled, expected))
        for answer in self._answers(calls):
            if isinstance(answer, RubberBandError):
                raise answer
        lines = [ticket for tickets in self._tickets for ticket in tickets]
        self._wait(lambda: self._listener.wait(lines, _LOOK_S), HANDSHAKE_S, "the ranks did not reach this program")

    def _hold(self, held: list[PlacementGroup], try_s: float) -> bool:
        """Try for a while to have the slots held."""
        group = placement_group([dict(bundle) for bundle in self._bundles], strategy="PACK")
        held.append(group)
        until_s = time.monotonic() + try_s
        while not group.wait(0):
            if self._killed.wait(_PAUSE_S) or time.monotonic() >= until_s:
                held.remove(group)
                remove_placement_group(group)
                return False
        return True

    def _ordered(self, share: Share) -> Order:
        group = self._order.group
        if group is torch_group:
            group = partial(torch_group, address=share.host.address, meeting=self.shares[0].host.address)
        return dataclasses.replace(self._order, ranks=share.ranks, group=group)

    def _answers(self, calls: list[Any]) -> list[Any]:
        done = partial(ray.wait, calls, num_returns=len(calls), timeout=_LOOK_S)
        self._wait(lambda: not done()[1], START_S, "the nodes did not answer")
        answers: list[Any] = ray.get(calls)
        return answers

    def _wait(self, done: Callable[[], bool], limit_s: float, what: str) -> None:
        """Wait until something is done, which itself waits for a moment.

        Raises:
            LaunchFailure: it is not within the limit.
            _EndedEarly: the trial is to end.
        """
        until_s = time.monotonic() + limit_s
        while not done():
            now_s = time.monotonic()
            if self._killed.is_set():
                raise _EndedEarly("killed on request")
            if self._stop_by_s is not None and now_s >= self._stop_by_s:
                raise _EndedEarly("killed: it was still starting when it was asked to stop, and the grace was over")
            if now_s >= until_s:
                raise LaunchFailure(f"{what} within {limit_s:g} s")
