"""torch's process group over the ranks of a trial, and how they agree on small things in it."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rb_core.errors import LaunchFailure, TrialMisuse
from rb_core.launchers import linux
from rb_core.oneline import first_line
from rb_core.training.peers import Alone, PeerLost, Peers, looks_like_lost_peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """How the ranks of one start come together.

    Attributes:
        world_size: number of ranks.
        host: address of rank 0's node; the loopback address where all ranks are on one node.
        port: where rank 0 listens.
        backend: as torch names it; empty for the one that fits.
        gpus_per_rank: share of GPUs that each rank has; 0 for none, less than 1 where ranks may share one.
        timeout_s: longest wait for another rank.
    """

    world_size: int
    host: str
    port: int
    backend: str
    gpus_per_rank: float
    timeout_s: float

    @property
    def device(self) -> str:
        """Where each rank computes. Ray shows a process no other GPUs than its own."""
        return "cuda:0" if self.gpus_per_rank else "cpu"


@contextmanager
def process_group(gathering: Gathering, rank: int, listener: socket.socket | None) -> Iterator[Peers]:
    """torch's default process group: nccl between GPUs where each rank has its own, else gloo.

    Also for a single rank, so that code which asks torch.distributed runs at any world size.

    Args:
        gathering: how the ranks come together.
        rank: which one this is.
        listener: on rank 0 of several, the socket at `gathering.port`; it is taken over.

    Raises:
        LaunchFailure: torch is not there, or cannot use the GPU that Ray has given.
    """
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        raise LaunchFailure(
            f"rb_ray.distributed needs torch, which cannot be imported here ({error}); "
            "pip install 'rubberband-tune[torch]' on every node"
        ) from None
    dist: Any = torch.distributed
    backend = gathering.backend or "gloo"
    if gathering.gpus_per_rank:
        if not torch.cuda.is_available():
            raise LaunchFailure(
                f"Ray has given rank {rank} a GPU, but torch finds no usable one in its process; "
                "install a CUDA build of torch there, or ask for no GPU"
            )
        torch.cuda.set_device(0)
        if not gathering.backend and gathering.gpus_per_rank >= 1:
            backend = "cpu:gloo,cuda:nccl"
    timeout = timedelta(seconds=gathering.timeout_s)
    _name_interface(gathering.host)
    if dist.is_initialized():
        # Of an earlier trial that Tune ran in this process.
        dist.destroy_process_group()
    world_size, peers = gathering.world_size, None
    if world_size == 1:
        store: Any = dist.HashStore()
    else:
        where = (gathering.host, gathering.port, world_size)
        descriptor = None if listener is None else listener.detach()
        store = dist.TCPStore(*where, rank == 0, timeout, wait_for_workers=False, master_listen_fd=descriptor)
        peers = StorePeers(dist.TCPStore(*where, False, timeout, wait_for_workers=False), rank, world_size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=timeout)
    yield peers or Alone()


def leave() -> None:
    """Give up this process's process group. Not while another thread of it waits in a collective operation."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


class StorePeers:
    """Peers by way of the store at which they meet, and apart from the collectives of the training function.

    That a rank is gone is not seen here: whoever watches over the ranks ends the others.

    Args:
        store: a connection of its own to torch's store.
        rank: which rank this is.
        world_size: how many there are.
    """

    def __init__(self, store: Any, rank: int, world_size: int) -> None:
        self._store = store
        self._rank = rank
        self._world_size = world_size
        self._occasions = 0
        self._heard: list[str] = []

    def broadcast(self, occasion: str, value: Any) -> Any:
        """Rank 0's value."""
        key = self._next_key()
        if self._rank:
            return self._read(key, occasion, 0)
        self._write(key, occasion, value)
        self._heard.append(key)
        return value

    def gather(self, occasion: str, value: Any) -> list[Any] | None:
        """Every rank's value on rank 0."""
        key = self._next_key()
        if self._rank:
            self._write(f"{key}/{self._rank}", occasion, value)
            return None
        keys = [f"{key}/{other}" for other in range(1, self._world_size)]
        values = [self._read(each, occasion, other) for other, each in enumerate(keys, start=1)]
        # Whoever has come here has read everything before.
        for each in (*self._heard, *keys):
            self._store.delete_key(each)
        self._heard.clear()
        return [value, *values]

    def _next_key(self) -> str:
        self._occasions += 1
        return f"rubberband/{self._occasions}"

    def _write(self, key: str, occasion: str, value: Any) -> None:
        with _losses():
            self._store.set(key, pickle.dumps((occasion, value)))

    def _read(self, key: str, occasion: str, other: int) -> Any:
        with _losses():
            theirs, value = pickle.loads(self._store.get(key))
        if theirs != occasion:
            raise TrialMisuse(
                f"the ranks of the trial went different ways: rank {other} is at {theirs!r}, "
                f"rank {self._rank} at {occasion!r}; every rank must run the same iterations and call "
                "save_due and save() in the same ones"
            )
        return value


@contextmanager
def _losses() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not looks_like_lost_peer(error):
            raise
        raise PeerLost(f"another rank is gone: {first_line(str(error))}") from None


def _name_interface(host: str) -> None:
    """Have gloo use the network interface that leads to rank 0, not the one that this host's name stands for."""
    if "GLOO_SOCKET_IFNAME" in os.environ:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 1))  # sends nothing
        name = linux.interface_of(probe.getsockname()[0])
    if name is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = name
