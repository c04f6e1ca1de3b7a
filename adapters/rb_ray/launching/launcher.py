"""The launcher `ray`: ranks on the nodes of a Ray cluster."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from rb_core.check import positive, positive_int
from rb_core.errors import LaunchFailure
from rb_core.launchers import ddp, process
from rb_core.launchers.group import apart, torch_group
from rb_core.launchers.order import Group
from rb_core.launchers.process import make_order, wanted_threads
from rb_core.ports import Clock, Inbox, Provider, TrialRun
from rb_core.target import Target
from rb_ray.launching.hosted import HostedNodes
from rb_ray.launching.hosts import Hosts, RemoteHost
from rb_ray.launching.lines import Listener
from rb_ray.launching.luggage import folder_of, is_here
from rb_ray.launching.placed import PlacedTrial, Share
from rb_ray.nodes.cluster import RayCluster
from rb_ray.nodes.gather import gather


class RayLauncher:
    """Starts ranks on the nodes that its trials' slots name; without `gather` all on this program's own node.

    Each node has one host, an actor that needs no CPU, with a fork-server that has imported the training function; a
    start takes no process start and no import. Meanwhile a placement group holds the trial's slots. Ranks are what
    they are with the launcher `ddp`: forks under a warden, in a torch process group where torch is installed, else as
    with `process` without any. Their environment is that of their node's Ray processes, with the variables of the run.

    Nodes on other machines get a copy of the folder of the code. Checkpoints need a storage that all nodes reach.

    Args:
        target: the training function.
        clock: the time.
        address: ``host:port`` of the cluster to join; by default RAY_ADDRESS, else one is started on this machine.
        ships: whether nodes get a copy of the folder of the code: all, none, or (None) those on other machines.
        group: how ranks come together; `torch_group` where torch is installed, else `apart`.
        threads_per_rank: threads for each rank's arithmetic; ``OMP_NUM_THREADS`` of a run's `env` or of this
            process comes first.
        timeout_s: longest wait for another rank in a collective operation.
    """

    name = "ray"

    def __init__(
        self,
        target: Target,
        clock: Clock,
        *,
        address: str | None = None,
        ships: bool | None = None,
        group: Group | None = None,
        threads_per_rank: int = 1,
        timeout_s: float = 1800.0,
    ) -> None:
        self._target = target
        self._clock = clock
        self._cluster = RayCluster(address)
        self._ships = ships
        self._threads = wanted_threads(positive_int("threads_per_rank", threads_per_rank))
        self._timeout_s = positive("timeout_s", timeout_s)
        if group is None:
            group = torch_group if importlib.util.find_spec("torch") is not None else apart
        self._group: Group = group
        self._modules = process.MODULES + (ddp.MODULES if group is torch_group else ())
        self._listener: Listener | None = None
        self._hosts: Hosts | None = None
        self._lock = threading.Lock()
        self._trials: list[PlacedTrial] = []
        self._node_ids: dict[str, str] = {}
        self._gathers = False

    def __enter__(self) -> Self:
        """Connect to the cluster, and try the training function on this program's own node.

        Raises:
            InvalidInput: the training function cannot be imported or called, or the cluster cannot be joined.
            LaunchFailure: no process could be started.
        """
        if self._hosts is None:
            self._cluster.__enter__()
            try:
                self._listener = Listener(self._cluster.host)
                self._hosts = Hosts(self._host)
                host = self._hosts.welcome(self._cluster.here)
                host.ready.wait()
                if host.problem is not None:
                    raise host.problem
            except BaseException:
                self._leave()
                raise
        return self

    def __exit__(self, *exc: object) -> None:
        """End every process."""
        if self._hosts is not None:
            self._leave()

    def start(self, run: TrialRun, inbox: Inbox) -> PlacedTrial:
        """Start the ranks. Returns at once; what goes wrong later is in the exit.

        Raises:
            LaunchFailure: a folder cannot be made, or the configuration cannot be sent to another process.
        """
        hosts, listener = self._entered()
        if self._cluster.ended:
            raise LaunchFailure(f"the Ray cluster of this run has ended; it said:\n{self._cluster.ended}")
        order = make_order(
            run, ranks=range(len(run.slots)), group=self._group, threads=self._threads, timeout_s=self._timeout_s
        )
        members = self._cluster.members
        ranks: dict[str, list[int]] = {}
        for rank, slot in enumerate(run.slots):
            member = members.get(slot.node)
            ranks.setdefault(self._cluster.here if member is None else member.node_id, []).append(rank)
        nodes = [slot.node for slot in run.slots]
        gone = [node for node in dict.fromkeys(nodes) if self._gathers and node not in members]
        bundles = [members[node].bundle(nodes.count(node)) for node in dict.fromkeys(nodes) if node in members]
        shares = [
            Share(host=hosts.borrow(node_id), node=run.slots[own[0]].node, ranks=tuple(own))
            for node_id, own in ranks.items()
            if not gone
        ]
        with self._lock:
            trial = PlacedTrial(
                run,
                inbox,
                order=order,
                shares=shares,
                gone=gone,
                bundles=bundles,
                listener=listener,
                over=self._ended,
            )
            self._trials.append(trial)
        return trial

    def gather(self, make: Callable[[Inbox], Provider], inbox: Inbox) -> Provider:
        """A provider whose nodes join this launcher's cluster, and are prepared as soon as they have.

        From then on trials are started on its nodes alone.

        Raises:
            InvalidInput: these nodes cannot join.
        """
        self._gathers = True
        return HostedNodes(
            lambda between: gather(make, cluster=self._cluster, clock=self._clock, inbox=between),
            inbox,
            ready=self._prepare,
            leaving=self._let_go,
        )

    def _entered(self) -> tuple[Hosts, Listener]:
        if self._hosts is None or self._listener is None:
            raise RuntimeError("the launcher has to be entered before it starts anything")
        return self._hosts, self._listener

    def _prepare(self, node: str) -> None:
        member = self._cluster.members.get(node)
        if member is not None and self._hosts is not None:
            self._node_ids[node] = member.node_id
            self._hosts.welcome(member.node_id)

    def _let_go(self, node: str) -> None:
        node_id = self._node_ids.pop(node, None)
        if node_id is not None and self._hosts is not None:
            self._hosts.retire(node_id)

    def _host(self, node_id: str) -> RemoteHost:
        return RemoteHost(node_id, self._target, self._modules, self._folder(node_id), self._lost)

    def _folder(self, node_id: str) -> Path | None:
        """What a node gets a copy of."""
        addresses = (member.ip for member in self._cluster.members.values() if member.node_id == node_id)
        ships = self._ships if self._ships is not None else not all(is_here(address) for address in addresses)
        return folder_of(self._target) if ships else None

    def _lost(self, host: RemoteHost, why: str) -> None:
        with self._lock:
            trials = tuple(self._trials)
        for trial in trials:
            trial.lose(host, why)

    def _ended(self, trial: PlacedTrial) -> None:
        hosts, _ = self._entered()
        for share in trial.shares:
            hosts.give_back(share.host)
        with self._lock:
            self._trials.remove(trial)

    def _leave(self) -> None:
        with self._lock:
            trials = tuple(self._trials)
        for trial in trials:
            trial.kill()
        for trial in trials:
            trial.join()
        if self._hosts is not None:
            self._hosts.close()
        if self._listener is not None:
            self._listener.close()
        self._hosts = self._listener = None
        self._node_ids.clear()
        self._cluster.__exit__()
